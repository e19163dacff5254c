package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// bare is an actor without a limiter. It has one item for each entity and resource, in the
// form of a bucket, and sends one conditional write for each operation. It never refills an
// item. So items hold more than all requests together, except exhausted ones, which hold
// nothing.
type bare struct {
	api   dynamo.API
	table string
	ns    string // the namespace's id
	w     *workload
	now   func() int64

	update, condition string
	names             map[string]string
}

// writeBare makes the side use bare writes.
func (s *side) writeBare() {
	_, ns := s.store.Namespace()
	b := &bare{
		api: s.watch, table: s.table, ns: ns, w: s.w, now: func() int64 { return s.o.Now().UnixMilli() },
		update: "ADD", condition: "attribute_exists(PK)", names: map[string]string{},
	}
	for i, l := range s.w.limits {
		n := strconv.Itoa(i)
		b.names["#t"+n] = schema.LimitAttr(l.Name, schema.FieldTokens)
		b.names["#c"+n] = schema.LimitAttr(l.Name, schema.FieldConsumed)
		if i > 0 {
			b.update += ","
		}
		b.update += " #t" + n + " :d" + n + ", #c" + n + " :a" + n
		b.condition += " AND #t" + n + " >= :a" + n
	}
	s.actor = b
}

// milli is the number of millitokens in a token.
const milli = 1000

func (b *bare) bucket(entity, resource int) limiter.Bucket {
	return limiter.Bucket{Entity: b.w.entities[entity], Resource: b.w.resources[resource]}
}

// prime writes the items.
func (b *bare) prime(ctx context.Context, _ func(context.Context, int, draw) error) error {
	n := len(b.w.resources)
	return each(ctx, n*len(b.w.entities), func(ctx context.Context, i int) error {
		bucket := b.bucket(i/n, i%n)
		err := patiently(ctx, func() error {
			_, err := b.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: &b.table, Item: schema.EncodeNewBucket(b.ns, b.item(bucket))}, onlyOnce)
			return err
		})
		if err != nil {
			return fmt.Errorf("write the item of %s for %s: %w", bucket.Entity, bucket.Resource, err)
		}
		return nil
	})
}

// item is an item in the form that the limiter creates.
func (b *bare) item(bucket limiter.Bucket) *store.Create {
	c := &store.Create{Bucket: bucket, Now: b.now(), ShardCount: 1, Writes: store.NewLimit{
		NamedParams: store.NamedParams{Limit: schema.WCU, Params: store.Params{
			Capacity: schema.WCUCapacity, Amount: schema.WCUAmount, Period: schema.WCUPeriod,
		}},
		Tokens: schema.WCUCapacity,
	}}
	for _, l := range b.w.limits {
		tokens := int64(limiter.MaxTokens * milli)
		if b.w.exhausted {
			tokens = 0
		}
		c.Limits = append(c.Limits, store.NewLimit{Tokens: tokens, NamedParams: store.NamedParams{
			Limit: l.Name, Params: store.Params{Capacity: l.Capacity * milli, Amount: l.Amount * milli, Period: l.Period.Milliseconds()},
		}})
	}
	return c
}

func (b *bare) act(ctx context.Context, _ int, d draw) (taken, error) {
	const perLimit = 2
	values := make(map[string]types.AttributeValue, perLimit*len(b.w.limits))
	for i := range b.w.limits {
		n, amount := strconv.Itoa(i), b.w.asked(d, i)*milli
		values[":d"+n], values[":a"+n] = schema.N(-amount), schema.N(amount)
	}
	_, err := b.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &b.table, Key: schema.BucketKey(b.ns, b.bucket(d.entity, d.resource)).Item(),
		UpdateExpression: &b.update, ConditionExpression: &b.condition,
		ExpressionAttributeNames: b.names, ExpressionAttributeValues: values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, onlyOnce)
	if _, failed := errors.AsType[*types.ConditionalCheckFailedException](err); failed {
		return tookNothing, limiter.ErrExceeded
	}
	if err != nil {
		return tookNothing, err
	}
	return tookAll, nil
}

// onlyOnce prevents the SDK from repeating throttled requests.
func onlyOnce(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

func (*bare) close() error { return nil }
