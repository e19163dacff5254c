package cli_test

import (
	"bytes"
	"context"
	"debug/elf"
	"flag"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cftypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cloudtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/elftest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

var update = flag.Bool("update", false, "write what the program prints into the scripts and the golden help")

// TestScripts runs the program as its users do, with an engine and a clock for each
// script. Besides testscript's own commands, scripts have
//
//	zae-limiter ARGS…        run the program and require exit code 0
//	exits CODE ARGS…         run the program and require this exit code
//	answer TEXT              give the next run a terminal on which this text is typed
//	clock DURATION           move the clock
//	outage none|all|writes   choose the requests that fail with a refused connection
//	mark                     begin to count requests
//	sent N                   require N requests since the mark
//	unwritten                require no write units since the mark
//	serve ARGS…              run zae-limiter local ARGS… on a free port, in the background,
//	                         until interrupted or the script's end; its URL is $ENDPOINT
//	interrupt                end it as a signal would, and require exit code 0
//	program FILE PATH ARCH   write an executable of a Go package for Linux, without code
//	damage FILE              change one byte of a file that is not zero
//	running FILE             let the running program have the content of this file
//	tag TABLE KEY VALUE      tag a table, as another program would
//	capture NAME PATTERN     set $NAME to what the pattern's group matches in the last output
//	cloud step DURATION      set how long CloudFormation takes for a change of one resource
//	cloud fail ACTION RESOURCE [REASON…]
//	                         make CREATE, UPDATE, DELETE or ROLLBACK of a resource fail; without
//	                         a reason, stop that
//	cloud code FUNCTION CHECKSUM
//	                         change the code of a function by hand
//	account alarm NAME REASON…
//	                         set an alarm off, a minute ago
//	account letters N SECONDS
//	                         put dead letters into the queues, with the age of the oldest
//	account calls N FAILED   count calls of the aggregator
//	account age MS           measure the aggregator's iterator age
//	account log TEXT…        write a line to the aggregator's log
//	account deny ACTION…     refuse permission for actions, "logs:FilterLogEvents" for example
//	cloud put NAME RESOURCE KEY
//	                         put an object into a bucket of a stack
//	cloud make NAME FILE     make a stack from a template, as another program would
//	cloud review NAME FILE   only make its change set
//	used ENTITY RESOURCE TIME LIMIT=MILLITOKENS…
//	                         count an acquire at a time, as an aggregator would
//	show CODE ARGS…          exits CODE ARGS…, and show the command and its result next time
//	picture NAME             require that docs/pictures/NAME.svg shows these commands
func TestScripts(t *testing.T) {
	t.Parallel()
	recorder := recordCommands(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			w := &world{clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), outage: "none", recorder: recorder, executable: executable}
			recorder.ran(env)
			w.engine = dynamolite.New(dynamolite.Options{Now: w.now})
			env.Defer(func() { _ = w.engine.Close() })
			w.meter = dynamo.NewMeter(w.engine)
			w.vault = newVault(w.engine, w.now)
			w.account, w.known = newAccount(), map[string]bool{}
			w.cloud = cfntest.New(cfntest.Options{Now: w.now, Tables: w.engine})
			env.Values[worldKey{}] = w
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"zae-limiter": func(ts *testscript.TestScript, neg bool, args []string) { expect(ts, neg, 0, args) },
			"exits":       exits,
			"answer":      answer,
			"clock":       moveClock,
			"outage":      outage,
			"mark":        mark,
			"sent":        sent,
			"unwritten":   unwritten,
			"serve":       serve,
			"interrupt":   interrupt,
			"program":     program,
			"damage":      damage,
			"used":        used,
			"running":     running,
			"capture":     capture,
			"cloud":       steer,
			"tag":         tag,
			"account":     change,
			"show":        show,
			"picture":     picture,
		},
	})
}

