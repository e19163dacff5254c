package dynamo_test

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/faults"
	"github.com/zeroae/zae-limiter-go/internal/limitertest"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

const table = limitertest.Table

var _ dynamo.API = (*dynamolite.DB)(nil)

// start is the instant at which tests begin.
var start = time.UnixMilli(1700000000000)

func now() time.Time { return start }

// newTable returns an engine with a table in it.
func newTable(t *testing.T) *dynamolite.DB {
	t.Helper()
	return newTableOf(t, dynamo.TableOptions{Now: now})
}

// newTableOf returns an engine with a table of the given options.
func newTableOf(t *testing.T, o dynamo.TableOptions) *dynamolite.DB {
	t.Helper()
	db := newEngine(t)
	limitertest.CreateTable(t, db, o)
	return db
}

// newEngine returns an engine without a table. It closes with the test, because a table
// that expires items has a goroutine.
func newEngine(t *testing.T) *dynamolite.DB {
	t.Helper()
	return limitertest.NewEngine(t, dynamolite.Options{})
}

func openStore(t *testing.T, api dynamo.API) *dynamo.Store {
	t.Helper()
	s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: api, Table: table, Now: now}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newStore returns a store whose requests pass through a tap.
func newStore(t *testing.T) (*dynamo.Store, *faults.Tap) {
	t.Helper()
	f := faults.NewTap(newTable(t))
	s := openStore(t, f)
	f.Take()
	return s, f
}

// put writes an item directly, not through the store.
func put(t *testing.T, api dynamo.API, it schema.Item) {
	t.Helper()
	if _, err := api.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: it}); err != nil {
		t.Fatal(err)
	}
}

// get reads an item directly, not through the store; nil if there is none.
func get(t *testing.T, api dynamo.API, k schema.Key) schema.Item {
	t.Helper()
	out, err := api.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: k.Item()})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// bucket writes a shard of a bucket.
func bucket(t *testing.T, s *dynamo.Store, api dynamo.API, entity, resource string, shard, shards int) {
	t.Helper()
	_, ns := s.Namespace()
	limit := func(name string) store.NewLimit {
		return store.NewLimit{
			NamedParams: store.NamedParams{Limit: name, Params: store.Params{Capacity: 1000, Amount: 1000, Period: 1000}},
			Tokens:      int64(shard),
		}
	}
	put(t, api, schema.EncodeNewBucket(ns, &store.Create{
		Bucket: store.Bucket{Entity: entity, Resource: resource, Shard: shard},
		Now:    start.UnixMilli(), ShardCount: shards, Limits: []store.NewLimit{limit("rpm")}, Writes: limit(schema.WCU),
	}))
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}
