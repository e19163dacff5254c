package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/internal/cli"
)

// withoutJSON lists the commands that run until they are interrupted and have no result, and
// those that need more of AWS than a script has, or files of results.
var withoutJSON = []string{
	"aggregate", "local", "loadtest orchestrate", "loadtest serve-worker", "loadtest ui", "loadtest worker", "provision",
	"audit search", "redrive", "loadtest compare", "loadtest report", "loadtest swarm run", "loadtest swarm tune",
}

// checkJSON checks what a run with JSON output wrote to standard error: nothing if it succeeded,
// else at most one error. Lines of a log are objects, too.
func (c *commands) checkJSON(ts *testscript.TestScript, args []string, code int, stderr string) {
	failures := 0
	for line := range strings.Lines(stderr) {
		var object struct{ Level, Error string }
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			ts.Fatalf("with JSON output, standard error has %q", line)
		}
		if object.Level == "" {
			failures++
		}
	}
	if failures > 1 || failures == 1 && code == 0 {
		ts.Fatalf("exit code %d, and %d errors with JSON output: %s", code, failures, stderr)
	}
	if path, _ := cli.CommandOf(args); code == 0 {
		c.asJSON.Store(path, true)
	}
}

// completeJSON fails the test if no script runs a command with JSON output.
func (c *commands) completeJSON(t *testing.T) {
	t.Helper()
	for _, words := range cli.CommandPaths() {
		path, isCommand := cli.CommandOf(words)
		if !isCommand || slices.Contains(withoutJSON, path) {
			continue
		}
		if _, ok := c.asJSON.Load(path); !ok {
			t.Errorf("no script runs %q with --output json: write one, or say in withoutJSON why not", path)
		}
	}
}