// A world is the environment of the program in a script.
type world struct {
	engine *dynamolite.DB
	cloud  *cfntest.Cloud
	meter  *dynamo.Meter
	vault  *vault
	mark   dynamo.Totals
	mu     sync.Mutex // guards clock: a server reads it while the script continues
	clock  time.Time
	going  time.Time // since when the clock goes on for runs that wait
	outage string
	typed  *string
	server *background
	uses   int // changes counted as by an aggregator

	executable func() ([]byte, error) // reads the running program

	recorder *commands
	screen   *transcript // shows the command that runs; nil shows nothing
	shown    *transcript // what the next picture shows

	account *cloudtest.Account
	known   map[string]bool // resources of the cloud that the account has
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world {
	w, ok := ts.Value(worldKey{}).(*world)
	if !ok {
		ts.Fatalf("the script was not set up")
	}
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

// clockFor is the clock of a run of the program: the script's, which stands still. A program
// that waits for a disk or a network compares its clock with the time that passes, and would
// find that this one was set. For such runs the clock goes on from the script's time, together
// and monotonically from the first of them on, so that none of them sees an earlier time than
// the runs before it.
func (w *world) clockFor(args []string) func() time.Time {
	if w.server == nil && w.outage == "none" && !slices.Contains(args, "--local") {
		return w.now // the engine in memory answers at once
	}
	if w.going.IsZero() {
		w.going = time.Now()
	}
	going := w.going
	return func() time.Time { return w.now().Add(time.Since(going)) }
}

func (w *world) connect(_ context.Context, e app.Endpoint) (dynamo.API, error) {
	if w.server != nil && e.URL == w.server.url {
		return newClient(e.URL), nil
	}
	switch w.outage {
	case "all": // a read of several items is the first request of most commands
		return faults.Wrap(w.meter, refused(faults.UpdateItem, faults.PutItem, faults.BatchGetItem)), nil
	case "writes":
		return faults.Wrap(w.meter, refused(faults.UpdateItem, faults.PutItem)), nil
	case "denied " + schema.GSI3:
		return faults.Wrap(w.meter, denied(schema.GSI3)), nil
	}
	return &managed{w.meter, tables{w.engine}, w.vault, w.engine}, nil
}

func (w *world) connectStack(context.Context, app.Endpoint) (stack.Clients, error) {
	return stack.Clients{CloudFormation: w.cloud, Buckets: w.cloud, Functions: w.cloud, Tagging: w.cloud, Database: w.engine, Tasks: w.cloud}, nil
}

// executable is the program in the form that Lambda runs.
func executable() ([]byte, error) {
	return elftest.Program("github.com/zeroae/zae-limiter-go/cmd/zae-limiter", "linux", elf.EM_AARCH64), nil
}

// running changes what the running program is.
func running(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: running FILE")
	}
	content := []byte(ts.ReadFile(args[0]))
	worldOf(ts).executable = func() ([]byte, error) { return content, nil }
}

// steer changes how CloudFormation behaves.
func steer(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	switch {
	case len(args) == 2 && args[0] == "step":
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		w.cloud.SetStep(d)
	case len(args) == 3 && args[0] == "code":
		w.cloud.ChangeFunction(args[1], func(f *lambda.GetFunctionConfigurationOutput) { f.CodeSha256 = &args[2] })
	case len(args) == 3 && args[0] == "memory":
		n, err := strconv.ParseInt(args[2], 10, 32)
		ts.Check(err)
		w.cloud.ChangeFunction(args[1], func(f *lambda.GetFunctionConfigurationOutput) { f.MemorySize = aws.Int32(int32(n)) })
	case len(args) == 3 && args[0] == "handler":
		w.cloud.ChangeFunction(args[1], func(f *lambda.GetFunctionConfigurationOutput) { f.Handler = &args[2] })
	case len(args) == 4 && args[0] == "put":
		out, err := w.cloud.DescribeStackResources(context.Background(), &cloudformation.DescribeStackResourcesInput{StackName: &args[1]})
		ts.Check(err)
		for _, r := range out.StackResources {
			if *r.LogicalResourceId == args[2] {
				w.cloud.Store(*r.PhysicalResourceId, args[3], []byte("text"))
			}
		}
	case len(args) == 3 && args[0] == "tasks":
		w.cloud.SetTasks(args[1], args[2])
	case len(args) >= 3 && args[0] == "fail":
		w.cloud.Fail(args[1], args[2], strings.Join(args[3:], " "))
	case len(args) == 3 && args[0] == "make":
		ts.Check(makeStack(w.cloud, args[1], ts.ReadFile(args[2])))
	case len(args) == 3 && args[0] == "review":
		ts.Check(reviewStack(w.cloud, args[1], ts.ReadFile(args[2])))
	default:
		ts.Fatalf("usage: cloud make NAME FILE, cloud review NAME FILE, cloud put NAME RESOURCE KEY, cloud step DURATION, cloud fail ACTION RESOURCE [REASON…], cloud tasks STATUS AGENT")
	}
}

func tag(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: tag TABLE KEY VALUE")
	}
	w := worldOf(ts)
	out, err := w.engine.DescribeTable(context.Background(), &dynamodb.DescribeTableInput{TableName: &args[0]})
	ts.Check(err)
	_, err = w.engine.TagResource(context.Background(), &dynamodb.TagResourceInput{
		ResourceArn: out.Table.TableArn, Tags: []dbtypes.Tag{{Key: &args[1], Value: &args[2]}},
	})
	ts.Check(err)
}

// makeStack makes a stack with the tags of the Python package.
func makeStack(cloud *cfntest.Cloud, name, template string) error {
	if err := reviewStack(cloud, name, template); err != nil {
		return err
	}
	_, err := cloud.ExecuteChangeSet(context.Background(), &cloudformation.ExecuteChangeSetInput{StackName: &name, ChangeSetName: &name})
	return err
}

// reviewStack makes a stack with the tags of the Python package, and with a change set that
// nobody has executed.
func reviewStack(cloud *cfntest.Cloud, name, template string) error {
	tag := func(key, value string) cftypes.Tag { return cftypes.Tag{Key: &key, Value: &value} }
	_, err := cloud.CreateChangeSet(context.Background(), &cloudformation.CreateChangeSetInput{
		StackName: &name, ChangeSetName: &name, ChangeSetType: cftypes.ChangeSetTypeCreate, TemplateBody: &template,
		Tags: []cftypes.Tag{tag(stack.TagManagedBy, stack.ManagedBy), tag(stack.TagName, name)},
	})
	return err
}

