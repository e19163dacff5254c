package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// withoutJSON lists the commands that run until they are interrupted and have no result, and
// those that need more of AWS than a script has, or files of results.
var withoutJSON = []string{
	"aggregate", "local", "loadtest orchestrate", "loadtest serve-worker", "loadtest ui", "loadtest worker", "provision", "serve",
	"redrive", "loadtest compare", "loadtest report", "loadtest swarm run", "loadtest swarm tune",
}

// wantsOutput reports whether arguments ask for a form of output.
func wantsOutput(args []string, form string) bool {
	for i, arg := range args {
		if arg == "--" {
			return false
		}
		if arg == "--output="+form || arg == form && i > 0 && (args[i-1] == "--output" || args[i-1] == "-o") {
			return true
		}
	}
	return false
}

// checkJSON checks what a run with JSON output wrote, against the schemas of docs/schemas: a
// result to standard output, and to standard error nothing if it succeeded, else at most one
// error. Lines of the log may come before.
func (c *commands) checkJSON(ts *testscript.TestScript, args []string, code int, stdout []byte, stderr string) {
	path, _ := cli.CommandOf(args)
	if path == "" {
		path = "version" // the flag of the root
	}
	for d := json.NewDecoder(bytes.NewReader(stdout)); d.More(); { // watch writes one for each look
		var result json.RawMessage
		if err := errors.Join(d.Decode(&result), validate(path, result)); err != nil {
			ts.Fatalf("the result does not keep the schema of %q: %v", path, err)
		}
	}
	failures := 0
	for line := range strings.Lines(stderr) {
		var object struct{ Level, Error string }
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			ts.Fatalf("with JSON output, standard error has %q", line)
		}
		of := "log"
		if object.Level == "" {
			of = "error"
			failures++
		}
		if err := validate(of, []byte(line)); err != nil {
			ts.Fatalf("standard error does not keep the schema of %s: %v", of, err)
		}
	}
	if failures > 1 || failures == 1 && code == 0 {
		ts.Fatalf("exit code %d, and %d errors with JSON output: %s", code, failures, stderr)
	}
	if code == 0 {
		c.asJSON.Store(path, true)
	}
}

// checkCSV checks that the columns have names of the command's JSON, or of docs/json.md: a map
// of JSON is a column of keys.
func checkCSV(ts *testscript.TestScript, args []string, stdout string) {
	path, _ := cli.CommandOf(args)
	schema, err := os.ReadFile(schemaFile(path))
	ts.Check(err)
	shared, err := sharedNames()
	ts.Check(err)
	header, _, _ := strings.Cut(stdout, "\n")
	for name := range strings.SplitSeq(header, ",") {
		if _, ok := shared[name]; !ok && !strings.Contains(string(schema), `"`+name+`": {`) {
			ts.Fatalf("%s: the column %q has no name of its JSON", path, name)
		}
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
