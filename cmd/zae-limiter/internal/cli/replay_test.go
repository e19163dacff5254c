package cli_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A piped is a log that comes through a pipe. It ends the context after some lines.
type piped struct {
	line string
	left int // reads before the context ends
	most int // reads after that
	end  context.CancelFunc
}

func (s *piped) Read(p []byte) (int, error) {
	if s.left--; s.left == 0 {
		s.end()
	}
	if s.left < -s.most {
		return 0, io.EOF
	}
	n := 0
	for n+len(s.line) <= len(p) {
		n += copy(p[n:], s.line)
	}
	return n, nil
}

// An interruption ends a replay, whether or not its lines can be read, and shows nothing.
func TestAnInterruptedReplayEnds(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("namespace: default\nsystem: {limits: {rpm: {capacity: 5}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]string{
		"malformed lines": "{this is no event}\n",
		"events":          `{"time":1700000000,"entity":"a","resource":"r"}` + "\n",
		"both":            `{"time":1700000000,"entity":"a","resource":"r"}` + "\n{}\n",
		"empty lines":     "\n",
		"one line":        "{",
	} {
		for _, more := range [][]string{nil, {"--refuse-at-most", "1%"}, {"--output", "json"}} {
			ctx, cancel := context.WithCancel(t.Context())
			s := &piped{line: line, left: 3, most: 100, end: cancel}
			code, stdout, stderr := run(ctx, s, append([]string{"replay", "-", "--limits", limits, "--format", "json"}, more...)...)
			if code != 130 || stdout != "" || !strings.Contains(stderr, "canceled") || s.left < -10 {
				t.Errorf("%s %v: exit code %d, %d reads after the interruption, output %q, errors %q", name, more, code, -s.left, stdout, stderr)
			}
		}
	}
}
