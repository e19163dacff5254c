//go:build conformance

package benchmarks_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// localEndpoint starts a DynamoDB Local and returns its URL.
func localEndpoint(tb testing.TB) string {
	tb.Helper()
	return peers.DynamoDBLocal(tb).Endpoint
}
