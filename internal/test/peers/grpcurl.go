//go:build conformance

package peers

import (
	"os/exec"
	"testing"
)

// RunGrpcurl runs grpcurl, and returns what it prints. The error says that its exit code is not 0.
func RunGrpcurl(tb testing.TB, args ...string) (string, error) {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), require(tb, "grpcurl", "grpcurl"), args...).CombinedOutput() //nolint:gosec // the program of the peers
	return string(out), err
}
