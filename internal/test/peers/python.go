//go:build conformance

package peers

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"
)

// Python returns the interpreter of the virtual environment in which the
// Python peer is installed.
func Python(tb testing.TB) string {
	tb.Helper()
	return require(tb, "python", "bin", "python")
}

// AWS returns the AWS command line, which is installed with the Python peer.
func AWS(tb testing.TB) string {
	tb.Helper()
	return require(tb, "python", "bin", "aws")
}

// A Script is a running Python script that answers each line of JSON with another. Only one
// caller at a time may use it.
type Script struct {
	in  *json.Encoder
	out *json.Decoder
}

// StartScript starts the script at a path, with the environment that clients of a [Local]
// need. When the test ends, so does the script's standard input. The test fails unless the
// script then ends without an error.
func StartScript(tb testing.TB, path string) *Script {
	tb.Helper()
	cmd := exec.Command(Python(tb), path) //nolint:noctx // it must outlive the test's context, which ends before the cleanups
	cmd.Env = []string{
		"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey,
		"AWS_EC2_METADATA_DISABLED=true", "PYTHONDONTWRITEBYTECODE=1",
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatalf("peers: start %s: %v", path, err)
	}
	tb.Cleanup(func() {
		_ = in.Close() // this ends the script
		if err := cmd.Wait(); err != nil {
			tb.Errorf("peers: %s: %v", path, err)
		}
		if tb.Failed() {
			tb.Logf("peers: what %s wrote to standard error:\n%s", path, &stderr)
		}
	})
	return &Script{json.NewEncoder(in), json.NewDecoder(out)}
}

// Ask sends a request and reads the answer of the script. An error means that the script
// has ended or that its answer is not JSON.
func (s *Script) Ask(request, answer any) error {
	if err := s.in.Encode(request); err != nil {
		return err
	}
	return s.out.Decode(answer)
}
