package loadtest_test

import (
	"bytes"
	"context"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cftypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/elftest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// limiterStack has the outputs of a limiter's stack that a load test needs.
const limiterStack = `
Resources: {Queue: {Type: AWS::SQS::Queue}}
Outputs:
  TableArn: {Value: 'arn:aws:dynamodb:eu-central-1:123456789012:table/limits'}
  CodeBucketName: {Value: limits-code}
`

// account is an account with a limiter called limits.
func account(t *testing.T) stack.Clients {
	t.Helper()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		t.Fatal(err)
	}
	cloud := cfntest.New(cfntest.Options{})
	cloud.AddBucket("limits-code")
	name, body := "limits", limiterStack
	if _, err := cloud.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{StackName: &name, ChangeSetName: &name, ChangeSetType: cftypes.ChangeSetTypeCreate, TemplateBody: &body}); err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{StackName: &name, ChangeSetName: &name}); err != nil {
		t.Fatal(err)
	}
	return stack.Clients{CloudFormation: cloud, Buckets: cloud, Functions: cloud, Tagging: cloud, Database: engine, Tasks: cloud}
}

// onAccount runs a command line on an account.
func onAccount(t *testing.T, clients stack.Clients, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return answering(t, clients, "", args...)
}

// answering runs a command line on an account, for somebody who answers its questions; ""
// has no terminal.
func answering(t *testing.T, clients stack.Clients, answers string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app.App{
		Terminal: answers != "",
		Stdin:    strings.NewReader(answers), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" },
		ConnectStack: func(context.Context, app.Endpoint) (stack.Clients, error) { return clients, nil },
		Executable: func() ([]byte, error) {
			return elftest.Program("github.com/zeroae/zae-limiter-go/cmd/zae-limiter", "linux", elf.EM_AARCH64), nil
		},
	}
	root := &cobra.Command{Use: "zae-limiter", SilenceErrors: true, SilenceUsage: true}
	a.Flags.Bind(root.PersistentFlags())
	root.AddCommand(loadtest.New(a))
	root.SetArgs(append([]string{"loadtest"}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// deployed is an account with a stack for load tests.
func deployed(t *testing.T) stack.Clients {
	t.Helper()
	clients := account(t)
	if _, stderr, err := onAccount(t, clients, "deploy", "-n", "limits", "--vpc-id", "vpc-01234567", "--subnet-ids", "subnet-01234567", "--yes"); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	return clients
}

// script writes a program for the path of programs.
func script(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

// ui --open runs the command that ui prints, and says which program it lacks.
func TestUIOpensAPortForward(t *testing.T) {
	clients := deployed(t)
	printed, _, err := onAccount(t, clients, "ui", "-n", "limits")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	for _, name := range []string{"aws", "session-manager-plugin"} {
		if _, _, err := onAccount(t, clients, "ui", "-n", "limits", "--open"); err == nil || !strings.Contains(err.Error(), name+" is missing on this machine: install ") {
			t.Errorf("without %s: %v", name, err)
		}
		script(t, folder, name, `echo "aws $*"`)
	}
	stdout, stderr, err := onAccount(t, clients, "ui", "-n", "limits", "--open")
	if want := strings.ReplaceAll(printed, "'", ""); err != nil || stdout != want || !strings.Contains(stderr, "http://localhost:8089") {
		t.Errorf("%v: it runs %q, and printed %q\n%s", err, stdout, printed, stderr)
	}
	script(t, folder, "aws", "exit 255")
	if _, _, err := onAccount(t, clients, "ui", "-n", "limits", "--open"); err == nil || !strings.Contains(err.Error(), "ssm:StartSession") {
		t.Errorf("a session that fails: %v", err)
	}
}

// Each refused option names its flag.
func TestErrorsNameTheFlag(t *testing.T) {
	t.Parallel()
	clients := account(t)
	empty := filepath.Join(t.TempDir(), "empty.py")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	usual := []string{"deploy", "-n", "limits", "--yes", "--vpc-id", "vpc-01234567", "--subnet-ids", "subnet-01234567"}
	for flag, value := range map[string]string{
		"vpc-id": "v", "subnet-ids": "10.0.0.0/24", "route-table-ids": "main", "image": "A", "locust-arguments": "--headless", "cpu": "3", "memory": "1",
		"capacity-provider": "EC2", "task-arch": "ppc", "min-workers": "2000", "max-workers": "2000", "users-per-worker": "-1", "worker-memory": "1",
		"worker-timeout": "1h", "fargate-workers": "-1", "code-bucket": "A", "log-retention-days": "2", "permission-boundary": "a b",
		"role-name-format": "x", "tag": "aws:x=y", "locustfile": empty, "worker-image": "A", "scenario": "none",
	} {
		_, _, err := onAccount(t, clients, append(usual, "--"+flag, value)...)
		if err == nil || !strings.Contains(err.Error(), "--"+flag) && flag != "scenario" {
			t.Errorf("--%s %s: %v", flag, value, err)
		}
	}
	if all, err := admin.NewNamespaces(dynamo.Options{API: clients.Database, Table: "limits"}); err != nil {
		t.Error(err)
	} else if found, err := all.List(t.Context()); err != nil || len(found) != 1 { // the default one
		t.Errorf("refused deployments registered %v, %v", found, err)
	}
}

// A stack of the Python package for load tests has no scenario: the update gives it one.
func TestAStackOfThePythonPackageIsUpdated(t *testing.T) {
	t.Parallel()
	clients := account(t)
	name, body := "limits-load", "Parameters: {MaxWorkers: {Type: Number, Default: 50}, SubnetIds: {Type: CommaDelimitedList, Default: 'subnet-01234567'}}\nResources: {Queue: {Type: AWS::SQS::Queue}}"
	kind, managed := stack.TypeLoadTest, stack.ManagedBy
	typed, by := stack.TagType, stack.TagManagedBy
	if _, err := clients.CloudFormation.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{
		StackName: &name, ChangeSetName: &name, ChangeSetType: cftypes.ChangeSetTypeCreate, TemplateBody: &body,
		Tags: []cftypes.Tag{{Key: &typed, Value: &kind}, {Key: &by, Value: &managed}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := clients.CloudFormation.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{StackName: &name, ChangeSetName: &name}); err != nil {
		t.Fatal(err)
	}
	if _, stderr, err := onAccount(t, clients, "deploy", "-n", "limits", "--vpc-id", "vpc-01234567", "--yes"); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	if out, _, err := onAccount(t, clients, "list"); err != nil || !strings.Contains(out, "simple") || !strings.Contains(out, " 50 ") {
		t.Errorf("%v: %s", err, out)
	}
}
