//go:build conformance

package peers

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// RunNode runs an ECMAScript module with the packages that conformance/node names. The module
// reads standard input, and RunNode returns its standard output.
func RunNode(tb testing.TB, module string, input []byte) []byte {
	tb.Helper()
	text, err := os.ReadFile(module)
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	require(tb, "node", "node_modules")
	cmd := exec.CommandContext(tb.Context(), "node", "--input-type=module", "-e", string(text)) //nolint:gosec // the module is of this repository
	cmd.Dir = require(tb, "node")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		tb.Fatalf("peers: %s: %v\n%s", module, err, &errs)
	}
	return out.Bytes()
}
