//go:build conformance

package peers

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// RunBrowser runs an ECMAScript module that drives Chromium with the packages that browser/package.json
// names. The module reads standard input, and has the path of Chromium in the variable CHROMIUM. RunBrowser
// returns its standard output.
func RunBrowser(tb testing.TB, module string, input []byte) []byte {
	tb.Helper()
	text, err := os.ReadFile(module)
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		tb.Fatalf("peers: %v; install Chromium (Debian: chromium)", err)
	}
	require(tb, "browser", "node_modules")
	cmd := exec.CommandContext(tb.Context(), "node", "--input-type=module", "-e", string(text)) //nolint:gosec // the module is of this repository
	cmd.Dir = require(tb, "browser")
	cmd.Env = append(os.Environ(), "CHROMIUM="+chromium)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		tb.Fatalf("peers: %s: %v\n%s\n%s", module, err, &out, &errs)
	}
	return out.Bytes()
}
