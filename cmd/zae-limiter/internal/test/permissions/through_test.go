package permissions_test

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// calls is a store that names its calls in the contexts of their requests. Thereby the
// calls of a limiter are recorded as calls of the store, too.
type calls struct{ *dynamo.Store }

// callKey is the key of a context's call.
type callKey struct{}

func named(ctx context.Context, method string) context.Context {
	return context.WithValue(ctx, callKey{}, "dynamo.Store."+method)
}

func (s calls) SettleOnce(ctx context.Context, t *store.Settlement) (store.SettledOnce, error) {
	return s.Store.SettleOnce(named(ctx, "SettleOnce"), t)
}

func (s calls) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	return s.Store.Take(named(ctx, "Take"), t)
}

func (s calls) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	return s.Store.Refill(named(ctx, "Refill"), r)
}

func (s calls) Create(ctx context.Context, c *store.Create) (store.Outcome, error) {
	return s.Store.Create(named(ctx, "Create"), c)
}

func (s calls) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	return s.Store.Adjust(named(ctx, "Adjust"), a)
}

func (s calls) Bear(ctx context.Context, b *store.Birth) (store.Joint, error) {
	return s.Store.Bear(named(ctx, "Bear"), b)
}

func (s calls) Gather(ctx context.Context, rs []*store.Refill) (store.Joint, error) {
	return s.Store.Gather(named(ctx, "Gather"), rs)
}

func (s calls) Merge(ctx context.Context, pairs []*store.Pair) (store.Joint, error) {
	return s.Store.Merge(named(ctx, "Merge"), pairs)
}

func (s calls) Buckets(ctx context.Context, entity, resource string, shards int) ([]*store.Image, error) {
	return s.Store.Buckets(named(ctx, "Buckets"), entity, resource, shards)
}

func (s calls) Load(ctx context.Context, l *store.Load) (*store.Loaded, error) {
	return s.Store.Load(named(ctx, "Load"), l)
}

// removeItem deletes a bucket item.
func removeItem(ctx context.Context, api dynamo.API, ns string, b store.Bucket) error {
	_, err := api.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
		testbed.Table: {{DeleteRequest: &types.DeleteRequest{Key: schema.BucketKey(ns, b).Item()}}},
	}})
	return err
}

// switchOff disables a bucket item as an operator of the peer does.
func switchOff(ctx context.Context, api dynamo.API, ns string, b store.Bucket) error {
	_, err := api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(testbed.Table), Key: schema.BucketKey(ns, b).Item(),
		UpdateExpression: aws.String("SET disabled = :d"), ExpressionAttributeValues: schema.Item{":d": schema.Bool(true)},
	})
	return err
}

// spendWrites leaves a bucket item without writes, as a second of many writes does.
func spendWrites(ctx context.Context, api dynamo.API, ns string, img *store.Image) error {
	_, err := api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(testbed.Table), Key: schema.BucketKey(ns, img.Bucket).Item(),
		UpdateExpression: aws.String("SET b_wcu_tk = :n, rf = :now"), ExpressionAttributeValues: schema.Item{":n": schema.N(-100_000), ":now": schema.N(time.Now().UnixMilli())},
	})
	return err
}
