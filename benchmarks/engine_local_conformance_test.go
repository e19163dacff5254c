//go:build conformance

package benchmarks_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/peers"
)

// localEndpoint starts a DynamoDB Local and returns its URL.
func localEndpoint(tb testing.TB) string {
	tb.Helper()
	if os.Getenv("PEERS_DIR") == "" { // otherwise peers looks for it in this module
		dir, err := filepath.Abs(filepath.Join("..", ".cache", "peers"))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Setenv("PEERS_DIR", dir)
	}
	return peers.DynamoDBLocal(tb).Endpoint
}
