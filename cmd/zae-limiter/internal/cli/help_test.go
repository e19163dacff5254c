package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// TestHelp compares the help of every command with a golden file, and checks that no golden
// file is left over.
func TestHelp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "help")
	known := map[string]bool{}
	for _, path := range cli.CommandPaths() {
		name := strings.Join(append([]string{"zae-limiter"}, path...), "-") + ".txt"
		known[name] = true
		var stdout, stderr bytes.Buffer
		code := cli.Run(t.Context(), cli.Options{
			Args: append(path, "--help"), Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
			Getenv: func(string) string { return "" },
		})
		if code != 0 || stderr.Len() > 0 {
			t.Errorf("%v --help: exit code %d, errors %q", path, code, &stderr)
		}
		for line := range strings.Lines(stdout.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%v --help has a line of %d columns: %s", path, n, line)
			}
		}
		golden := filepath.Join(dir, name)
		if *update {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, stdout.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Errorf("%v: %v; record it with -update", path, err)
			continue
		}
		if diff := cmp.Diff(string(want), stdout.String()); diff != "" {
			t.Errorf("%v --help (-want +got):\n%s", path, diff)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s is the help of no command: delete it", f.Name())
		}
	}
}
