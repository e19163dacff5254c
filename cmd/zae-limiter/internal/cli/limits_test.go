package cli_test

import (
	"io"
	"strings"
	"testing"
)

// An endless file has no end, and counts what is read of it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.read += int64(len(p)); e.read > 1<<30 {
		return 0, io.ErrUnexpectedEOF
	}
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

func TestAManifestWithoutAnEndIsRefused(t *testing.T) {
	t.Parallel()
	file := &endless{}
	code, _, stderr := run(t.Context(), file, "limits", "plan", "-f", "-", "--local", t.TempDir())
	if code != 1 || !strings.Contains(stderr, "the file is larger than 64 MB") {
		t.Errorf("exit code %d after %d bytes: %s", code, file.read, stderr)
	}
}
