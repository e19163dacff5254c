//go:build conformance

// Package emulated_test tests what runs in an AWS account, without one: the stack on
// LocalStack, and the functions under AWS's runtime interface emulator. Real AWS is tested
// by make aws.
package emulated_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// patience bounds every wait for something that happens in another process.
const patience = 2 * time.Minute

// program builds zae-limiter, once.
var program = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../../../../../../.cache/emulated/zae-limiter")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "../../../..")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	return path, cmd.Run()
})

// until asks again and again until the answer is yes.
func until(t *testing.T, what string, answer func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for {
		yes, err := answer(ctx)
		if yes && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s; last error: %v", patience, what, err)
		case <-poll.C:
		}
	}
}

// created makes a table with a stream, and opens it.
func created(t *testing.T, db *dynamodb.Client, table string) *dynamo.Store {
	t.Helper()
	if err := dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: table, Stream: true, Principal: "tester"}); err != nil {
		t.Fatal(err)
	}
	return opened(t, db, table)
}

func opened(t *testing.T, db *dynamodb.Client, table string) *dynamo.Store {
	t.Helper()
	store, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// take acquires 3 tokens n times for an entity, each time with writes of its own.
func take(t *testing.T, store *dynamo.Store, entity string, n int) {
	t.Helper()
	l, err := limiter.New(store, limiter.Options{InFlight: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range n {
		lease, err := l.Acquire(t.Context(), limiter.Request{
			Entity: entity, Resource: "gpt-4", Consume: map[string]int64{"rpd": 3}, Fallback: []limiter.Limit{limiter.PerDay("rpd", 1000)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// counted is what usage shows of an entity, summed over all days.
type counted struct{ Events, Tokens int64 }

// usageOf reads the usage of an entity that take has used.
func usageOf(ctx context.Context, store *dynamo.Store, entity string) (counted, error) {
	sum, err := store.Usage().Sum(ctx, usage.Query{Entity: entity, Window: usage.Daily})
	if err != nil {
		return counted{}, err
	}
	c := counted{Events: sum.Events}
	for _, l := range sum.Limits {
		c.Tokens += l.Total.Int64() / 1000
	}
	return c, nil
}

// drop deletes the bucket of an entity, as the table does when it expires.
func drop(t *testing.T, db *dynamodb.Client, table string, store *dynamo.Store, entity string) {
	t.Helper()
	_, ns := store.Namespace()
	if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: &table, Key: schema.BucketKey(ns, limiter.Bucket{Entity: entity, Resource: "gpt-4"}).Item(),
	}); err != nil {
		t.Fatal(err)
	}
}

// awaitLastPage uses an entity n times and drops its bucket. Then it waits until the
// aggregator has saved the usage: nothing else has it.
func awaitLastPage(t *testing.T, db *dynamodb.Client, table string, store *dynamo.Store, entity string, n int) {
	t.Helper()
	take(t, store, entity, n)
	drop(t, db, table, store, entity)
	awaitCount(t, store, entity, counted{Events: int64(n), Tokens: 3 * int64(n)})
}

// awaitCount waits until the usage of an entity is as wanted.
func awaitCount(t *testing.T, store *dynamo.Store, entity string, want counted) {
	t.Helper()
	var got counted
	until(t, "usage is counted", func(ctx context.Context) (bool, error) {
		var err error
		got, err = usageOf(ctx, store, entity)
		return got == want, err
	})
}
