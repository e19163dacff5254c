package cli_test

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/elftest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A session is a shell in which the commands of a page run, one after the other, in a folder of
// its own. It lives in a synctest bubble, so that waiting takes no time. AWS is in memory: the
// world of the scripts, and an archive. So is the server at the address of the option
// --endpoint-url; a directory of --local is a real one. The shell has these commands:
//
//	zae-limiter ARGS…   run in this process; a question is answered with yes. A command that runs
//	                    until it is interrupted is interrupted soon
//	sleep SECONDS       moves the clock
//	make TARGET…        only with -n: the target and what it needs exist
//	go get|install PATH the path is a package of this repository, or a module
//	go build -o FILE …  makes a program without code
//	go run PACKAGE      runs a package of this repository
//	go run .            finds all packages that the shell's folder imports
//	go mod|work …       is the real one. After it, go mod tidy only finds the repository
//	git clone URL       makes the repository's folder
//
// and some that read and write text. Parts of a pipe run one after the other, and nothing runs in
// the background: the clock stands still while a program of the machine works.
type session struct {
	t       *testing.T
	root    string // of the repository
	folder  string
	world   *world
	archive archive.API
	shell   *interp.Runner
	shown   screen
	lines   int // that a command prints before it is interrupted
	pipes   int
}

// textPrograms are the programs of the machine that sessions may run, on files of their folders.
var textPrograms = []string{"cat", "cp", "gzip", "mkdir", "sed", "seq"}

// newSession starts a session in a folder, in which the test must be. buckets is an S3 server.
func newSession(t *testing.T, root, folder string, buckets http.Handler) *session {
	t.Helper()
	time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)))
	s := &session{t: t, root: root, folder: folder, lines: 1, world: &world{clock: time.Now(), outage: "none", executable: executable}}
	w := s.world
	w.engine = dynamolite.New(dynamolite.Options{Now: time.Now})
	t.Cleanup(func() { _ = w.engine.Close() })
	w.meter, w.vault = dynamo.NewMeter(w.engine), newVault(w.engine, time.Now)
	w.account, w.known = newAccount(), map[string]bool{}
	w.cloud = cfntest.New(cfntest.Options{Now: time.Now, Tables: w.engine})
	s.archive = inProcess(buckets)
	shell, err := interp.New(
		interp.Dir(folder), interp.StdIO(nil, &s.shown, &s.shown), interp.Env(expand.ListEnviron("PATH="+os.Getenv("PATH"), "HOME="+folder)),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return s.exec }), interp.OpenHandler(s.open),
	)
	if err != nil {
		t.Fatal(err)
	}
	s.shell = shell
	return s
}

// A screen is what commands print.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// take returns what was printed, and clears the screen.
func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

// inProcess is an S3 without a network: a connection would stop the clock of the bubble.
func inProcess(server http.Handler) archive.API {
	return s3.New(s3.Options{
		Region: s3test.Region, BaseEndpoint: aws.String("http://s3.test"), UsePathStyle: true, Retryer: aws.NopRetryer{},
		Credentials:                credentials.NewStaticCredentialsProvider("key", "secret", ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		HTTPClient: doer(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			return w.Result(), nil
		}),
	})
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// run runs commands and returns what they print, and the exit code of the last one.
func (s *session) run(where, text string) (shown string, code int) {
	s.t.Helper()
	script, err := syntax.NewParser().Parse(strings.NewReader(text), where)
	if err != nil {
		s.t.Errorf("%s: %v", where, err)
		return "", 0
	}
	syntax.Walk(script, func(n syntax.Node) bool {
		if stmt, ok := n.(*syntax.Stmt); ok {
			s.inSequence(stmt)
		}
		return true
	})
	err = s.shell.Run(s.t.Context(), script)
	if exit, ok := err.(interp.ExitStatus); ok { //nolint:errorlint // it is never wrapped
		code = int(exit)
	} else if err != nil {
		s.t.Errorf("%s: %v", where, err)
	}
	return s.shown.take(), code
}

// inSequence makes the parts of a pipe run one after the other: the second reads a file that the
// first has written.
func (s *session) inSequence(stmt *syntax.Stmt) {
	stmt.Background = false
	pipe, ok := stmt.Cmd.(*syntax.BinaryCmd)
	if !ok || pipe.Op != syntax.Pipe {
		return
	}
	s.pipes++
	file := func() *syntax.Word {
		return &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: filepath.Join(s.folder, ".pipe"+strconv.Itoa(s.pipes))}}}
	}
	pipe.X.Redirs = append(pipe.X.Redirs, &syntax.Redirect{Op: syntax.RdrOut, Word: file()})
	pipe.Y.Redirs = append(pipe.Y.Redirs, &syntax.Redirect{Op: syntax.RdrIn, Word: file()})
	stmt.Cmd = &syntax.Block{Stmts: []*syntax.Stmt{pipe.X, pipe.Y}}
}

