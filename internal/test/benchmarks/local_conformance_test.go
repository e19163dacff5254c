//go:build conformance

package benchmarks_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// local is DynamoDB Local, in its own process.
var local = engine{
	name: "DynamoDB Local", entities: 64, slice: 300,
	start: func(tb testing.TB, l load) (dynamo.API, *recording) {
		tb.Helper()
		client := newClient(peers.DynamoDBLocal(tb).Endpoint)
		return client, record(tb, client, l)
	},
}
