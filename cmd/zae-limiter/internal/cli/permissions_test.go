package cli_test

import (
	"context"
	"flag"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

var updatePermissions = flag.Bool("update.permissions", false, "write the requests of the commands to the file of recorded requests")

const (
	// recordedCommands has the requests of every command.
	recordedCommands = "../test/permissions/recorded/commands.json"
	// recordedCalls has the requests of every library call.
	recordedCalls = "../test/permissions/recorded/library.json"
)

// withoutScripts lists the commands that only AWS Lambda runs, that need a master of
// Locust, or that serve. Their requests are those of
// the library calls of which they are made.
var withoutScripts = []string{"loadtest orchestrate", "loadtest serve-worker", "loadtest worker", "provision", "serve"}

// withoutRequests lists the commands that send no request to AWS.
var withoutRequests = []string{"estimate", "lambda-export", "limits cfn-template", "limits schema", "loadtest compare", "loadtest scenarios", "loadtest report", "loadtest show", "local", "name decode", "name encode", "periods", "replay", "template", "version"}

// byTiming lists the commands whose requests depend on how much they get done: a load test makes
// and deletes as many items as it has time for. The file may have more than one run sends.
var byTiming = []string{"loadtest ceiling", "loadtest run", "loadtest tune"}

// onWhole lists the commands that need more of DynamoDB than items.
var onWhole = []string{
	"backup create", "backup delete", "backup list", "backup restore", "check", "status", "table delete", "table enable-stream", "table show",
}

// apart is a flag with which a command is recorded as another one, because it reads what
// belongs to the table.
const apart = "--namespace-name"

// commands record the requests of commands.
type commands struct {
	*permissions.Recorder
	scripts atomic.Int64 // that were run
	asJSON  sync.Map     // commands that succeeded with JSON output
}

// recordCommands returns a recorder. When the test and its scripts end, it compares what
// they sent with what is recorded.
func recordCommands(t *testing.T) *commands {
	t.Helper()
	c := &commands{Recorder: permissions.NewRecorder()}
	c.recordOthers(t)
	t.Cleanup(func() {
		files, err := filepath.Glob("testdata/script/*.txtar")
		if err != nil {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
		c.compare(t, c.scripts.Load() == int64(len(files)))
	})
	return c
}

// compare compares what was sent with the file, and writes the file first if the test is
// told so. Unless all scripts were run, the file may have more.
func (c *commands) compare(t *testing.T, all bool) {
	t.Helper()
	library, err := permissions.Read(recordedCalls)
	if err != nil {
		t.Fatal(err)
	}
	seen := c.Seen().Whole(library)
	if *updatePermissions && all {
		if err := seen.Write(recordedCommands); err != nil {
			t.Error(err)
		}
	}
	seen.Compare(t, recordedCommands, all, byTiming...)
	if all {
		c.complete(t)
		c.completeJSON(t)
	}
}

// ran counts a script.
func (c *commands) ran(*testscript.Env) { c.scripts.Add(1) }

// complete fails the test if a command sent nothing that was recorded.
func (c *commands) complete(t *testing.T) {
	t.Helper()
	seen := c.Seen()
	for _, words := range cli.CommandPaths() {
		path, isCommand := cli.CommandOf(words)
		if !isCommand || slices.Contains(slices.Concat(withoutRequests, withoutScripts), path) {
			continue
		}
		if len(seen[path][permissions.AnyRun]) == 0 {
			t.Errorf("no script records a request of %q: write one, or say in withoutRequests that it sends none", path)
		}
	}
}

// isCompletion reports whether arguments ask for completion. Its requests are not recorded: it
// is silent if a policy refuses them.
func isCompletion(args []string) bool { return len(args) > 0 && args[0] == cobra.ShellCompRequestCmd }

// connect records the requests of the command that arguments run.
func (c *commands) connect(args []string, connect func(context.Context, app.Endpoint) (dynamo.API, error)) func(context.Context, app.Endpoint) (dynamo.API, error) {
	if isCompletion(args) {
		return connect
	}
	path, _ := cli.CommandOf(args)
	if slices.Contains(args, apart) {
		path += " " + apart
	}
	return func(ctx context.Context, e app.Endpoint) (dynamo.API, error) {
		api, err := connect(ctx, e)
		if err != nil {
			return nil, err
		}
		if slices.Contains(onWhole, path) {
			cfg := permissions.Config(c.noteFor(path), api)
			return whole{dynamodb.NewFromConfig(cfg), dynamodbstreams.NewFromConfig(cfg)}, nil
		}
		return faults.Observe(api, c.Hook(path, permissions.AnyRun)), nil
	}
}

// connectStack records the requests to the services of a stack.
func (c *commands) connectStack(args []string, connect func(context.Context, app.Endpoint) (stack.Clients, error)) func(context.Context, app.Endpoint) (stack.Clients, error) {
	if isCompletion(args) {
		return connect
	}
	path, _ := cli.CommandOf(args)
	return func(ctx context.Context, e app.Endpoint) (stack.Clients, error) {
		o, err := connect(ctx, e)
		cfg := permissions.Config(c.noteFor(path), o.CloudFormation, o.Buckets, o.Functions, o.Tagging, o.Database, o.Tasks)
		return stack.Clients{
			CloudFormation: cloudformation.NewFromConfig(cfg), Buckets: s3.NewFromConfig(cfg), Functions: lambda.NewFromConfig(cfg),
			Tagging: resourcegroupstaggingapi.NewFromConfig(cfg), Database: whole{Client: dynamodb.NewFromConfig(cfg)}, Tasks: ecs.NewFromConfig(cfg),
		}, err
	}
}

// connectHealth records the requests about the state of a stack's parts.
func (c *commands) connectHealth(args []string, connect func(context.Context, app.Endpoint) (health.Clients, error)) func(context.Context, app.Endpoint) (health.Clients, error) {
	path, _ := cli.CommandOf(args)
	return func(ctx context.Context, e app.Endpoint) (health.Clients, error) {
		o, err := connect(ctx, e)
		cfg := permissions.Config(c.noteFor(path), o.Watch, o.Functions, o.Queues, o.Logs, o.Buckets)
		return health.Clients{
			Watch: cloudwatch.NewFromConfig(cfg), Functions: lambda.NewFromConfig(cfg), Queues: sqs.NewFromConfig(cfg),
			Logs: cloudwatchlogs.NewFromConfig(cfg), Buckets: s3.NewFromConfig(cfg),
		}, err
	}
}

// recordOthers records the commands that no script can run to an end.
func (c *commands) recordOthers(t *testing.T) {
	t.Helper()
	s := s3test.New(t, "trail")
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "zae-limiter", Stream: true}); err != nil {
		t.Fatal(err)
	}
	storedAt := func(command string) func(context.Context, app.Endpoint) (archive.API, error) {
		return func(context.Context, app.Endpoint) (archive.API, error) {
			return s3.NewFromConfig(permissions.Config(c.noteFor(command), s.Client())), nil
		}
	}
	take := c.run(t.Context(), cli.Options{
		Args:    []string{"acquire", "user", "gpt-4", "-c", "rpm=1", "--fallback", "rpm:100/min"},
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
	})
	if take != 0 {
		t.Errorf("acquire: exit code %d", take)
	}
	c.recordRedrive(t, engine)
	ctx, stop := context.WithCancel(t.Context())
	stderr, code := newLines(), make(chan int, 1)
	go func() {
		code <- c.run(ctx, cli.Options{
			Args: []string{"aggregate", "--archive", "s3://trail/limits"}, Stderr: stderr, ConnectArchive: storedAt("aggregate --archive"),
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) {
				return followed{faults.Wrap(engine, c.Hook("aggregate", permissions.AnyRun)), dynamodbstreams.NewFromConfig(permissions.Config(c.noteFor("aggregate"), engine))}, nil
			},
		})
	}()
	stderr.await(`"msg":"(batch processed)"`)
	stop()
	if got := <-code; got != 0 {
		t.Errorf("aggregate: exit code %d: %s", got, &stderr.text)
	}
}

