package cli_test

import (
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// reportsOnlyItsError asks a server that sends content after the answer to a HEAD request.
// net/http reports that to the log of the process, which standard error is not.
func reportsOnlyItsError(t *testing.T, bin string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // on loopback
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1<<16))
			_, _ = c.Write([]byte("HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"))
			_ = c.Close()
		}
	}()
	for range 5 { // the report is a matter of time
		cmd := exec.CommandContext(t.Context(), bin, "aggregate", "--archive", "s3://bucket/audit", "--archive-endpoint", "http://"+l.Addr().String(), "--output", "json")
		cmd.Env = bare(t, "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_REGION=us-east-1")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !json.Valid([]byte(stderr.String())) {
			t.Fatalf("it ended with %v, errors %q", err, &stderr)
		}
	}
}
