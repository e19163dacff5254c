//go:build conformance

package usage_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// DynamoDB Local passes the checks that this package makes on the embedded engine.
func TestOnDynamoDBLocal(t *testing.T) {
	t.Parallel()
	api := peers.DynamoDBLocal(t).Client
	if err := dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: api, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Register(t.Context(), "usage"); err != nil {
		t.Fatal(err)
	}
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: api, Table: table, Namespace: "usage", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	checkUsageQueries(t, s, api, 3)
}
