//go:build conformance

package peers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"syscall"
	"testing"
)

// Served is a running zae-limiter local.
type Served struct {
	Local
	// Environment is the environment that it printed for other programs, as NAME=value.
	Environment []string
}

// Serve runs the zae-limiter local of a program path, on a free loopback port, and waits
// until it serves. When the test ends, Serve interrupts it. The test fails unless it then
// ends without an error.
func Serve(tb testing.TB, program string, args ...string) *Served {
	tb.Helper()
	args = append([]string{"-c", watched, "sh", program, "local", "--addr", "127.0.0.1:0", "--output", "json"}, args...)
	cmd := exec.Command("sh", args...) //nolint:noctx // it must outlive the test's context, which ends before the cleanups
	cmd.Env = []string{}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	read, write := io.Pipe()
	cmd.Stdout = write
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatalf("peers: start %s: %v", program, err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		_ = write.Close()
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails if the process has ended, which is reported below
		if err := <-ended; err != nil || stderr.Len() > 0 {
			tb.Errorf("peers: zae-limiter local: %v\n%s", err, &stderr)
		}
		_ = stdin.Close()
	})
	var said struct {
		Endpoint    string
		Environment map[string]string
	}
	line, err := bufio.NewReader(read).ReadBytes('\n')
	if err != nil {
		tb.Fatalf("peers: zae-limiter local does not say where it is: %v", err)
	}
	if err := json.Unmarshal(line, &said); err != nil {
		tb.Fatalf("peers: zae-limiter local prints %s: %v", line, err)
	}
	s := &Served{Local: Local{Endpoint: said.Endpoint, Client: newClient(said.Endpoint)}}
	for name, value := range said.Environment {
		s.Environment = append(s.Environment, name+"="+value)
	}
	return s
}
