package cli_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// A background is zae-limiter local, or serve, running in this process.
type background struct {
	url     string
	printed string
	stop    context.CancelFunc
	code    chan int
	stderr  bytes.Buffer // to be read after code
}

var endpointPattern = regexp.MustCompile(`http://[\d.:]+\d`)

// startLocal runs zae-limiter local. If it ends at once, b.url is empty.
func startLocal(o cli.Options, args ...string) *background {
	o.Args = append([]string{"local", "--addr", "127.0.0.1:0"}, args...)
	return startServing(o)
}

// startServing runs a command that serves. If it ends at once, b.url is empty.
func startServing(o cli.Options) *background {
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{stop: cancel, code: make(chan int, 1)}
	printed := make(chan string, 1)
	o.Stdin, o.Stderr = strings.NewReader(""), &b.stderr
	o.Stdout = writerFunc(func(p []byte) (int, error) { printed <- string(p); return len(p), nil })
	ended := make(chan int, 1)
	go func() { ended <- cli.Run(ctx, o) }()
	select {
	case b.printed = <-printed:
		b.url = endpointPattern.FindString(b.printed)
		b.code = ended
	case code := <-ended:
		b.code <- code
	}
	return b
}

// end interrupts the server, and returns its exit code and errors.
func (b *background) end() (code int, stderr string) {
	b.stop()
	return <-b.code, b.stderr.String()
}

// newClient is a client of a server that accepts any key.
func newClient(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
}

func serve(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	if w.server != nil {
		ts.Fatalf("it is running")
	}
	b := startLocal(cli.Options{Getenv: ts.Getenv, Now: w.now}, args...)
	if b.url == "" {
		code, stderr := b.end()
		ts.Fatalf("exit code %d: %s", code, stderr)
	}
	w.server = b
	ts.Defer(func() {
		if w.server == b {
			b.end()
		}
	})
	ts.Setenv("ENDPOINT", b.url)
	ts.Setenv("ADDR", strings.TrimPrefix(b.url, "http://"))
	_, err := io.WriteString(ts.Stdout(), b.printed)
	ts.Check(err)
}

func interrupt(ts *testscript.TestScript, _ bool, _ []string) {
	w := worldOf(ts)
	if w.server == nil {
		ts.Fatalf("nothing is running")
	}
	code, stderr := w.server.end()
	w.server = nil
	if code != 0 || stderr != "" {
		ts.Fatalf("exit code %d, errors %q", code, stderr)
	}
}

func damage(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(strings.Join(args, " "))
	data, err := os.ReadFile(name)
	ts.Check(err)
	end := bytes.LastIndexFunc(data[:bytes.LastIndexFunc(data, notZero)], notZero)
	data[end/2] ^= 1
	ts.Check(os.WriteFile(name, data, 0o600))
}

func notZero(r rune) bool { return r != 0 }
