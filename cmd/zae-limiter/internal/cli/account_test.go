package cli_test

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cftypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cloudtest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// managed is a metered engine whose tables can be administered, as those of AWS.
type managed struct {
	*dynamo.Meter
	tables
	*vault
	streams
}

// tables are the operations of an engine that a meter does not have.
type tables struct{ engine *dynamolite.DB }

func (t tables) UpdateTable(ctx context.Context, in *dynamodb.UpdateTableInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error) {
	return t.engine.UpdateTable(ctx, in, o...)
}

func (t tables) DeleteTable(ctx context.Context, in *dynamodb.DeleteTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error) {
	return t.engine.DeleteTable(ctx, in, o...)
}

func (t tables) ListTagsOfResource(ctx context.Context, in *dynamodb.ListTagsOfResourceInput, o ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error) {
	return t.engine.ListTagsOfResource(ctx, in, o...)
}

func (t tables) TagResource(ctx context.Context, in *dynamodb.TagResourceInput, o ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error) {
	return t.engine.TagResource(ctx, in, o...)
}

// ListTables is refused: no policy of a stack permits it.
func (t tables) ListTables(context.Context, *dynamodb.ListTablesInput, ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error) {
	return nil, &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform: dynamodb:ListTables"}
}

// connectHealth answers from an account that has the resources of the cloud's stacks. A
// resource that is new to the account is in order.
func (w *world) connectHealth(ctx context.Context, _ app.Endpoint) (health.Clients, error) {
	out, err := w.cloud.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{})
	if err != nil {
		return health.Clients{}, err
	}
	for i := range out.Stacks {
		resources, err := w.cloud.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: out.Stacks[i].StackName})
		if err != nil {
			return health.Clients{}, err
		}
		for _, r := range resources.StackResources {
			w.accountFor(ctx, &r)
		}
	}
	return health.Clients{Watch: w.account, Functions: w.account, Queues: w.account, Logs: w.account, Buckets: w.account}, nil
}

func newAccount() *cloudtest.Account {
	return &cloudtest.Account{Functions: map[string]*cloudtest.Function{}, Queues: map[string]cloudtest.Queue{}, Buckets: map[string][]s3types.LifecycleRule{}}
}

// accountFor gives the account what a new resource makes.
func (w *world) accountFor(ctx context.Context, r *cftypes.StackResource) {
	a, id := w.account, aws.ToString(r.PhysicalResourceId)
	if id != "" && aws.ToString(r.ResourceType) == "AWS::Lambda::Function" {
		a.Functions[id] = w.functionFor(ctx, r)
	}
	if id == "" || w.known[id] {
		return
	}
	w.known[id] = true
	switch aws.ToString(r.ResourceType) {
	case "AWS::Lambda::EventSourceMapping":
		a.Mappings = append(a.Mappings, lambdatypes.EventSourceMappingConfiguration{
			UUID: &id, State: aws.String("Enabled"), LastProcessingResult: aws.String("OK"),
			EventSourceArn: aws.String("arn:aws:dynamodb:eu-central-1:123456789012:table/limits/stream/x"),
			FunctionArn:    aws.String("arn:aws:lambda:eu-central-1:123456789012:function:" + aws.ToString(r.StackName) + "-aggregator"),
		})
	case "AWS::SQS::Queue":
		a.Queues["https://sqs.eu-central-1.amazonaws.com/123456789012/"+id] = cloudtest.Queue{}
	case "AWS::S3::Bucket":
		a.Buckets[id] = []s3types.LifecycleRule{{
			ID: aws.String("TransitionToGlacier"), Status: s3types.ExpirationStatusEnabled, Filter: &s3types.LifecycleRuleFilter{Prefix: aws.String("audit/")},
			Transitions: []s3types.Transition{{StorageClass: s3types.TransitionStorageClassGlacierIr, Days: aws.Int32(90)}},
		}}
	case "AWS::CloudWatch::Alarm":
		a.Alarms = append(a.Alarms, types.MetricAlarm{
			AlarmName: &id, StateValue: types.StateValueOk, ActionsEnabled: aws.Bool(true), AlarmActions: []string{"arn:aws:sns:eu-central-1:123456789012:oncall"},
			StateUpdatedTimestamp: aws.Time(w.clock),
		})
	}
}

// functionFor is a function as the cloud has it.
func (w *world) functionFor(ctx context.Context, r *cftypes.StackResource) *cloudtest.Function {
	f := &cloudtest.Function{State: "Active", Update: "Successful", Modified: w.now()}
	if has, err := w.cloud.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: r.PhysicalResourceId}); err == nil {
		f.SHA256, f.Handler, f.Runtime, f.Environment = aws.ToString(has.CodeSha256), aws.ToString(has.Handler), has.Runtime, has.Environment.Variables
		f.MemoryMB, f.TimeoutS, f.Architecture = aws.ToInt32(has.MemorySize), aws.ToInt32(has.Timeout), slices.Concat(has.Architectures, []lambdatypes.Architecture{lambdatypes.ArchitectureX8664})[0]
	}
	return f
}

// change changes the account: see [TestScripts].
func change(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	a := w.account
	if len(args) < 2 {
		ts.Fatalf("usage: account alarm|letters|calls|age|log|deny …")
	}
	_, err := w.connectHealth(context.Background(), app.Endpoint{}) // it knows the resources then
	ts.Check(err)
	function := "limits-aggregator"
	just := w.now().Add(-time.Minute)
	number := func(i int) float64 {
		n, err := strconv.ParseFloat(args[i], 64)
		ts.Check(err)
		return n
	}
	switch args[0] {
	case "alarm":
		for i := range a.Alarms {
			if *a.Alarms[i].AlarmName == args[1] {
				a.Alarms[i].StateValue, a.Alarms[i].StateReason = types.StateValueAlarm, aws.String(strings.Join(args[2:], " "))
				a.Alarms[i].StateUpdatedTimestamp = aws.Time(just)
				return
			}
		}
		ts.Fatalf("there is no alarm %s", args[1])
	case "letters":
		for url := range a.Queues {
			a.Queues[url] = cloudtest.Queue{Visible: int(number(1))}
			a.Measure("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", path.Base(url), just, number(2))
		}
	case "calls":
		a.Measure("AWS/Lambda", "Invocations", "FunctionName", function, just, number(1))
		a.Measure("AWS/Lambda", "Errors", "FunctionName", function, just, number(2))
	case "age":
		a.Measure("AWS/Lambda", "IteratorAge", "FunctionName", function, just, number(1))
	case "log":
		a.Log("/aws/lambda/"+function, just, strings.Join(args[1:], " "))
	case "deny":
		for _, action := range args[1:] {
			a.Deny(action)
		}
	}
}
