package cli_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A letter is a queue of at most one message.
type letter struct{ body string }

func (l *letter) ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	out := &sqs.ReceiveMessageOutput{}
	if l.body != "" {
		out.Messages = []types.Message{{MessageId: aws.String("m1"), ReceiptHandle: aws.String("r1"), Body: aws.String(l.body)}}
		l.body = ""
	}
	return out, nil
}

func (*letter) DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	return &sqs.DeleteMessageOutput{}, nil
}

func (*letter) ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	return &sqs.ChangeMessageVisibilityOutput{}, nil
}

// expired is a message about a range that a stream no longer has.
func expired(stream string) string {
	return `{"DDBStreamBatchInfo":{"shardId":"shardId-00000001573689847184-864758bb","startSequenceNumber":"000000000000000000512",` +
		`"endSequenceNumber":"000000000000000000512","streamArn":"` + stream + `"}}`
}

// The command shows what became of each message, and fails while one is kept.
func TestRedrive(t *testing.T) {
	t.Parallel()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "zae-limiter", Stream: true}); err != nil {
		t.Fatal(err)
	}
	described, err := engine.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("zae-limiter")})
	if err != nil {
		t.Fatal(err)
	}
	gone := expired(*described.Table.LatestStreamArn)
	const url = "http://127.0.0.1:9324/000000000000/dlq"
	cloud := cfntest.New(cfntest.Options{})
	if err := makeStack(cloud, "zae-limiter", "Resources: {Queue: {Type: AWS::SQS::Queue}}\nOutputs: {AggregatorDLQUrl: {Value: !Ref Queue}}"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body string
		args string
		exit int
		want string
	}{
		{"", "--queue-url " + url, 0, "the queue has no messages"},
		{"hello", "--queue-url " + url, 1, "m1: the message is not JSON"},
		{gone, "--queue-url " + url, 1, "1 of 1 messages kept"},
		{gone, "--queue-url " + url + " --discard-expired --output json", 0, `"state":"expired","deleted":true`},
		{gone, "", 1, "1 of 1 messages kept"}, // the stack knows its queue
		{gone, "--dry-run", 1, "dry run, nothing was changed: without --dry-run, 0 of 1 messages would be processed or discarded, and 1 would stay"},
		{gone, "--dry-run --discard-expired", 0, "1 of 1 messages would be processed or discarded, and 0 would stay"},
		{gone, "--table other", 1, "find the dead-letter queue: stack \"other\" not found"},
		{gone, "--local nowhere", 2, "missing --queue-url"},
		{gone, "--queue-url dlq", 2, `invalid --queue-url "dlq"`},
		{gone, "--queue-url " + url + " --max 0", 2, "invalid --max 0"},
	} {
		var out bytes.Buffer
		code := cli.Run(t.Context(), cli.Options{
			Args: append([]string{"redrive"}, strings.Fields(c.args)...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
			Getenv:  func(string) string { return "" },
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
			ConnectStack: func(context.Context, app.Endpoint) (stack.Clients, error) {
				return stack.Clients{CloudFormation: cloud, Buckets: cloud, Functions: cloud, Tagging: cloud, Database: engine}, nil
			},
			ConnectQueue: func(_ context.Context, e app.Endpoint) (redrive.Queue, error) {
				if e.URL == "" {
					t.Errorf("%s: no queue", c.args)
				}
				return &letter{c.body}, nil
			},
		})
		if code != c.exit || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit code %d, output %s; want %d and %q", c.args, code, &out, c.exit, c.want)
		}
		if wantsOutput(strings.Fields(c.args), "json") {
			if err := validate("redrive", out.Bytes()); err != nil {
				t.Errorf("%s: %v", c.args, err)
			}
		}
	}
}

// lost is a queue that cannot be reached.
type lost struct{ redrive.Queue }

func (lost) ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// A queue that cannot be read is not said to be empty.
func TestAQueueThatCannotBeReadIsNotEmpty(t *testing.T) {
	t.Parallel()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "zae-limiter", Stream: true}); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), cli.Options{
		Args:  []string{"redrive", "--queue-url", "http://127.0.0.1:9324/000000000000/dlq", "--output", "json"},
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" },
		Connect:      func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
		ConnectQueue: func(context.Context, app.Endpoint) (redrive.Queue, error) { return lost{}, nil },
	})
	if code != 1 || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), `{"error":"unavailable","message":"receive from http://127.0.0.1:9324/`) {
		t.Errorf("exit code %d, output %s, errors %s", code, &stdout, &stderr)
	}
}
