//go:build conformance

package peers

import "testing"

// Python returns the interpreter of the virtual environment in which the
// Python peer is installed.
func Python(tb testing.TB) string {
	tb.Helper()
	return require(tb, "python", "bin", "python")
}

// AWS returns the AWS command line, which is installed beside the Python peer.
func AWS(tb testing.TB) string {
	tb.Helper()
	return require(tb, "python", "bin", "aws")
}
