package faults_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

const table = testbed.Table

var errTest = errors.New("the test's error")

// inBubble runs f in a bubble, with a table on an engine.
func inBubble(t *testing.T, f func(*testbed.World)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(testbed.New(t, testbed.Options{})) })
}

func keyOf(shard int) schema.Item {
	return schema.BucketKey("ns", store.Bucket{Entity: "user", Resource: "gpt-4", Shard: shard}).Item()
}

// update is a write to a shard that counts itself.
func update(shard int) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: keyOf(shard), UpdateExpression: aws.String("ADD n :one"),
		ExpressionAttributeValues: schema.Item{":one": schema.N(1)}, ReturnValues: types.ReturnValueAllNew,
	}
}

// count returns how many updates of a shard took effect.
func count(w *testbed.World, shard int) string {
	w.Helper()
	out, err := w.Engine.GetItem(w.Context(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: keyOf(shard)})
	w.Must(err)
	if n, ok := out.Item["n"].(*types.AttributeValueMemberN); ok {
		return n.Value
	}
	return "0"
}

func transaction(shards ...int) *dynamodb.TransactWriteItemsInput {
	in := &dynamodb.TransactWriteItemsInput{}
	for _, shard := range shards {
		u := update(shard)
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Update: &types.Update{
			TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression, ExpressionAttributeValues: u.ExpressionAttributeValues,
		}})
	}
	return in
}

// calls sends each operation once, with inputs that the engine accepts.
func calls(ctx context.Context, api dynamo.API) map[string]func() (any, error) {
	name := aws.String(table)
	key := keyOf(0)
	return map[string]func() (any, error){
		faults.GetItem: func() (any, error) {
			return api.GetItem(ctx, &dynamodb.GetItemInput{TableName: name, Key: key, ConsistentRead: aws.Bool(true)})
		},
		faults.PutItem: func() (any, error) {
			return api.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: key})
		},
		faults.UpdateItem: func() (any, error) { return api.UpdateItem(ctx, update(0)) },
		faults.Query: func() (any, error) {
			return api.Query(ctx, &dynamodb.QueryInput{
				TableName: name, KeyConditionExpression: aws.String("PK = :pk"), ExpressionAttributeValues: schema.Item{":pk": key["PK"]},
			})
		},
		faults.Scan: func() (any, error) {
			return api.Scan(ctx, &dynamodb.ScanInput{TableName: name, ConsistentRead: aws.Bool(true)})
		},
		faults.BatchGetItem: func() (any, error) {
			return api.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
				table: {Keys: []schema.Item{keyOf(0), keyOf(1)}},
			}})
		},
		faults.BatchWriteItem: func() (any, error) {
			return api.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: {
				{PutRequest: &types.PutRequest{Item: keyOf(0)}}, {DeleteRequest: &types.DeleteRequest{Key: keyOf(1)}},
			}}})
		},
		faults.TransactWriteItems: func() (any, error) {
			in := transaction(0)
			exists := aws.String("attribute_not_exists(absent)")
			in.TransactItems = append(
				in.TransactItems,
				types.TransactWriteItem{Put: &types.Put{TableName: name, Item: keyOf(1)}},
				types.TransactWriteItem{Delete: &types.Delete{TableName: name, Key: keyOf(2)}},
				types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: name, Key: keyOf(3), ConditionExpression: exists}},
			)
			return api.TransactWriteItems(ctx, in)
		},
		faults.CreateTable: func() (any, error) {
			return api.CreateTable(ctx, &dynamodb.CreateTableInput{
				TableName: aws.String("another"), BillingMode: types.BillingModePayPerRequest,
				KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("PK"), KeyType: types.KeyTypeHash}},
				AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("PK"), AttributeType: types.ScalarAttributeTypeS}},
			})
		},
		faults.DescribeTable: func() (any, error) {
			return api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: name})
		},
		faults.UpdateTimeToLive: func() (any, error) {
			return api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
				TableName: name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(false)},
			})
		},
		faults.DescribeTimeToLive: func() (any, error) {
			return api.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: name})
		},
	}
}

// Every operation passes the hooks under its name, and its input and output pass them.
func TestEveryOperationPassesTheHooks(t *testing.T) {
	for op := range calls(t.Context(), nil) {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(w *testbed.World) {
				var seen []faults.Call
				spy := func(ctx context.Context, c *faults.Call, next faults.Next) error {
					err := next(ctx)
					seen = append(seen, *c)
					return err
				}
				out, err := calls(w.Context(), faults.Wrap(w.Engine, spy))[op]()
				if err != nil {
					w.Fatal(err)
				}
				if len(seen) != 1 || seen[0].Op != op || seen[0].Output != out || seen[0].Input == nil {
					w.Errorf("the hook saw %+v; the sender got %v", seen, out)
				}
				if _, err = calls(w.Context(), faults.Wrap(w.Engine, faults.Fail(errTest)))[op](); !errors.Is(err, errTest) {
					w.Errorf("got error %v", err)
				}
			})
		})
	}
}

