//go:build conformance

package peers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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

// CompileTypeScript checks a module in TypeScript, as strictly as the compiler can, and returns the file of the
// module in ECMAScript that it makes of it. The module knows Node.js.
func CompileTypeScript(tb testing.TB, module string) string {
	tb.Helper()
	folder := tb.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "client.mts"), []byte(module), 0o600); err != nil {
		tb.Fatalf("peers: %v", err)
	}
	types := filepath.Join(require(tb, "node", "node_modules"), "@types")
	cmd := exec.CommandContext(tb.Context(), "node", require(tb, "node", "node_modules", "typescript", "bin", "tsc"), //nolint:gosec // the compiler of the peers
		"--strict", "--target", "es2022", "--module", "nodenext", "--typeRoots", types, "--types", "node", "client.mts")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("peers: TypeScript: %v\n%s", err, out)
	}
	return filepath.Join(folder, "client.mjs")
}
