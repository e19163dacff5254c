package cli_test

import (
	"context"
	"flag"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/archive"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/cli"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/faults"
	"github.com/zeroae/zae-limiter-go/internal/permissions"
)

var updatePermissions = flag.Bool("update.permissions", false, "write the requests of the commands to the file of recorded requests")

// recordedCommands has the requests of every command.
const recordedCommands = "../permissions/recorded/commands.json"

// anyRun is the branch of all runs of a command.
const anyRun = "always"

// withoutRequests lists the commands that send no request to AWS.
var withoutRequests = []string{"estimate", "lambda-export", "limits cfn-template", "limits schema", "local", "replay", "template", "version"}

// recordedAsCalls lists the commands that only AWS Lambda runs. Their requests are those of a
// library call that is recorded: customresource.Handler.Handle.
var recordedAsCalls = []string{"provision"}

// notJudged lists the commands about stacks, whole tables, backups and dead letters.
// docs/permissions.md says that their requests are not judged.
var notJudged = []string{
	"backup create", "backup delete", "backup list", "backup restore", "check", "delete", "deploy", "list", "redrive", "status",
	"table delete", "table enable-stream", "table show", "upgrade",
}

// apart is a flag with which a command is recorded as another one, because it reads what
// belongs to the table.
const apart = "--namespace-name"

// commands record the requests of commands.
type commands struct {
	*permissions.Recorder
	scripts atomic.Int64 // that were run
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
		all := c.scripts.Load() == int64(len(files))
		if *updatePermissions && all {
			if err := c.Seen().Write(recordedCommands); err != nil {
				t.Error(err)
			}
		}
		c.Seen().Compare(t, recordedCommands, all)
		if all {
			c.complete(t)
		}
	})
	return c
}

// ran counts a script.
func (c *commands) ran(*testscript.Env) { c.scripts.Add(1) }

// complete fails the test if a command sent nothing that was recorded.
func (c *commands) complete(t *testing.T) {
	t.Helper()
	seen := c.Seen()
	for _, words := range cli.CommandPaths() {
		path, isCommand := cli.CommandOf(words)
		if !isCommand || slices.Contains(withoutRequests, path) || slices.Contains(recordedAsCalls, path) || slices.Contains(notJudged, path) {
			continue
		}
		if len(seen[path][anyRun]) == 0 {
			t.Errorf("no script records a request of %q: write one, or say in withoutRequests that it sends none", path)
		}
	}
}

// connect records the requests of the command that arguments run.
func (c *commands) connect(args []string, connect func(context.Context, app.Endpoint) (dynamo.API, error)) func(context.Context, app.Endpoint) (dynamo.API, error) {
	path, _ := cli.CommandOf(args)
	if slices.Contains(notJudged, path) {
		return connect
	}
	if slices.Contains(args, apart) {
		path += " " + apart
	}
	return func(ctx context.Context, e app.Endpoint) (dynamo.API, error) {
		api, err := connect(ctx, e)
		if err != nil {
			return nil, err
		}
		return faults.Observe(api, c.Hook(path, anyRun)), nil
	}
}

// recordOthers records the commands that no script can run to an end: one follows a
// stream, the other needs an archive.
func (c *commands) recordOthers(t *testing.T) {
	t.Helper()
	s := storage(t)
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "zae-limiter", Stream: true}); err != nil {
		t.Fatal(err)
	}
	storedAt := func(command string) func(context.Context, app.Endpoint) (archive.API, error) {
		return func(context.Context, app.Endpoint) (archive.API, error) {
			return permissions.Objects(s.Client(), c.noteFor(command)), nil
		}
	}
	search := c.run(t.Context(), cli.Options{
		Args: []string{"audit", "search", "--from-archive", "s3://trail/limits"}, ConnectArchive: storedAt("audit search"),
	})
	if search != 0 {
		t.Errorf("audit search: exit code %d", search)
	}
	take := c.run(t.Context(), cli.Options{
		Args:    []string{"acquire", "user", "gpt-4", "-c", "rpm=1", "--fallback", "rpm:100/min"},
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
	})
	if take != 0 {
		t.Errorf("acquire: exit code %d", take)
	}
	ctx, stop := context.WithCancel(t.Context())
	stderr, code := newLines(), make(chan int, 1)
	go func() {
		code <- c.run(ctx, cli.Options{
			Args: []string{"aggregate", "--archive", "s3://trail/limits"}, Stderr: stderr, ConnectArchive: storedAt("aggregate --archive"),
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) {
				return followed{faults.Wrap(engine, c.Hook("aggregate", anyRun)), permissions.Streams(engine, c.noteFor("aggregate"))}, nil
			},
		})
	}()
	stderr.await(`"msg":"(batch processed)"`)
	stop()
	if got := <-code; got != 0 {
		t.Errorf("aggregate: exit code %d: %s", got, &stderr.text)
	}
}

// A followed is a table with its stream.
type followed struct {
	*faults.API
	streams
}

type streams = stream.API

func (c *commands) noteFor(command string) permissions.Note {
	return func(_ context.Context, input any) { c.Note(command, anyRun, input) }
}

func (*commands) run(ctx context.Context, o cli.Options) int {
	o.Stdin, o.Stdout = strings.NewReader(""), io.Discard
	o.Getenv = func(string) string { return "" }
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	return cli.Run(ctx, o)
}
