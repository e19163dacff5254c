package dynamo_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/storetest"
)

// liteStore is a store on an embedded engine of its own.
func liteStore(t *testing.T) *dynamo.Store {
	t.Helper()
	engine := dynamolite.New(dynamolite.Options{})
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		t.Fatal(err)
	}
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: engine, Table: "limits"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store { t.Helper(); return liteStore(t) })
}

func TestLimiterOnTheStore(t *testing.T) {
	t.Parallel()
	storetest.RunLimiter(t, storetest.Virtual, func(t *testing.T) storetest.Store { t.Helper(); return liteStore(t) })
}
