package loadtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// work runs the command on an engine, without the rest of the program.
func work(ctx context.Context, api dynamo.API, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app.App{
		Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return api, nil },
	}
	root := &cobra.Command{Use: "zae-limiter", SilenceErrors: true, SilenceUsage: true}
	root.SetFlagErrorFunc(app.FlagError)
	a.Flags.Bind(root.PersistentFlags())
	root.AddCommand(loadtest.NewWorker(a)) //nolint:contextcheck // commands get theirs from ExecuteContextC
	root.SetArgs(append([]string{"worker", "--table", testbed.Table}, args...))
	root.SetOut(&out)
	root.SetErr(&errs)
	cmd, err := root.ExecuteContextC(ctx)
	code = a.Report(err, cmd.CommandPath())
	return code, out.String(), errs.String()
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	const master = "--locust=127.0.0.1:5557"
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{master, "--namespace=load"}, "missing argument SCENARIO: give one of simple, max-rps"},
		{[]string{master, "--namespace=load", "simple", "stress"}, `unexpected argument "stress"`},
		{[]string{master, "--namespace=load", "simple", "--file=x.yaml"}, "give SCENARIO or --file, not both"},
		{[]string{"--namespace=load", "simple"}, "missing --locust"},
		{[]string{master, "simple"}, "missing --namespace"},
		{[]string{"--locust=nowhere", "--namespace=load", "simple"}, `invalid --locust "nowhere": give host:port`},
		{[]string{master, "--namespace=load", "sample"}, "sample"},
		{[]string{master, "--namespace=load", "attack"}, "a Locust master can only say how many users there are"},
	} {
		code, stdout, stderr := work(t.Context(), nil, c.args...)
		if code != app.ExitUsage || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, output %q, errors %q", c.args, code, stdout, stderr)
		}
	}
}

func TestFilesAndTables(t *testing.T) {
	t.Parallel()
	engine := testbed.NewEngine(t, dynamolite.Options{})
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("name: bad\nload: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arg, says string
		code      int
	}{
		{"--file=" + bad, "bad.yaml:2:", app.ExitUsage},
		{"--file=" + bad + ".not", "no such file", app.ExitUsage},
		{"simple", "zae-limiter table create -n limits", app.ExitError},
	} {
		code, _, stderr := work(t.Context(), engine, "--locust=127.0.0.1:1", "--namespace=load", c.arg)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d, errors %q", c.arg, code, stderr)
		}
	}
}

// Without a set-up, the command writes nothing.
func TestWithoutSetUp(t *testing.T) {
	t.Parallel()
	w := testbed.New(t, testbed.Options{})
	code, _, stderr := work(t.Context(), w.Engine, "--locust=127.0.0.1:1", "--namespace=load", "--setup=false", "simple")
	if code != app.ExitError || !strings.Contains(stderr, "zae-limiter namespace register load") {
		t.Errorf("exit code %d, errors %q", code, stderr)
	}
}

// lead is a master over TCP: it asks a worker for users, lets some reports come, and ends
// with a message of some type, or with a call.
func lead(t *testing.T, users map[string]any, end func(send func(kind string, data any))) (address string, kinds <-chan string) {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	heard := make(chan string, 1000)
	go func() {
		defer close(heard)
		raw, err := listener.Accept()
		if err != nil {
			return
		}
		conn, err := zmq4.Open(raw, null.Security(), zmq4.Router, nil, true, nil)
		if err != nil {
			return
		}
		send := func(kind string, data any) {
			frame, _ := msgpack.Marshal([]any{kind, data, "w"})
			_ = conn.SendMsg(zmq4.NewMsg(frame))
		}
		reports := 0
		for {
			m, err := conn.RecvMsg()
			if err != nil {
				_ = raw.Close()
				return
			}
			d := msgpack.NewDecoder(bytes.NewReader(m.Frames[0]))
			_, _ = d.DecodeArrayLen()
			kind, _ := d.DecodeString()
			heard <- kind
			switch kind {
			case "client_ready":
				send("ack", map[string]any{"index": 0})
				send("spawn", map[string]any{"timestamp": 1, "user_classes_count": users, "stop_timeout": 10})
			case "heartbeat":
				send("heartbeat", nil)
			case "stats":
				if reports++; reports == 1 {
					end(send)
				}
			}
		}
	}()
	return listener.Addr().String(), heard
}

const file = `
name: mine
duration: 1s
limiters: 2
resources: {gpt-4: [rpm:1000000/min, tpm:9000000/min]}
entities: {user: {count: 3}}
load:
  Caller:
    from: user
    calls: [{call: acquire, consume: {rpm: 1, tpm: 5}, settle: {tpm: 7}}]
    users: 4
    think: 10ms
`

// The command sets the scenario up, works for a master, and ends with it, or when it is
// interrupted. It prints what was done. The table has the same.
func TestTheCommandWorksForAMaster(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, interrupted := range []bool{false, true} {
		w := testbed.New(t, testbed.Options{})
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		address, kinds := lead(t, map[string]any{"Caller": 4}, func(send func(string, any)) {
			if interrupted {
				interrupt()
			} else {
				send("quit", nil)
			}
		})
		code, stdout, stderr := work(ctx, w.Engine, "--locust="+address, "--namespace=load", "--file="+path, "--output=json")
		var printed struct {
			Requests []struct {
				Method, Name       string
				Requests, Failures int64
			}
		}
		if err := json.Unmarshal([]byte(stdout), &printed); err != nil || code != 0 || len(printed.Requests) != 2 {
			t.Fatalf("exit code %d, output %q, errors %q: %v", code, stdout, stderr, err)
		}
		var last string
		for kind := range kinds {
			last = kind
		}
		if want := map[bool]string{false: "stats", true: "quit"}[interrupted]; last != want {
			t.Errorf("last message %s, want %s", last, want)
		}
		acquired := printed.Requests[0]
		if acquired.Method != "ACQUIRE" || acquired.Name != "gpt-4" || acquired.Requests == 0 || acquired.Failures != 0 {
			t.Errorf("%+v", acquired)
		}
		want := map[string]int64{"rpm": acquired.Requests, "tpm": 7 * acquired.Requests}
		if diff := cmp.Diff(want, consumed(t, w, "load")); diff != "" || printed.Requests[1].Requests != acquired.Requests {
			t.Errorf("tokens in the table (-want +got):\n%s", diff)
		}
	}
}

// consumed adds up what entities have consumed in a namespace, in tokens.
func consumed(t *testing.T, w *testbed.World, namespace string) map[string]int64 {
	t.Helper()
	s := w.Open(dynamo.Options{Namespace: namespace})
	sum := map[string]int64{}
	for images, err := range s.ResourceBuckets(t.Context(), "gpt-4") {
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range images {
			for i := range image.Limits {
				l := &image.Limits[i]
				sum[l.Name] += l.ConsumedSince(&store.LimitState{}) / 1000
			}
		}
	}
	return sum
}
