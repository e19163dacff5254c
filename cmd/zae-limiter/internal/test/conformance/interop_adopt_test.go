//go:build conformance

package conformance_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/elftest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// peerTemplate is the template of the installed Python package.
func peerTemplate(t *testing.T) string {
	t.Helper()
	const find = "import importlib.util as u, os; print(os.path.dirname(u.find_spec('zae_limiter').origin))"
	out, err := exec.CommandContext(t.Context(), peers.Python(t), "-c", find).Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "infra", "cfn_template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An account has a stack of the peer's own template, on a CloudFormation in memory.
type account struct {
	*testing.T
	cloud  *cfntest.Cloud
	engine *dynamolite.DB
}

func peerStack(t *testing.T, parameters map[string]string) *account {
	t.Helper()
	a := &account{T: t, engine: dynamolite.New(dynamolite.Options{})}
	t.Cleanup(func() { _ = a.engine.Close() })
	a.cloud = cfntest.New(cfntest.Options{Tables: a.engine})
	name, body := "limits", peerTemplate(t)
	pair := func(key, value string) types.Parameter {
		return types.Parameter{ParameterKey: &key, ParameterValue: &value}
	}
	tag := func(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }
	in := &cloudformation.CreateChangeSetInput{
		StackName: &name, ChangeSetName: &name, ChangeSetType: types.ChangeSetTypeCreate, TemplateBody: &body,
		Capabilities: []types.Capability{types.CapabilityCapabilityNamedIam},
		Tags:         []types.Tag{tag(stack.TagManagedBy, stack.ManagedBy), tag(stack.TagName, name)},
	}
	for key, value := range parameters {
		in.Parameters = append(in.Parameters, pair(key, value))
	}
	if _, err := a.cloud.CreateChangeSet(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if _, err := a.cloud.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{StackName: &name, ChangeSetName: &name}); err != nil {
		t.Fatal(err)
	}
	if s := a.stack(); s.StackStatus != types.StackStatusCreateComplete {
		t.Fatalf("the peer's stack is %s: %v", s.StackStatus, s.StackStatusReason)
	}
	return a
}

func (a *account) stack() types.Stack {
	a.Helper()
	name := "limits"
	out, err := a.cloud.DescribeStacks(a.Context(), &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil {
		a.Fatal(err)
	}
	return out.Stacks[0]
}

// output is an output of the stack, "" if it has none of the name.
func (a *account) output(key string) string {
	a.Helper()
	for _, o := range a.stack().Outputs {
		if *o.OutputKey == key {
			return *o.OutputValue
		}
	}
	return ""
}

// run runs the program.
func (a *account) run(args ...string) (stdout, stderr string, code int) {
	a.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(a.Context(), cli.Options{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return a.engine, nil },
		ConnectStack: func(context.Context, app.Endpoint) (stack.Clients, error) {
			return stack.Clients{CloudFormation: a.cloud, Buckets: a.cloud, Functions: a.cloud, Tagging: a.cloud, Database: a.engine}, nil
		},
		Executable: func() ([]byte, error) {
			return elftest.Program("github.com/zeroae/zae-limiter-go/cmd/zae-limiter", "linux", elf.EM_AARCH64), nil
		},
	})
	return out.String(), errs.String(), code
}

// A change is a change as the program shows it.
type change struct {
	Action      string
	Resource    string `json:"logical_id"`
	Type        string
	Replacement string
}

// adopted deploys over the peer's stack and returns the changes.
func (a *account) adopted(args ...string) []change {
	a.Helper()
	stdout, stderr, code := a.run(append([]string{"deploy", "-n", "limits", "--yes", "--output", "json"}, args...)...)
	var result struct{ Changes []change }
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != 0 {
		a.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	return result.Changes
}

// The aggregator changes in place, in one change set, so that no stream record is lost.
func TestAStackOfThePeersTemplateIsAdoptedInPlace(t *testing.T) {
	t.Parallel()
	for name, parameters := range map[string]map[string]string{
		"as its commands make it": {"EnableIAMRoles": "false", "SchemaVersion": "0.10.0"},
		"with roles and formats": {
			"EnableIAMRoles": "true", "RoleNameFormat": "team-{}", "AggregatorRoleName": "team-limits-aggr", "ProvisionerRoleName": "team-limits-prov",
			"AppRoleName": "team-limits-app", "AdminRoleName": "team-limits-admin", "ReadOnlyRoleName": "team-limits-read",
			"AcquireOnlyPolicyName": "limits-acq-x", "FullAccessPolicyName": "limits-full-x", "ReadOnlyPolicyName": "limits-read-x",
			"NamespaceAcquirePolicyName": "limits-ns-acq-x", "NamespaceFullAccessPolicyName": "limits-ns-full-x", "NamespaceReadOnlyPolicyName": "limits-ns-read-x",
			"PermissionBoundary": "bound", "EnableTracing": "true", "LambdaTimeout": "120", "LambdaDurationThreshold": "60000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := peerStack(t, parameters)
			archive := a.output(stack.OutputCodeBucket)
			a.cloud.Asked()
			changes := a.adopted()
			asked := a.cloud.Asked()
			if n := len(slices.DeleteFunc(asked, func(op string) bool { return op != "ExecuteChangeSet" })); n != 1 {
				t.Errorf("%d change sets", n)
			}
			modified := 0
			for _, c := range changes {
				if c.Action == "Remove" || c.Action == "Modify" && c.Replacement != "False" {
					t.Errorf("change %+v", c)
				}
				if c.Action == "Modify" && (c.Resource == "AggregatorFunction" || c.Resource == "AggregatorEventSourceMapping") {
					modified++
				}
			}
			if modified != 2 {
				t.Errorf("the aggregator and its mapping do not change in place: %+v", changes)
			}
			if got := a.output(stack.OutputCodeBucket); got != archive || len(a.cloud.Objects(archive)) != 1 {
				t.Errorf("the code's bucket was %s and is %s, with %v", archive, got, a.cloud.Objects(archive))
			}
			if again := a.adopted(); len(again) > 0 {
				t.Errorf("a second deployment changes %+v", again)
			}
		})
	}
}

// Without an archive, the peer's stack has no bucket. The functions change in place only if
// somebody names one.
func TestAStackOfThePeerWithoutAnArchive(t *testing.T) {
	t.Parallel()
	a := peerStack(t, map[string]string{"EnableAuditArchival": "false", "EnableIAMRoles": "false"})
	stdout, stderr, code := a.run("deploy", "-n", "limits", "--dry-run")
	if code != 0 || !strings.Contains(stdout, "# Remove  AggregatorFunction ") || !strings.Contains(stdout, "# Later: a second change set adds the functions") || !strings.Contains(stdout, "--code-bucket") {
		t.Fatalf("exit code %d: %s\n%s", code, stderr, stdout)
	}
	a.cloud.AddBucket("artefacts")
	for _, c := range a.adopted("--code-bucket", "artefacts", "--no-audit-archival") {
		if c.Action == "Remove" || c.Action == "Modify" && c.Replacement != "False" || c.Type == "AWS::S3::Bucket" {
			t.Errorf("change %+v", c)
		}
	}
}

func TestAStackOfThePeerWhoseNamesFollowNoFormatIsRefused(t *testing.T) {
	t.Parallel()
	a := peerStack(t, map[string]string{"EnableIAMRoles": "false", "ReadOnlyPolicyName": "readers"})
	a.cloud.Asked()
	_, stderr, code := a.run("deploy", "-n", "limits", "--yes")
	if code != 1 || !strings.Contains(stderr, "parameter ReadOnlyPolicyName") || !strings.Contains(stderr, "would replace readers by limits-read") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if slices.Contains(a.cloud.Asked(), "CreateChangeSet") {
		t.Error("a change set was made")
	}
}

// CloudFormation returns the functions to their template, whose code is a placeholder.
func TestAnAdoptionThatFailsSaysWhatBecomesOfTheFunctions(t *testing.T) {
	t.Parallel()
	a := peerStack(t, map[string]string{"EnableIAMRoles": "false"})
	a.cloud.Fail("UPDATE", "AggregatorEventSourceMapping", "the filter is too long")
	_, stderr, code := a.run("deploy", "-n", "limits", "--yes")
	if code != 1 || !strings.Contains(stderr, "the filter is too long") || !strings.Contains(stderr, "placeholder code") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	a.cloud.Fail("UPDATE", "AggregatorEventSourceMapping", "")
	a.adopted()
}
