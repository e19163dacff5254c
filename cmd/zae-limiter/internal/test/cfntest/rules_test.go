package cfntest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
)

const small = `
Parameters:
  Size: {Type: Number, Default: 1, MinValue: 1, MaxValue: 9}
  Color: {Type: String, AllowedValues: [red, green], Default: red}
  Name: {Type: String, Default: ""}
Conditions:
  Named: !Not [!Equals [!Ref Name, ""]]
Resources:
  Queue:
    Type: AWS::SQS::Queue
    DeletionPolicy: Retain
    Properties: {QueueName: !Sub "${AWS::StackName}-queue", Delay: !Ref Size}
  Topic:
    Type: AWS::SNS::Topic
    Properties: {DisplayName: !If [Named, !Ref Name, !GetAtt Queue.Arn]}
Outputs:
  Name: {Value: !Ref Name, Condition: Named, Export: {Name: shared}}
`

// create asks for a change set of the type CREATE or UPDATE.
func create(c *cfntest.Cloud, kind types.ChangeSetType, stack, name, body string, parameters ...types.Parameter) error {
	_, err := c.CreateChangeSet(context.Background(), &cloudformation.CreateChangeSetInput{
		StackName: &stack, ChangeSetName: &name, ChangeSetType: kind, TemplateBody: &body, Parameters: parameters,
	})
	return err
}

func value(key, v string) types.Parameter {
	return types.Parameter{ParameterKey: &key, ParameterValue: &v}
}

// run executes a change set and returns the stack's status.
func run(t *testing.T, c *cfntest.Cloud, stack, name string) string {
	t.Helper()
	if _, err := c.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{StackName: &stack, ChangeSetName: &name}); err != nil {
		t.Fatal(err)
	}
	out, err := c.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: &stack})
	if err != nil {
		t.Fatal(err)
	}
	return string(out.Stacks[0].StackStatus)
}

// deployed is a cloud with the small stack.
func deployed(t *testing.T, o cfntest.Options, parameters ...types.Parameter) *cfntest.Cloud {
	t.Helper()
	c := cfntest.New(o)
	if err := create(c, types.ChangeSetTypeCreate, "s", "first", small, parameters...); err != nil {
		t.Fatal(err)
	}
	if got := run(t, c, "s", "first"); got != "CREATE_COMPLETE" {
		t.Fatalf("status %s", got)
	}
	return c
}

func TestWhatAWSRefusesIsRefused(t *testing.T) {
	t.Parallel()
	edit := func(old, with string) string { return strings.Replace(small, old, with, 1) }
	previous := types.Parameter{ParameterKey: aws.String("Color"), UsePreviousValue: aws.Bool(true)}
	for name, c := range map[string]struct {
		body       string
		parameters []types.Parameter
		says       string
	}{
		"no YAML":              {"a: [", nil, "YAML not well-formed"},
		"no resources":         {"Parameters: {}", nil, "At least one Resources member"},
		"an unknown section":   {small + "Extra: {}", nil, "Invalid template property or properties [Extra]"},
		"an unknown tag":       {edit("!GetAtt Queue.Arn", "!Guess Queue"), nil, "unknown tag !Guess"},
		"a null":               {edit("!GetAtt Queue.Arn", "~"), nil, "'null' values are not allowed"},
		"a policy":             {edit("Policy: Retain", "Policy: Keep"), nil, "Unrecognized DeletionPolicy Keep"},
		"a policy by function": {edit("Policy: Retain", "Policy: !Ref Color"), nil, "DeletionPolicy member must be a string"},
		"no such resource":     {edit("!GetAtt Queue.Arn", "!GetAtt Quay.Arn"), nil, "Unresolved resource dependencies [Quay]"},
		"no such condition":    {edit("Condition: Named", "Condition: Nameless"), nil, "Unresolved condition dependency Nameless"},
		"a long template":      {small + "# " + strings.Repeat("x", 51_200), nil, "less than or equal to 51200"},
		"no such parameter":    {small, []types.Parameter{value("Sise", "1")}, "Parameters: [Sise] do not exist in the template"},
		"a value out of range": {small, []types.Parameter{value("Size", "10")}, "must be a number not greater than 9"},
		"a value not allowed":  {small, []types.Parameter{value("Color", "blue")}, "must be one of AllowedValues"},
		"no previous value":    {small, []types.Parameter{previous}, "Cannot specify usePreviousValue as true"},
		"a missing value":      {edit(`Default: ""`, `NoEcho: false`), nil, "Parameters: [Name] must have values"},
	} {
		cloud := cfntest.New(cfntest.Options{})
		err := create(cloud, types.ChangeSetTypeCreate, "s", "first", c.body, c.parameters...)
		api := smithy.APIError(nil)
		if !errors.As(err, &api) || api.ErrorCode() != "ValidationError" || !strings.Contains(api.ErrorMessage(), c.says) {
			t.Errorf("%s: error %v", name, err)
		}
		if _, err := cloud.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: aws.String("s")}); err == nil {
			t.Errorf("%s: a stack was made", name)
		}
	}
}

