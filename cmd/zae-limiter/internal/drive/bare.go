package drive

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive/setup"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bare is an [Actor] without a limiter. It has one item for each entity and resource, in the
// form of a bucket, and sends one conditional write for each operation, and another for a
// settlement. It never refills an item. So items hold more than all requests together,
// except exhausted ones, which hold nothing.
type Bare struct {
	site *Site
	ns   string // the namespace's id
	// shapes are the expressions, by resource.
	shapes []shape
}

type shape struct {
	update, condition string
	names             map[string]string
}

// newBare makes the actor of a namespace, by its id.
func newBare(s *Site, ns string) *Bare {
	b := &Bare{site: s, ns: ns}
	for _, r := range s.Plan.Resources {
		sh := shape{update: "ADD", condition: "attribute_exists(PK)", names: map[string]string{}}
		for i, l := range r.Limits {
			n := strconv.Itoa(i)
			sh.names["#t"+n] = schema.LimitAttr(l.Name, schema.FieldTokens)
			sh.names["#c"+n] = schema.LimitAttr(l.Name, schema.FieldConsumed)
			if i > 0 {
				sh.update += ","
			}
			sh.update += " #t" + n + " :d" + n + ", #c" + n + " :a" + n
			sh.condition += " AND #t" + n + " >= :a" + n
		}
		b.shapes = append(b.shapes, sh)
	}
	return b
}

// milli is the number of millitokens in a token.
const milli = 1000

func (b *Bare) bucket(entity, resource int) store.Bucket {
	return store.Bucket{Entity: b.site.Plan.Entities[entity].ID, Resource: b.site.Plan.Resources[resource].Name}
}

// Prime writes the items.
func (b *Bare) Prime(ctx context.Context) error {
	var all [][2]int
	seen := map[[2]int]bool{}
	for c := range b.site.Plan.Classes {
		for _, at := range BucketsOf(b.site.Plan, c) {
			if !seen[at] {
				seen[at] = true
				all = append(all, at)
			}
		}
	}
	return setup.Each(ctx, len(all), func(ctx context.Context, i int) error {
		bucket := b.bucket(all[i][0], all[i][1])
		item := schema.EncodeNewBucket(b.ns, false, b.item(bucket, all[i][0], all[i][1]))
		err := setup.Patiently(ctx, b.site.Again, func() error {
			_, err := b.site.API.PutItem(ctx, &dynamodb.PutItemInput{TableName: &b.site.Table, Item: item}, onlyOnce)
			return err
		})
		if err != nil {
			return fmt.Errorf("write the item of %s for %s: %w", bucket.Entity, bucket.Resource, err)
		}
		return nil
	})
}

// item is an item in the form that the limiter creates.
func (b *Bare) item(bucket store.Bucket, entity, resource int) *store.Create {
	c := &store.Create{Bucket: bucket, Now: b.site.Now().UnixMilli(), ShardCount: 1, Writes: store.NewLimit{
		NamedParams: store.NamedParams{Limit: schema.WCU, Params: store.Params{
			Capacity: schema.WCUCapacity, Amount: schema.WCUAmount, Period: schema.WCUPeriod,
		}},
		Tokens: schema.WCUCapacity,
	}}
	tokens := int64(limiter.MaxTokens * milli)
	if b.site.Plan.Populations[b.site.Plan.Entities[entity].Population].Exhausted {
		tokens = 0
	}
	for _, l := range b.site.Plan.Resources[resource].Limits {
		c.Limits = append(c.Limits, store.NewLimit{Tokens: tokens, Opened: c.Now, NamedParams: store.NamedParams{Limit: l.Name, Params: l.Params()}})
	}
	c.ValidUntil = store.ValidUntil(c.Now, c.Limits, func(l *store.NewLimit) (store.Params, int64) { return l.Params, l.Opened })
	return c
}

// Act sends the writes of an operation.
func (b *Bare) Act(ctx context.Context, _, _ int, op *scenario.Op) Answer {
	if err := b.write(ctx, op, op.Consume, true); err != nil {
		took := TookMaybe
		if errors.Is(err, limiter.ErrExceeded) {
			took = TookNothing
		}
		return Answer{Took: took, Err: err}
	}
	if op.Hold > 0 {
		if err := calls.Sleep(ctx, nil, op.Hold); err != nil {
			return Answer{Took: TookAll, Err: err}
		}
	}
	if !op.Adjusts() {
		return Answer{Took: TookAll, Held: op.Hold}
	}
	rest := make([]int64, len(op.Consume))
	for i := range rest {
		rest[i] = op.Settle[i] - op.Consume[i]
	}
	if err := b.write(ctx, op, rest, false); err != nil {
		return Answer{Took: TookEither, Held: op.Hold, Err: err}
	}
	return Answer{Took: TookUsed, Held: op.Hold}
}

// write takes tokens, if the item has them or need not.
func (b *Bare) write(ctx context.Context, op *scenario.Op, amounts []int64, must bool) error {
	const perLimit = 2
	sh := &b.shapes[op.Resource]
	values := make(map[string]types.AttributeValue, perLimit*len(amounts))
	for i, amount := range amounts {
		n := strconv.Itoa(i)
		values[":d"+n], values[":a"+n] = schema.N(-amount*milli), schema.N(amount*milli)
	}
	in := &dynamodb.UpdateItemInput{
		TableName: &b.site.Table, Key: schema.BucketKey(b.ns, b.bucket(op.Entity, op.Resource)).Item(),
		UpdateExpression: &sh.update, ExpressionAttributeNames: sh.names, ExpressionAttributeValues: values,
		ReturnValues: types.ReturnValueAllNew,
	}
	if must {
		in.ConditionExpression = &sh.condition
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	_, err := b.site.API.UpdateItem(ctx, in, onlyOnce)
	if _, failed := errors.AsType[*types.ConditionalCheckFailedException](err); failed {
		return limiter.ErrExceeded
	}
	return err
}

// onlyOnce prevents the SDK from repeating throttled requests.
func onlyOnce(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// Close does nothing.
func (*Bare) Close() error { return nil }