// denied denies queries of an index.
func denied(index string) faults.Hook {
	return func(ctx context.Context, c *faults.Call, next faults.Next) error {
		if q, ok := c.Input.(*dynamodb.QueryInput); ok && aws.ToString(q.IndexName) == index {
			return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to query " + index}
		}
		return next(ctx)
	}
}

// refused refuses connections for some operations.
func refused(ops ...string) faults.Hook {
	return faults.On(faults.Fail(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), ops...)
}

// runTimeout ends a zae-limiter local that should not have started to serve.
const runTimeout = time.Minute

// expect runs the program and requires an exit code.
func expect(ts *testscript.TestScript, neg bool, code int, args []string) {
	if neg {
		ts.Fatalf("say which exit code: exits CODE zae-limiter ARGS…")
	}
	w := worldOf(ts)
	var stdout, stderr bytes.Buffer
	o := cli.Options{
		Args: args, Stdin: strings.NewReader(""), Stdout: io.MultiWriter(ts.Stdout(), w.screen, &stdout), Stderr: io.MultiWriter(ts.Stderr(), &stderr),
		Getenv: ts.Getenv, Version: recorded, Connect: w.recorder.connect(args, w.connect), Now: w.clockFor(args),
		ConnectStack: w.recorder.connectStack(args, w.connectStack), ConnectHealth: w.recorder.connectHealth(args, w.connectHealth), Executable: w.executable,
	}
	if w.typed != nil {
		o.Stdin, o.Terminal = strings.NewReader(*w.typed), true
		w.typed = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	if got := cli.Run(ctx, o); got != code {
		ts.Fatalf("exit code %d, want %d", got, code)
	}
	if strings.Contains(stderr.String(), "local clock was set") {
		ts.Fatalf("the program compared a clock that stands still with the time that passed: see clockFor")
	}
	if !o.Terminal && wantsOutput(args, "json") {
		w.recorder.checkJSON(ts, args, code, stdout.Bytes(), stderr.String())
	}
	if code == 0 && wantsOutput(args, "csv") {
		checkCSV(ts, args, stdout.String())
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: exits CODE ARGS…")
	}
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	expect(ts, neg, code, args[1:])
}

func program(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: program FILE PATH ARCH")
	}
	machine := map[string]elf.Machine{"arm64": elf.EM_AARCH64, "amd64": elf.EM_X86_64}[args[2]]
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), elftest.Program(args[1], "linux", machine), 0o600))
}

func answer(ts *testscript.TestScript, _ bool, args []string) {
	typed := strings.Join(args, " ")
	if typed != "" {
		typed += "\n"
	}
	worldOf(ts).typed = &typed
}

func moveClock(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(strings.Join(args, ""))
	ts.Check(err)
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

func outage(ts *testscript.TestScript, _ bool, args []string) {
	worldOf(ts).outage = strings.Join(args, " ")
}

func mark(ts *testscript.TestScript, _ bool, _ []string) {
	w := worldOf(ts)
	w.mark = w.meter.Totals()
}

func sent(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.ParseInt(strings.Join(args, ""), 10, 64)
	ts.Check(err)
	w := worldOf(ts)
	if since := w.meter.Totals().Sub(w.mark); since.Sum().Requests != want {
		ts.Fatalf("%d requests were sent, want %d: %v", since.Sum().Requests, want, since)
	}
}

func unwritten(ts *testscript.TestScript, _ bool, _ []string) {
	w := worldOf(ts)
	if since := w.meter.Totals().Sub(w.mark); since.Sum().WCU != 0 {
		ts.Fatalf("write units were consumed: %v", since)
	}
}

func capture(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: capture NAME PATTERN")
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	found := re.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("the output does not match %s once", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func used(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: used ENTITY RESOURCE TIME LIMIT=MILLITOKENS…")
	}
	w := worldOf(ts)
	at, err := time.Parse(time.RFC3339, args[2])
	ts.Check(err)
	w.uses++
	e := diary.Entry{Hour: diary.HourOf(at.UnixMilli()), Amounts: []store.Amount{{Milli: 1}}}
	for _, arg := range args[3:] {
		limit, amount, _ := strings.Cut(arg, "=")
		tokens, err := strconv.ParseInt(amount, 10, 64)
		ts.Check(err)
		e.Amounts = append(e.Amounts, store.Amount{Limit: limit, Milli: tokens})
	}
	s, err := dynamo.Open(context.Background(), dynamo.Options{API: w.meter, Table: "zae-limiter", Now: w.now})
	ts.Check(err)
	ts.Check(s.Usage().Save(context.Background(), usage.Diary{
		Bucket: store.Bucket{Entity: args[0], Resource: args[1]}, Life: int64(w.uses), Text: diary.Append("", e),
	}))
}
