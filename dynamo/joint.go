package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// maxTransaction is the maximum number of items in a transaction.
const maxTransaction = 100

// Gather applies refills of several buckets, usually shards of one bucket, in one
// transaction. Each is the update that [Store.Refill] makes, under the same condition.
//
// Refusals are in the order of the refills. At least one is refused by its item; others
// may be unreported, because DynamoDB did not evaluate them. The caller gives 1 to 100
// refills, no two of the same bucket.
//
// A refusal takes precedence over failures of the other items. Without a refusal,
// throttling of any item is [store.ErrThrottled]; otherwise a conflicting transaction
// or write is [store.ErrConflict]. Gather retries neither. [store.ErrHotPartition] is
// rare: a cancelled transaction does not say which limit of the table it reached. Only
// a transaction that was rejected as a whole does.
func (s *Store) Gather(ctx context.Context, refills []*store.Refill) (store.Joint, error) {
	if n := len(refills); n == 0 || n > maxTransaction {
		return store.Joint{}, &store.ValidationError{
			Field: "refills", Value: strconv.Itoa(n), Reason: fmt.Sprintf("gather from 1 to %d shards at once", maxTransaction),
		}
	}
	writes := make([]types.TransactWriteItem, len(refills))
	named := make(map[store.Bucket]bool, len(refills))
	for i, r := range refills {
		update, err := s.refillUpdate(ctx, r)
		if err != nil {
			return store.Joint{}, err
		}
		if named[r.Bucket] {
			return store.Joint{}, &store.ValidationError{
				Field: "refills", Value: schema.BucketKey(s.ns, r.Bucket).PK, Reason: "refill a shard once in a transaction",
			}
		}
		named[r.Bucket] = true
		writes[i].Update = update
	}
	return s.together(ctx, fmt.Sprintf("gather from %d buckets of %s", len(refills), schema.BucketKey(s.ns, refills[0].Bucket).PK), writes)
}

// refillUpdate is the refill as a part of a transaction.
func (s *Store) refillUpdate(ctx context.Context, r *store.Refill) (*types.Update, error) {
	if err := checkRefill(r); err != nil {
		return nil, err
	}
	turn, err := s.prepare(ctx, r.Bucket, r.Turn)
	if err != nil {
		return nil, err
	}
	var w expression.Write
	describeRefill(&w, r)
	turn.describe(&w, r.Changes)
	return s.updateOf(&w, r.Bucket, s.refillCache(r))
}