func TestACallSaysWhatItNames(t *testing.T) {
	t.Parallel()
	type named struct {
		shards             []int
		writes, consistent bool
	}
	want := map[string]named{
		faults.GetItem:            {[]int{0}, false, true},
		faults.PutItem:            {[]int{0}, true, false},
		faults.UpdateItem:         {[]int{0}, true, false},
		faults.Query:              {},
		faults.Scan:               {consistent: true},
		faults.BatchGetItem:       {[]int{0, 1}, false, false},
		faults.BatchWriteItem:     {[]int{0, 1}, true, false},
		faults.TransactWriteItems: {[]int{0, 1, 2, 3}, true, false},
		faults.CreateTable:        {},
		faults.DescribeTable:      {},
		faults.UpdateTimeToLive:   {},
		faults.DescribeTimeToLive: {},
	}
	api := faults.Wrap(testbed.NewEngine(t, dynamolite.Options{}), func(_ context.Context, c *faults.Call, _ faults.Next) error {
		got := named{c.Shards(), c.Writes(), c.Consistent()}
		if w := want[c.Op]; !slices.Equal(got.shards, w.shards) || got.writes != w.writes || got.consistent != w.consistent {
			t.Errorf("%s: got %+v, want %+v", c.Op, got, w)
		}
		if len(c.Keys()) != len(got.shards) || c.NamesBuckets() != (len(got.shards) > 0) {
			t.Errorf("%s: keys %v", c.Op, c.Keys())
		}
		return errTest
	})
	for op, send := range calls(t.Context(), api) {
		if _, err := send(); !errors.Is(err, errTest) {
			t.Errorf("%s: %v", op, err)
		}
	}
	other := faults.Call{Op: faults.GetItem, Input: &dynamodb.GetItemInput{Key: schema.MetaKey("ns", "user").Item()}}
	if other.NamesBuckets() || len(other.Keys()) != 1 {
		t.Errorf("an entity's record names %v of %v", other.Buckets(), other.Keys())
	}
}

// The first hook is the outermost, also if a wrapped API is wrapped again.
func TestHooksNest(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		var order []string
		named := func(name string) faults.Hook {
			return func(ctx context.Context, _ *faults.Call, next faults.Next) error {
				order = append(order, name)
				err := next(ctx)
				order = append(order, "-"+name)
				return err
			}
		}
		api := faults.Wrap(faults.Wrap(w.Engine, named("c")), named("a"), named("b"))
		if _, err := api.UpdateItem(w.Context(), update(0)); err != nil {
			w.Fatal(err)
		}
		if !slices.Equal(order, []string{"a", "b", "c", "-c", "-b", "-a"}) {
			w.Error(order)
		}
	})
}

// A hook may change the input and the output, send a call twice, or answer it itself.
func TestAHookChangesACall(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		mine := &dynamodb.UpdateItemOutput{}
		api := faults.Wrap(w.Engine, func(ctx context.Context, c *faults.Call, next faults.Next) error {
			for shard := range 2 {
				c.Input = update(shard)
				if err := next(ctx); err != nil {
					return err
				}
			}
			c.Output = mine
			return nil
		})
		if out, err := api.UpdateItem(w.Context(), update(7)); err != nil || out != mine {
			w.Errorf("got %v, %v", out, err)
		}
		if got := count(w, 0) + count(w, 1) + count(w, 7); got != "110" {
			w.Error("the counts are", got)
		}
		swallow := faults.Wrap(w.Engine, func(context.Context, *faults.Call, faults.Next) error { return nil })
		if out, err := swallow.UpdateItem(w.Context(), update(0)); err != nil || out == nil || count(w, 0) != "1" {
			w.Errorf("got %v, %v", out, err)
		}
	})
}

// An API behind the hooks that answers at once is remote for a store.
func TestAWrappedAPIIsNotImmediate(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		for api, want := range map[dynamo.API]bool{w.Engine: true, faults.Wrap(w.Engine): false} {
			s, err := dynamo.Open(w.Context(), dynamo.Options{API: api, Table: table})
			if err != nil {
				w.Fatal(err)
			}
			if s.Immediate() != want {
				w.Errorf("immediate: %t", !want)
			}
		}
	})
}

func TestAClockIsWrong(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		c := faults.Skewed(-time.Hour)
		if got := time.Until(c.Now()); got != -time.Hour {
			w.Error(got)
		}
		c.Set(time.Minute)
		time.Sleep(time.Second)
		if got := time.Until(c.Now()); got != time.Minute {
			w.Error(got)
		}
	})
}

// An observed API is as immediate as the API behind it, and its hooks see every call.
func TestObserve(t *testing.T) {
	inBubble(t, func(w *testbed.World) {
		var calls int
		count := func(ctx context.Context, _ *faults.Call, next faults.Next) error {
			calls++
			return next(ctx)
		}
		if !w.OpenOn(faults.Observe(w.Engine, count)).Immediate() || w.OpenOn(faults.Observe(faults.Wrap(w.Engine), count)).Immediate() {
			t.Error("an observed API answers otherwise than the API behind it")
		}
		if calls != 2 {
			t.Errorf("%d calls were seen, want 2", calls)
		}
	})
}
