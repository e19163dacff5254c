//go:build !conformance

package benchmarks_test

import "testing"

// localEndpoint would start a DynamoDB Local, with the build tag conformance.
func localEndpoint(tb testing.TB) string {
	tb.Helper()
	tb.Log("DynamoDB Local: NOT MEASURED: it takes the build tag conformance")
	return ""
}
