//go:build conformance

package benchmarks_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/peers"
)

// local is DynamoDB Local, in its own process.
var local = engine{
	name: "DynamoDB Local", entities: 64, slice: 300,
	start: func(tb testing.TB, l load) (dynamo.API, *recording) {
		tb.Helper()
		client := newClient(startLocal(tb).Endpoint)
		return client, record(tb, client, l)
	},
}

// startLocal returns a running DynamoDB Local.
func startLocal(tb testing.TB) *peers.Local {
	tb.Helper()
	if os.Getenv("PEERS_DIR") == "" { // otherwise peers looks for it in this module
		dir, err := filepath.Abs(filepath.Join("..", ".cache", "peers"))
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.Setenv("PEERS_DIR", dir); err != nil { //nolint:usetesting // it applies to every test
			tb.Fatal(err)
		}
	}
	return peers.DynamoDBLocal(tb)
}