// recordRedrive records the command redrive: it deletes one message and keeps the other.
func (c *commands) recordRedrive(t *testing.T, engine *dynamolite.DB) {
	t.Helper()
	cloud := cfntest.New(cfntest.Options{})
	if err := makeStack(cloud, "zae-limiter", "Resources: {Queue: {Type: AWS::SQS::Queue}}\nOutputs: {AggregatorDLQUrl: {Value: https://sqs.eu-west-1.amazonaws.com/1/zae-limiter-aggregator-dlq}}"); err != nil {
		t.Fatal(err)
	}
	described, err := engine.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("zae-limiter")})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]int{expired(*described.Table.LatestStreamArn): 0, "hello": 1} {
		args := []string{"redrive", "--discard-expired"}
		code := c.run(t.Context(), cli.Options{
			Args: args,
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) {
				return followed{faults.Wrap(engine, c.Hook("redrive", permissions.AnyRun)), dynamodbstreams.NewFromConfig(permissions.Config(c.noteFor("redrive"), engine))}, nil
			},
			ConnectStack: c.connectStack(args, func(context.Context, app.Endpoint) (stack.Clients, error) {
				return stack.Clients{CloudFormation: cloud, Buckets: cloud, Functions: cloud, Tagging: cloud, Database: engine}, nil
			}),
			ConnectQueue: func(context.Context, app.Endpoint) (redrive.Queue, error) {
				cfg := permissions.Config(c.noteFor("redrive"), &letter{body})
				return sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.DisableMessageChecksumValidation = true }), nil
			},
		})
		if code != want {
			t.Errorf("redrive of %s: exit code %d, want %d", body, code, want)
		}
	}
}

// A whole is all of DynamoDB.
type whole struct {
	*dynamodb.Client
	streams
}

// Immediate reports that the table is in memory.
func (whole) Immediate() bool { return true }

// A followed is a table with its stream.
type followed struct {
	*faults.API
	streams
}

type streams = stream.API

func (c *commands) noteFor(command string) permissions.Note {
	return func(_ context.Context, input any) { c.Note(command, permissions.AnyRun, input) }
}

func (*commands) run(ctx context.Context, o cli.Options) int {
	o.Stdin, o.Stdout = strings.NewReader(""), io.Discard
	o.Getenv = func(string) string { return "" }
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	return cli.Run(ctx, o)
}
