package dynamo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

const table = "limits"

var _ dynamo.API = (*dynamolite.DB)(nil)

// A fault stands between a store and the engine. A fault with only an API passes
// everything on.
type fault struct {
	dynamo.API
	// page bounds the items of a query's page; batch bounds the keys that a batch
	// processes. 0 means no bound.
	page, batch int
	// before runs before a request is passed on. Its error fails the request.
	before func(op string, in any) error

	mu  sync.Mutex
	ops []string
	ins []any
}

func (f *fault) seen(op string, in any) error {
	f.mu.Lock()
	f.ops, f.ins = append(f.ops, op), append(f.ins, in)
	f.mu.Unlock()
	if f.before == nil {
		return nil
	}
	return f.before(op, in)
}

// reset forgets the recorded requests.
func (f *fault) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops, f.ins = nil, nil
}

func (f *fault) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if err := f.seen("GetItem", in); err != nil {
		return nil, err
	}
	return f.API.GetItem(ctx, in, opts...)
}

func (f *fault) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	if err := f.seen("DescribeTable", in); err != nil {
		return nil, err
	}
	return f.API.DescribeTable(ctx, in, opts...)
}

func (f *fault) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if err := f.seen("PutItem", in); err != nil {
		return nil, err
	}
	return f.API.PutItem(ctx, in, opts...)
}

func (f *fault) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if err := f.seen("UpdateItem", in); err != nil {
		return nil, err
	}
	return f.API.UpdateItem(ctx, in, opts...)
}

func (f *fault) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if err := f.seen("Query", in); err != nil {
		return nil, err
	}
	paged := *in
	if f.page > 0 {
		paged.Limit = aws.Int32(int32(f.page))
	}
	return f.API.Query(ctx, &paged, opts...)
}

func (f *fault) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	if err := f.seen("BatchGetItem", in); err != nil {
		return nil, err
	}
	asked := in.RequestItems[table]
	if f.batch == 0 || len(asked.Keys) <= f.batch {
		return f.API.BatchGetItem(ctx, in, opts...)
	}
	part := asked
	part.Keys = asked.Keys[:f.batch]
	out, err := f.API.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: part}}, opts...)
	if err == nil {
		asked.Keys = asked.Keys[f.batch:]
		out.UnprocessedKeys = map[string]types.KeysAndAttributes{table: asked}
	}
	return out, err
}

func (f *fault) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	if err := f.seen("BatchWriteItem", in); err != nil {
		return nil, err
	}
	asked := in.RequestItems[table]
	if f.batch == 0 || len(asked) <= f.batch {
		return f.API.BatchWriteItem(ctx, in, opts...)
	}
	out, err := f.API.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{table: asked[:f.batch]},
	}, opts...)
	if err == nil {
		out.UnprocessedItems = map[string][]types.WriteRequest{table: asked[f.batch:]}
	}
	return out, err
}

func (f *fault) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	if err := f.seen("TransactWriteItems", in); err != nil {
		return nil, err
	}
	return f.API.TransactWriteItems(ctx, in, opts...)
}

// start is the instant at which tests begin.
var start = time.UnixMilli(1700000000000)

func now() time.Time { return start }

// newTable returns an engine with a table in it.
func newTable(t *testing.T) *dynamolite.DB {
	t.Helper()
	return newTableOf(t, dynamo.TableOptions{Name: table, Now: now})
}

// newTableOf returns an engine with a table of the given options.
func newTableOf(t *testing.T, o dynamo.TableOptions) *dynamolite.DB {
	t.Helper()
	db := newEngine(t)
	if err := dynamo.CreateTable(t.Context(), db, o); err != nil {
		t.Fatal(err)
	}
	return db
}

// newEngine returns an engine without a table. It closes with the test, because a table
// that expires items has a goroutine.
func newEngine(t *testing.T) *dynamolite.DB {
	t.Helper()
	db := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func openStore(t *testing.T, api dynamo.API) *dynamo.Store {
	t.Helper()
	s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: api, Table: table, Now: now}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newStore returns a store whose requests pass through a fault.
func newStore(t *testing.T) (*dynamo.Store, *fault) {
	t.Helper()
	f := &fault{API: newTable(t)}
	s := openStore(t, f)
	f.reset()
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
