//go:build conformance

package peers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Emulator is a running Lambda runtime interface emulator with one function. It handles
// one invocation at a time. It starts the function's process at the first invocation, and
// again at the next invocation after the process has ended.
type Emulator struct {
	url       string
	pid       int
	log       string
	bootstrap string
}

// RuntimeEmulator starts the emulator on an executable, with an environment as NAME=value
// and nothing else but PATH. When the test ends, the emulator and the function end.
func RuntimeEmulator(tb testing.TB, bootstrap string, environment []string) *Emulator {
	tb.Helper()
	program := require(tb, "emulator", "aws-lambda-rie")
	var err error
	for range 3 { // another process may take a free port before the emulator does
		var e *Emulator
		if e, err = startEmulator(tb, program, bootstrap, environment); err == nil {
			return e
		}
	}
	tb.Fatalf("peers: start the runtime interface emulator: %v", err)
	return nil
}

func startEmulator(tb testing.TB, program, bootstrap string, environment []string) (*Emulator, error) {
	tb.Helper()
	api, err := freePort(tb.Context())
	if err != nil {
		return nil, err
	}
	e := &Emulator{bootstrap: bootstrap}
	path := "PATH=" + os.Getenv("PATH") //nolint:forbidigo // the watcher is a shell script
	s, err := launch(tb, "emulator", func(port string) []string {
		own := append([]string{"env", "-i", path}, environment...)
		return append(own, program, "--runtime-interface-emulator-address", "127.0.0.1:"+port,
			"--runtime-api-address", "127.0.0.1:"+strconv.Itoa(api), bootstrap)
	}, func(ctx context.Context, endpoint string) error {
		e.url = endpoint + "/2015-03-31/functions/function/invocations"
		return dial(ctx, strings.TrimPrefix(endpoint, "http://"))
	})
	if err != nil {
		return nil, err
	}
	e.pid, e.log = s.pid, s.log
	return e, nil
}

// dial reports whether anybody listens at an address.
func dial(ctx context.Context, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// Invoke sends an event and returns what the function answers, or what the emulator
// answers about a function that failed: an object with errorType and errorMessage.
func (e *Emulator) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(event))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read to its end
	return io.ReadAll(answer.Body)
}

// Signal sends a signal to the process of the function.
func (e *Emulator) Signal(ctx context.Context, signal syscall.Signal) error {
	pid, err := e.Function(ctx)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, signal)
}

// Function returns the process id of the function.
func (e *Emulator) Function(ctx context.Context) (int, error) {
	program := "^([^ ]+ )?" + regexp.QuoteMeta(e.bootstrap) + "$" // after its interpreter, if it is a script
	out, err := exec.CommandContext(ctx, "pgrep", "-P", strconv.Itoa(e.pid), "-f", program).Output()
	if err != nil {
		return 0, fmt.Errorf("no process of the function: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// Log returns what the emulator and the function have written so far.
func (e *Emulator) Log(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Clean(e.log))
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	return string(text)
}
