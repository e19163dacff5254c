package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// isolate hides everything that the SDK could find: the credentials and configuration of
// the user who runs the tests, and a role of the machine.
func isolate(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_S3",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		t.Setenv(name, "")
	}
}

func run(ctx context.Context, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(ctx, cli.Options{
		Args: args, Stdin: stdin, Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" },
	})
	return code, out.String(), errs.String()
}

// A server answers every request like a DynamoDB without the table, and keeps the requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, r)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"no table"}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// Not parallel: the SDK reads the environment of the process.
func TestTheRealClientGoesWhereItIsTold(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "local")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "local")
	t.Setenv("AWS_REGION", "eu-central-1")
	s := newServer(t)
	for _, tt := range []struct{ flag, region string }{{"", "eu-central-1"}, {"us-west-2", "us-west-2"}} {
		s.requests = nil
		args := []string{"entity", "get", "key-1", "-n", "limits", "--endpoint-url", s.URL}
		if tt.flag != "" {
			args = append(args, "--region", tt.flag)
		}
		code, stdout, stderr := run(t.Context(), strings.NewReader(""), args...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, "\nTry: zae-limiter table create -n limits") {
			t.Errorf("exit code %d, output %q, errors %q", code, stdout, stderr)
		}
		if len(s.requests) != 1 {
			t.Fatalf("%d requests reached the server, want 1", len(s.requests))
		}
		auth := s.requests[0].Header.Get("Authorization")
		if !strings.Contains(auth, "Credential=local/") || !strings.Contains(auth, "/"+tt.region+"/dynamodb/") {
			t.Errorf("signed %q, want the key of the environment and region %s", auth, tt.region)
		}
	}
}

// Not parallel: the SDK reads the environment of the process.
func TestNoCredentialsAreMadeUp(t *testing.T) {
	isolate(t)
	s := newServer(t)
	code, _, stderr := run(t.Context(), strings.NewReader(""), "entity", "get", "key-1",
		"--endpoint-url", s.URL, "--region", "us-east-1", "--output", "json")
	var got struct{ Error, Message string }
	if err := json.Unmarshal([]byte(stderr), &got); err != nil {
		t.Fatalf("errors are not one JSON object: %v: %q", err, stderr)
	}
	if code != 1 || got.Error != "access_denied" || !strings.Contains(got.Message, "set AWS_ACCESS_KEY_ID") {
		t.Errorf("exit code %d, %+v", code, got)
	}
	if len(s.requests) > 0 {
		t.Errorf("%d requests were sent", len(s.requests))
	}
}

// AWS answers a wrong signature with all that it has signed, in many lines. One is enough.
//
// Not parallel: the SDK reads the environment of the process.
func TestAWrongSecretIsOneLine(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.service#InvalidSignatureException","message":"The signature does not match.\n\nThe Canonical String should have been\n'POST\n/'\n"}`)
	}))
	t.Cleanup(s.Close)
	code, _, stderr := run(t.Context(), strings.NewReader(""), "entity", "get", "key-1", "--region", "us-east-1", "--endpoint-url", s.URL)
	const want = "InvalidSignatureException: The signature does not match.\nTry: again with the right AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE\n"
	if code != 1 || !strings.HasSuffix(stderr, want) || strings.Count(stderr, "\n") != 2 {
		t.Errorf("exit code %d, errors %q", code, stderr)
	}
}

// Not parallel: the SDK reads the environment of the process.
func TestARegionIsNeeded(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "local")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "local")
	s := newServer(t)
	code, _, stderr := run(t.Context(), strings.NewReader(""), "entity", "get", "key-1", "--endpoint-url", s.URL)
	if code != 2 || !strings.HasPrefix(stderr, "Error: no AWS region: give --region") || len(s.requests) > 0 {
		t.Errorf("exit code %d, %d requests, errors %q", code, len(s.requests), stderr)
	}
}

func TestAnInterruptEndsTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stdout, stderr := runOnEngine(ctx, &bytes.Buffer{}, "entity", "get", "key-1", "--output", "json")
	if code != 130 || stdout != "" || !strings.HasPrefix(stderr, `{"error":"canceled",`) {
		t.Errorf("exit code %d, output %q, errors %q", code, stdout, stderr)
	}
}

func runOnEngine(ctx context.Context, stdout io.Writer, args ...string) (code int, out, errs string) {
	var buffer, stderr bytes.Buffer
	code = cli.Run(ctx, cli.Options{
		Args: args, Stdin: strings.NewReader(""), Stdout: io.MultiWriter(&buffer, stdout), Stderr: &stderr,
		Getenv: func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) {
			return dynamolite.New(dynamolite.Options{}), nil
		},
	})
	return code, buffer.String(), stderr.String()
}