func TestIAMNeedsItsCapability(t *testing.T) {
	t.Parallel()
	body := small + "\n" // the role comes into Resources
	body = strings.Replace(body, "Resources:\n", "Resources:\n  Role: {Type: AWS::IAM::Role}\n", 1)
	err := create(cfntest.New(cfntest.Options{}), types.ChangeSetTypeCreate, "s", "first", body)
	if needs := (*types.InsufficientCapabilitiesException)(nil); !errors.As(err, &needs) {
		t.Errorf("error %v", err)
	}
}

func TestAStackIsCreatedOnce(t *testing.T) {
	t.Parallel()
	c := deployed(t, cfntest.Options{})
	if err := create(c, types.ChangeSetTypeCreate, "s", "second", small); err == nil || !strings.Contains(err.Error(), "already exists and cannot be created again") {
		t.Errorf("error %v", err)
	}
	if err := create(c, types.ChangeSetTypeUpdate, "other", "second", small); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("error %v", err)
	}
}

func TestAnExportBelongsToOneStack(t *testing.T) {
	t.Parallel()
	c := deployed(t, cfntest.Options{}, value("Name", "x"))
	if err := create(c, types.ChangeSetTypeCreate, "t", "first", small, value("Name", "y")); err != nil {
		t.Fatal(err)
	}
	if got := run(t, c, "t", "first"); got != "ROLLBACK_COMPLETE" {
		t.Errorf("status %s", got)
	}
}

// Retain also holds when a creation is rolled back, and the thing left blocks the next one.
func TestARolledBackCreationLeavesWhatIsRetained(t *testing.T) {
	t.Parallel()
	c := cfntest.New(cfntest.Options{})
	c.Fail("CREATE", "Topic", "no")
	for i, want := range []bool{true, false} {
		body := small
		if !want {
			body = strings.Replace(small, "DeletionPolicy: Retain", "DeletionPolicy: RetainExceptOnCreate", 1)
		}
		name := []string{"s", "t"}[i]
		if err := create(c, types.ChangeSetTypeCreate, name, "first", body); err != nil {
			t.Fatal(err)
		}
		if got := run(t, c, name, "first"); got != "ROLLBACK_COMPLETE" {
			t.Errorf("status %s", got)
		}
		if got := c.Exists("AWS::SQS::Queue", name+"-queue"); got != want {
			t.Errorf("the queue of %s is left: %v", name, got)
		}
	}
}

func TestAnUpdateThatFailsReturnsToTheOldForm(t *testing.T) {
	t.Parallel()
	c := deployed(t, cfntest.Options{})
	c.Fail("UPDATE", "Topic", "no")
	if err := create(c, types.ChangeSetTypeUpdate, "s", "second", small, value("Size", "2"), value("Name", "n")); err != nil {
		t.Fatal(err)
	}
	if got := run(t, c, "s", "second"); got != "UPDATE_ROLLBACK_COMPLETE" {
		t.Errorf("status %s", got)
	}
	c.Fail("UPDATE", "Topic", "")
	if err := create(c, types.ChangeSetTypeUpdate, "s", "third", small); err != nil {
		t.Fatal(err)
	}
	out, err := c.DescribeChangeSet(t.Context(), &cloudformation.DescribeChangeSetInput{StackName: aws.String("s"), ChangeSetName: aws.String("third")})
	if err != nil || out.Status != types.ChangeSetStatusFailed || !strings.Contains(aws.ToString(out.StatusReason), "didn't contain changes") {
		t.Errorf("the old form has changes: %+v, error %v", out, err)
	}
}

func TestAnOperationTakesItsTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := cfntest.New(cfntest.Options{Now: func() time.Time { return now }, Step: time.Minute})
	if err := create(c, types.ChangeSetTypeCreate, "s", "first", small); err != nil {
		t.Fatal(err)
	}
	if got := run(t, c, "s", "first"); got != "CREATE_IN_PROGRESS" {
		t.Errorf("status %s", got)
	}
	if err := create(c, types.ChangeSetTypeUpdate, "s", "second", small); err == nil || !strings.Contains(err.Error(), "is in CREATE_IN_PROGRESS state and can not be updated") {
		t.Errorf("error %v", err)
	}
	for i, want := range []types.StackStatus{"CREATE_IN_PROGRESS", "CREATE_COMPLETE"} {
		now = now.Add(time.Minute)
		out, err := c.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: aws.String("s")})
		if err != nil || out.Stacks[0].StackStatus != want {
			t.Errorf("after %d minutes: %+v, error %v", i+1, out, err)
		}
	}
}
