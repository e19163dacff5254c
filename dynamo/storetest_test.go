package dynamo_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/store/storetest"
)

// liteStore returns a store on an embedded engine of its own.
func liteStore(t *testing.T) *dynamo.Store {
	t.Helper()
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: fixture.NewTableOf(t, dynamo.TableOptions{Name: "limits"}), Table: "limits"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store { t.Helper(); return liteStore(t) })
}

// overHTTP returns the SDK's client of an engine behind HTTP.
func overHTTP(t *testing.T, o dynamolite.Options) *dynamodb.Client {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- dynamolite.NewHandler(dynamolite.New(o), dynamolite.HandlerOptions{}).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	endpoint := "http://" + l.Addr().String()
	return dynamodb.New(dynamodb.Options{Region: "us-east-1", Credentials: static, BaseEndpoint: &endpoint})
}

func TestLongStoreOverHTTP(t *testing.T) {
	t.Parallel()
	api := overHTTP(t, dynamolite.Options{})
	if err := dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, storesOn(api))
}

// storesOn opens stores on one table, each on a namespace of its own.
func storesOn(api dynamo.API) func(*testing.T) storetest.Store {
	var opened atomic.Int64
	return func(t *testing.T) storetest.Store {
		t.Helper()
		return openNamespace(t, api, fmt.Sprintf("store-%d", opened.Add(1)))
	}
}

// openNamespace registers a namespace and opens a store on it.
func openNamespace(t *testing.T, api dynamo.API, name string) *dynamo.Store {
	t.Helper()
	o := dynamo.Options{API: api, Table: table, Namespace: name, Timeout: time.Minute} // the suite sends many requests at once to a busy machine
	namespaces, err := admin.NewNamespaces(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Register(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	s, err := dynamo.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLimiterOnTheStore(t *testing.T) {
	t.Parallel()
	storetest.RunLimiter(t, storetest.Virtual, func(t *testing.T) storetest.Store { t.Helper(); return liteStore(t) })
}