// TestAnInterruptEndsAQuestion: an unanswered question does not block the end of the
// program.
func TestAnInterruptEndsAQuestion(t *testing.T) {
	t.Parallel()
	silent, silence := io.Pipe()
	defer silence.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var told []byte
	asked := writerFunc(func(b []byte) (int, error) {
		told = append(told, b...)
		if bytes.Contains(b, []byte("[y/N]")) {
			cancel()
		}
		return len(b), nil
	})
	code := cli.Run(ctx, cli.Options{
		Args: []string{"entity", "delete", "key-1"}, Stdin: silent, Terminal: true, Stdout: io.Discard, Stderr: asked,
		Getenv: func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) {
			return nil, errors.New("nothing may be sent")
		},
	})
	if code != 130 || !bytes.Contains(told, []byte("[y/N] \nError: ")) {
		t.Errorf("exit code %d, want 130, and told %q", code, told)
	}
}

// Text of a table reaches no terminal with characters that the terminal obeys, and does not
// leave its line; nor do arguments in errors.
func TestTextOfATableIsShownAndNotObeyed(t *testing.T) {
	t.Parallel()
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	run := func(args ...string) (code int, out string) {
		var all bytes.Buffer
		code = cli.Run(t.Context(), cli.Options{
			Args: args, Stdin: strings.NewReader(""), Stdout: &all, Stderr: &all, Getenv: func(string) string { return "" },
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
		})
		if i := strings.IndexFunc(all.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q writes a character that a terminal obeys, at byte %d: %q", args, i, all.String())
		}
		return code, all.String()
	}
	run("table", "create")
	const name = "A\nB\tC\x1b[31mred\u009b2J\u202eend"
	if code, out := run("entity", "create", "key-17", "--display-name", name, "--metadata", "a=\x1b[2J"); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	const shown = `A\u000aB\u0009C\u001b[31mred\u009b2J\u202eend`
	if _, out := run("entity", "get", "key-17"); !regexp.MustCompile(`(?m)^Name: +` + regexp.QuoteMeta(shown) + `$`).MatchString(out) {
		t.Errorf("entity get prints\n%s", out)
	}
	_, out := run("entity", "get", "key-17", "--output", "json")
	var read struct{ Name string }
	if err := json.Unmarshal([]byte(out), &read); err != nil || read.Name != name {
		t.Errorf("the JSON means %q, %v: %s", read.Name, err, out)
	}
	for _, args := range [][]string{{"entity", "get", "key\x1b[31m"}, {"acquire", "key-1", "api", "--consume", "\x1b=1"}, {"\x1b[2J"}, {"entity", "--\x1b"}} {
		if code, out := run(args...); code != 2 {
			t.Errorf("%q: exit code %d: %s", args, code, out)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestAResultThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	broken := writerFunc(func([]byte) (int, error) { return 0, errors.New("broken pipe") })
	code, _, stderr := runOnEngine(t.Context(), broken, "table", "create")
	if diff := cmp.Diff("Error: write the result: broken pipe\n", stderr); code != 1 || diff != "" {
		t.Errorf("exit code %d, errors (-want +got):\n%s", code, diff)
	}
	for _, args := range [][]string{{"--help"}, {"help", "entity"}, {"acquire", "--help"}, {"entity"}} {
		if code, _, stderr := runOnEngine(t.Context(), broken, args...); code != 1 || stderr != "Error: write the result: broken pipe\n" {
			t.Errorf("%v: exit code %d, errors %q", args, code, stderr)
		}
	}
}

// TestWhatCannotBeAnnouncedIsNotServed: a program that cannot print the server's address
// ends, and releases the directory.
func TestWhatCannotBeAnnouncedIsNotServed(t *testing.T) {
	t.Parallel()
	broken := writerFunc(func([]byte) (int, error) { return 0, errors.New("broken pipe") })
	dir := t.TempDir()
	code, _, stderr := runOnEngine(t.Context(), broken, "local", "--addr", "127.0.0.1:0", "--data", dir)
	if diff := cmp.Diff("Error: serve at 127.0.0.1:0: write the result: broken pipe\n", stderr); code != 1 || diff != "" {
		t.Errorf("exit code %d, errors (-want +got):\n%s", code, diff)
	}
	if code, _, stderr := runOnEngine(t.Context(), io.Discard, "table", "create", "--local", dir); code != 0 {
		t.Errorf("the directory afterwards: exit code %d, errors %q", code, stderr)
	}
}
