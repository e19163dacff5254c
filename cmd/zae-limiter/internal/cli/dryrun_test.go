package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A dry run of a new stack lists the resources that the first change set then makes.
func TestADryRunListsWhatADeploymentMakes(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::123456789012:role/there"
	for _, flags := range []string{
		"", "--no-aggregator", "--no-provisioner", "--no-aggregator --no-provisioner", "--no-alarms", "--no-audit-archival", "--no-iam",
		"--no-iam --aggregator-role-arn " + role, "--provisioner-role-arn " + role, "--create-iam-roles --create-namespace-roles", "--provisioned",
		"--permission-boundary arn:aws:iam::aws:policy/PowerUserAccess", "--kms-key arn:aws:kms:eu-west-1:123456789012:key/1", "--delete-data-with-stack",
	} {
		engine := dynamolite.New(dynamolite.Options{})
		cloud := cfntest.New(cfntest.Options{Tables: engine})
		t.Cleanup(func() { _ = engine.Close() })
		made := func(mode string) (ids []string) {
			var stdout, stderr bytes.Buffer
			o := unconnected(t, append([]string{"deploy", "-n", "limits", "--output", "json", mode}, strings.Fields(flags)...), &stdout, &stderr)
			o.Executable = executable
			o.ConnectStack = func(context.Context, app.Endpoint) (stack.Clients, error) {
				return stack.Clients{CloudFormation: cloud, Buckets: cloud, Functions: cloud, Tagging: cloud, Database: engine}, nil
			}
			var shown struct {
				Changes []struct{ Action, Resource string }
			}
			code := cli.Run(t.Context(), o)
			if err := json.Unmarshal(stdout.Bytes(), &shown); code != 0 || err != nil {
				t.Fatalf("%s %s: exit code %d: %v: %s", flags, mode, code, err, &stderr)
			}
			for _, c := range shown.Changes {
				ids = append(ids, c.Action+" "+c.Resource)
			}
			return ids
		}
		listed := made("--dry-run")
		ids := made("--yes")
		first := ids[:min(len(listed), len(ids))]
		slices.Sort(listed)
		slices.Sort(first)
		if diff := cmp.Diff(first, listed); diff != "" || len(listed) == 0 {
			t.Errorf("%s (-made +listed):\n%s", flags, diff)
		}
	}
}