// open opens the file of a redirection. One outside the session's folder is inside it all the
// same, and its folder exists.
func (s *session) open(ctx context.Context, path string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(interp.HandlerCtx(ctx).Dir, path)
	}
	if !strings.HasPrefix(path, s.folder) && path != os.DevNull {
		path = filepath.Join(s.folder, "outside", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, flag, perm)
}

// exec runs a command of the shell.
func (s *session) exec(ctx context.Context, args []string) error {
	h := interp.HandlerCtx(ctx)
	switch name := filepath.Base(args[0]); {
	case name == "zae-limiter":
		if code := s.program(ctx, args[1:]); code != 0 {
			return interp.ExitStatus(code)
		}
		return nil
	case name == "sleep" && len(args) == 2:
		seconds, err := strconv.ParseFloat(args[1], 64)
		time.Sleep(time.Duration(seconds * float64(time.Second)))
		return err
	case name == "make":
		return s.machine(ctx, append([]string{"make", "-n"}, args[1:]...), s.root, io.Discard)
	case name == "git" && len(args) == 3 && args[1] == "clone" && args[2] == "https://"+modulePath:
		return os.Symlink(s.root, filepath.Join(h.Dir, filepath.Base(args[2])))
	case name == "go" && len(args) > 2:
		return s.goTool(ctx, args)
	case slices.Contains(textPrograms, name):
		return s.machine(ctx, args, h.Dir, h.Stdout)
	}
	return fmt.Errorf("a session has no command %q; mark the block as <!-- untested: REASON -->, or see session_test.go", args)
}

// machine runs a program of the machine.
func (*session) machine(ctx context.Context, args []string, dir string, stdout io.Writer) error {
	h := interp.HandlerCtx(ctx)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, h.Stdin, stdout, h.Stderr
	return cmd.Run()
}

// goTool does what the go command would do with the published module.
func (s *session) goTool(ctx context.Context, args []string) error {
	h := interp.HandlerCtx(ctx)
	last := args[len(args)-1]
	switch args[1] {
	case "get", "install":
		path, _, _ := strings.Cut(last, "@")
		folder, ok := strings.CutPrefix(path+"/", modulePath+"/")
		if files, err := filepath.Glob(filepath.Join(s.root, folder, "*.go")); !ok || err != nil || len(files) == 0 {
			return fmt.Errorf("there is no package %s", path)
		}
		return nil
	case "build":
		i := slices.Index(args, "-o") + 1
		machine, ok := map[string]elf.Machine{"arm64": elf.EM_AARCH64, "amd64": elf.EM_X86_64}[h.Env.Get("GOARCH").String()]
		if _, err := os.Stat(filepath.Join(s.root, last)); err != nil || i == 0 || i == len(args) || !ok {
			return fmt.Errorf("a session cannot build %q for %s", args, machine)
		}
		program := elftest.Program(modulePath+strings.TrimPrefix(last, "."), h.Env.Get("GOOS").String(), machine)
		return os.WriteFile(filepath.Join(h.Dir, args[i]), program, 0o700)
	case "run":
		if last == "." {
			return s.machine(ctx, []string{"go", "list", "-deps", "."}, h.Dir, io.Discard)
		}
		return s.machine(ctx, args, s.root, h.Stdout)
	case "mod", "work":
		if last != "tidy" { // which needs the network
			return s.machine(ctx, args, h.Dir, h.Stdout)
		}
		var found strings.Builder
		err := s.machine(ctx, []string{"env", "GOWORK=off", "go", "list", "-m", "-f", "{{.GoMod}}", modulePath}, h.Dir, &found)
		if err == nil {
			_, err = os.Stat(strings.TrimSpace(found.String()))
		}
		return err
	}
	return fmt.Errorf("a session has no command %q; mark the block as <!-- untested: REASON -->", args)
}

// untilInterrupted are the commands that run until they are interrupted, unless a flag ends them.
// The flag of some makes them do so.
var untilInterrupted = map[string]string{"aggregate": "", "local": "", "status": "--watch", "watch": ""}

// address matches the address of a server that was free to choose its port.
var address = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

// aDay is longer than any command of a page runs.
const aDay = 24 * time.Hour

// A call is a command of the program, with the arguments that run it.
type call struct {
	path  string
	args  []string
	stops bool // once it is interrupted
}