// updateOf is a write to a bucket item as a part of a transaction.
func (s *Store) updateOf(w *expression.Write, b store.Bucket, c *expression.Cache) (*types.Update, error) {
	sh, err := w.Shape(c)
	if err != nil {
		return nil, err
	}
	return &types.Update{
		TableName:                           s.conn.Table,
		Key:                                 s.bucketKey(b),
		UpdateExpression:                    &sh.Update,
		ConditionExpression:                 &sh.Condition,
		ExpressionAttributeNames:            sh.Names,
		ExpressionAttributeValues:           w.Values(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, nil
}

// Bear makes a shard that does not exist, in one transaction:
//
//	PUT     the whole shard             if there is none
//
// With a donor, the transaction also does to the sibling what [Store.Refill] does. That
// takes from the sibling the balance with which the new shard opens:
//
//	UPDATE  the sibling                 if it is as the refill requires
//
// Without a donor, it only checks conditions:
//
//	check   the sibling                 there is none
//	check   shard 0, unless it is born  it has the shard count of the one born, and disabled if that has
//
// Refusals are in that order: the shard born, the sibling, shard 0 if it is checked.
// The first image is the shard that exists already. The second is the sibling as it is;
// without a donor, it shows that there is a sibling. The third is shard 0 with its
// count, or nil if there is no shard 0. Errors are as for [Store.Gather].
//
// Without a donor, shard 0 cannot be the sibling of another shard: both would be
// missing, and shard 0 is born first. That is a [*store.ValidationError].
func (s *Store) Bear(ctx context.Context, b *store.Birth) (store.Joint, error) {
	if err := checkBirth(b); err != nil {
		return store.Joint{}, err
	}
	const most = 3
	writes := append(make([]types.TransactWriteItem, 0, most), types.TransactWriteItem{Put: &types.Put{
		TableName:                           s.conn.Table,
		Item:                                schema.EncodeNewBucket(s.ns, s.isSpread, &b.Create),
		ConditionExpression:                 aws.String("attribute_not_exists(PK)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}})
	op := "bear " + schema.BucketKey(s.ns, b.Bucket).PK
	if b.Donor != nil {
		update, err := s.refillUpdate(ctx, b.Donor)
		if err != nil {
			return store.Joint{}, err
		}
		return s.together(ctx, op, append(writes, types.TransactWriteItem{Update: update}))
	}
	check := func(shard int, condition string, names map[string]string, values item) {
		of := b.Bucket
		of.Shard = shard
		writes = append(writes, types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: s.conn.Table, Key: s.bucketKey(of), ConditionExpression: &condition,
			ExpressionAttributeNames: names, ExpressionAttributeValues: values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	check(b.Sibling, "attribute_not_exists(PK)", nil, nil)
	if b.Shard != 0 {
		same := map[bool]string{true: "attribute_exists(#dis)", false: "attribute_not_exists(#dis)"}[b.Disabled]
		check(0, "#sc = :sc AND "+same, map[string]string{"#sc": schema.ShardCount, "#dis": schema.Disabled}, item{":sc": schema.N(int64(b.ShardCount))})
	}
	return s.together(ctx, op, writes)
}

// checkBirth validates the arguments of Bear, except the donor's own refill.
func checkBirth(b *store.Birth) error {
	if err := checkCreate(&b.Create); err != nil {
		return err
	}
	invalid := func(field string, value int, reason string) error {
		return &store.ValidationError{Field: field, Value: strconv.Itoa(value), Reason: reason}
	}
	sibling := b.Bucket
	sibling.Shard = b.Sibling
	switch {
	case b.ShardCount < 2 || b.ShardCount > schema.MaxShards:
		return invalid("shard count", b.ShardCount, fmt.Sprintf("a shard is born among 2 to %d; create the only shard of a bucket", schema.MaxShards))
	case b.Shard < 0 || b.Shard >= b.ShardCount:
		return invalid("shard", b.Shard, "give a number below the shard count")
	case b.Sibling < 0 || b.Sibling >= schema.MaxShards || b.Sibling == b.Shard:
		return invalid("sibling", b.Sibling, "give the number of another shard")
	case b.Donor == nil && b.Sibling == 0:
		return invalid("sibling", b.Sibling, "shard 0 is missing too: bear it first")
	case b.Donor != nil && b.Donor.Bucket != sibling:
		return invalid("donor", b.Donor.Shard, "the donor is the sibling, of the same entity and resource")
	}
	return nil
}

// together sends writes as one transaction and reports which items refused it. Its
// token makes repeated sending harmless: see [conn.JointRetryer].
func (s *Store) together(ctx context.Context, op string, writes []types.TransactWriteItem) (store.Joint, error) {
	var retryer conn.JointRetryer
	_, err := conn.Send(ctx, s.conn, s.conn.API.TransactWriteItems, &dynamodb.TransactWriteItemsInput{TransactItems: writes}, retryer.Option)
	if err == nil {
		return store.Joint{Applied: true}, nil
	}
	reasons := conn.Cancellation(err)
	if _, refused := conn.ConditionFailed(err); !refused {
		var joint store.Joint
		if err = s.conn.Translate(op, retryer.Verdict(err)); errors.Is(err, store.ErrThrottled) {
			joint.Refusals = throttledBy(reasons, len(writes))
		}
		return joint, err
	}
	refusals := throttledBy(reasons, len(writes))
	if refusals == nil {
		refusals = make([]store.Refusal, len(writes))
	}
	for i := range refusals {
		refusals[i].Refused = conn.FailedAt(err, i)
		if !refusals[i].Refused || reasons[i].Item == nil {
			continue
		}
		img, err := schema.DecodeBucket(reasons[i].Item)
		if err != nil {
			return store.Joint{}, err
		}
		refusals[i].Image = img
	}
	return store.Joint{Refusals: refusals}, nil
}

// throttledBy reports which of n writes of a cancelled transaction were throttled. It
// returns nil if none was.
func throttledBy(reasons []types.CancellationReason, n int) (refusals []store.Refusal) {
	for i, r := range reasons {
		if !conn.Throttled(r) {
			continue
		}
		if refusals == nil {
			refusals = make([]store.Refusal, n)
		}
		refusals[i].Throttled = true
	}
	return refusals
}
