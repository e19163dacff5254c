//go:build conformance

package peers

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Every client of a [Local] uses Region, AccessKey and SecretKey. DynamoDB Local accepts
// any values, if the key is alphanumeric.
const (
	Region    = "us-east-1"
	AccessKey = "local"
	SecretKey = "local"
)

// Local is a running DynamoDB Local.
type Local struct {
	// Endpoint is its URL, on loopback.
	Endpoint string
	// Client is a client of it, with the SDK's default retries.
	Client *dynamodb.Client
}

// watched runs a program, with a watcher that kills it as soon as standard input ends. A
// test binary that panics or times out runs no cleanup, and would leave the process behind.
const watched = `exec 3<&0; (cat <&3; kill -9 $$) >/dev/null 2>&1 & exec "$@" 3<&-`

// startTimeout bounds the wait for the first answer, which takes about two seconds on an
// idle machine.
const startTimeout = 90 * time.Second

// DynamoDBLocal starts a fresh, empty DynamoDB Local on a free loopback port,
// waits until it answers, and kills it when the test ends. Start one for a
// whole suite: each costs seconds and hundreds of megabytes.
func DynamoDBLocal(tb testing.TB) *Local {
	tb.Helper()
	lib := filepath.Dir(require(tb, "dynamodb-local", "DynamoDBLocal-2.6.1.jar"))
	var err error
	for range 3 { // another process may take the free port before java does
		var local *Local
		if local, err = start(tb, lib); err == nil {
			return local
		}
	}
	tb.Fatalf("peers: start DynamoDB Local: %v", err)
	return nil
}

// start has Java compile once and quickly: a suite ends before the optimizing compiler would
// pay, and that compiler takes a third of the processor's time. Nor does a collector with
// threads of its own pay.
func start(tb testing.TB, lib string) (*Local, error) {
	tb.Helper()
	var local *Local
	_, err := launch(tb, "dynamodb-local", func(port string) []string {
		return []string{
			"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-Djava.library.path=" + lib, "-cp", filepath.Join(lib, "*"),
			"com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
			"-inMemory", "-sharedDb", "-disableTelemetry", "-port", port,
		}
	}, func(ctx context.Context, endpoint string) error {
		local = &Local{Endpoint: endpoint, Client: newClient(endpoint)}
		_, err := local.Client.ListTables(ctx, &dynamodb.ListTablesInput{}, func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
		return err
	})
	return local, err
}

// server is a process that answers.
type server struct {
	pid int
	// log is the path of what it writes.
	log string
	// stop kills it and waits for its end. It may be called again.
	stop func()
}

// tell logs the end of what the server has written, if the test has failed.
func (s *server) tell(tb testing.TB) {
	tb.Helper()
	const most = 8000
	text, err := os.ReadFile(s.log)
	if err != nil || !tb.Failed() {
		return
	}
	tb.Logf("peers: the end of %s:\n%s", filepath.Base(s.log), text[max(0, len(text)-most):])
}

// launch starts a server on a free loopback port, waits until it answers, and kills it when
// the test ends. Children of the server that read standard input end at the same time.
func launch(tb testing.TB, name string, command func(port string) []string, ask func(ctx context.Context, endpoint string) error) (*server, error) {
	tb.Helper()
	port, err := freePort(tb.Context())
	if err != nil {
		return nil, err
	}
	output, err := os.Create(filepath.Join(tb.TempDir(), name+".log"))
	if err != nil {
		return nil, err
	}
	args := append([]string{"-c", watched, "sh"}, command(strconv.Itoa(port))...)
	cmd := exec.Command("sh", args...) //nolint:noctx // it must outlive the test's context, which ends before the cleanups
	cmd.Stdout, cmd.Stderr = output, output
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the result does not matter: it is killed, or the start fails
		close(exited)
	}()
	stop := func() {
		_ = cmd.Process.Kill()
		<-exited
		_ = stdin.Close()
		_ = output.Close()
	}
	endpoint := fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := await(tb.Context(), func(ctx context.Context) error { return ask(ctx, endpoint) }, exited); err != nil {
		stop()
		log, _ := os.ReadFile(output.Name())
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	tb.Cleanup(stop)
	return &server{cmd.Process.Pid, output.Name(), stop}, nil
}

// await returns when the server answers, or an error when the process ends or
// does not answer in time.
func await(ctx context.Context, ask func(context.Context) error, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		err := ask(ctx)
		select {
		case <-exited: // checked first: another process on the same port may have answered
			return fmt.Errorf("the process ended: %w", io.ErrUnexpectedEOF)
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v: %w", startTimeout, err)
		case <-poll.C:
			if err == nil {
				return nil
			}
		}
	}
}

func newClient(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       Region,
		BaseEndpoint: aws.String(endpoint),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: AccessKey, SecretAccessKey: SecretKey}, nil
		}),
	})
}

func freePort(ctx context.Context) (int, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close() //nolint:errcheck // nothing was accepted
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("unexpected address %v", l.Addr())
	}
	return addr.Port, nil
}