// callOf finds the command that arguments run.
func callOf(args []string) call {
	path, _ := cli.CommandOf(args)
	flag, ok := untilInterrupted[path]
	ends := slices.Contains(args, "--for") || slices.Contains(args, "--count")
	return call{path, shortened(path, args), ok && !ends && (flag == "" || slices.Contains(args, flag))}
}

// program runs the program. A word that is the name of an exported variable stands for its
// value: ID and ARN, for example, of which a page does not know the value.
func (s *session) program(ctx context.Context, args []string) (code int) {
	h := interp.HandlerCtx(ctx)
	for i, arg := range args {
		if v := h.Env.Get(arg); v.IsSet() && v.Exported {
			args[i] = v.String()
		}
	}
	c := callOf(args) //nolint:contextcheck // it runs nothing
	args = c.args
	ctx, cancel := context.WithTimeout(ctx, aDay)
	defer cancel()
	stdout, served := h.Stdout, &screen{}
	server := c.path == "local"
	if server && !slices.Contains(args, "--addr") {
		args = append(args, "--addr", "127.0.0.1:0")
	}
	lines := 0
	if c.stops {
		go func() {
			const enough = int64(100 * time.Millisecond)
			// A real sleep: a server waits for connections, and the clock stands still meanwhile.
			_ = syscall.Nanosleep(&syscall.Timespec{Nsec: enough}, nil)
			cancel()
		}()
		stdout = writerFunc(func(p []byte) (int, error) {
			if lines += bytes.Count(p, []byte("\n")); lines >= s.lines {
				cancel()
			}
			return served.Write(p)
		})
	}
	stdin, terminal := io.Reader(strings.NewReader("yes\n")), true
	if f, ok := h.Stdin.(*os.File); ok && f != nil {
		stdin, terminal = f, false
	}
	code = cli.Run(ctx, cli.Options{
		Args: args, Stdin: stdin, Stdout: stdout, Stderr: h.Stderr, Terminal: terminal, Version: recorded, Executable: s.world.executable,
		Getenv:  func(name string) string { return h.Env.Get(name).String() },
		Connect: s.connect(c.path), ConnectStack: s.world.connectStack, ConnectHealth: s.world.connectHealth,
		ConnectArchive: func(context.Context, app.Endpoint) (archive.API, error) { return s.archive, nil },
		ConnectQueue:   func(context.Context, app.Endpoint) (redrive.Queue, error) { return &letter{}, nil },
	})
	if c.stops {
		text := served.take()
		if server {
			text = address.ReplaceAllString(text, "127.0.0.1:8000")
		}
		_, _ = io.WriteString(h.Stdout, text)
		if code == interrupted {
			return 0
		}
	}
	return code
}

// Latencies of a table under a load: without one, a load has no end in the bubble, where only
// waiting takes time.
const (
	tableLatency  = 5 * time.Millisecond
	memoryLatency = 50 * time.Millisecond // of --local :memory:, unless the page gives one
)

// connect connects to the table of the session; that of a load test has latency.
func (s *session) connect(path string) func(context.Context, app.Endpoint) (dynamo.API, error) {
	if !strings.HasPrefix(path, "loadtest ") {
		return s.world.connect
	}
	return func(ctx context.Context, e app.Endpoint) (dynamo.API, error) {
		api, err := s.world.connect(ctx, e)
		return faults.Wrap(api, faults.Latency(tableLatency)), err
	}
}

// loads are the commands that make a load, with flags that bound it: the values that they have at
// most, and where the page does not give them.
var loads = map[string][]bound{
	"loadtest ceiling": {{"--step-duration", "3s", "3s"}, {"--to", "200", "200"}},
	"loadtest run":     {{"--duration", "10s", "1s"}}, // a comparison needs 8 s of both
	"loadtest tune":    {{"--step-duration", "1s", "1s"}, {"--baseline-duration", "1s", "1s"}, {"--max-users", "4", "4"}},
}

// A bound is a flag with the values that it gets in place of a given one, and of none.
type bound struct{ flag, given, missing string }

// shortened are the arguments of a command with the length of its load bounded, and a latency for
// a database in memory.
func shortened(path string, args []string) []string {
	for _, b := range loads[path] {
		if i := slices.Index(args, b.flag); i >= 0 {
			args[i+1] = b.given
		} else {
			args = append(args, b.flag, b.missing)
		}
	}
	if loads[path] != nil && slices.Contains(args, "--local") && !slices.Contains(args, "--latency") {
		args = append(args, "--latency", memoryLatency.String())
	}
	return args
}

// interrupted is the exit code of a command that was interrupted.
const interrupted = 130
