//go:build conformance

package conformance_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/peers"
	"github.com/zeroae/zae-limiter-go/storetest"
)

// The suite of stores, each on a namespace of its own.
func TestStoreOnDynamoDBLocal(t *testing.T) {
	t.Parallel()
	const table = "store"
	api := peers.DynamoDBLocal(t).Client
	if err := dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int64
	open := func(t *testing.T) storetest.Store {
		t.Helper()
		o := dynamo.Options{API: api, Table: table, Namespace: fmt.Sprintf("store-%d", opened.Add(1))}
		namespaces, err := dynamo.NewNamespaces(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := namespaces.Register(t.Context(), o.Namespace); err != nil {
			t.Fatal(err)
		}
		s, err := dynamo.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("Store", func(t *testing.T) { storetest.Run(t, open) })
	t.Run("Limiter", func(t *testing.T) { storetest.RunLimiter(t, storetest.Real, open) })
}
