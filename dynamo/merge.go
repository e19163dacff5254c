package dynamo

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Merge makes one shard of two, for each pair, in one transaction:
//
//	UPDATE  the survivor       what [Store.Refill] does, under the same condition
//	DELETE  the retired shard  if rf, shard_count and cp, ra, rp of every limit are as seen, tk of
//	                           each lies between its AtLeast and the balance seen, wr of those
//	                           in shadow is as seen, and it has the vu seen and no disabled
//
// Refusals are in that order, pair by pair. Errors are as for [Store.Gather].
func (s *Store) Merge(ctx context.Context, pairs []*store.Pair) (store.Joint, error) {
	const each = 2
	if n := len(pairs); n == 0 || each*n > maxTransaction {
		return store.Joint{}, &store.ValidationError{
			Field: "pairs", Value: strconv.Itoa(n), Reason: fmt.Sprintf("merge 1 to %d pairs of shards at once", maxTransaction/each),
		}
	}
	writes := make([]types.TransactWriteItem, 0, each*len(pairs))
	named := make(map[store.Bucket]bool, each*len(pairs))
	for _, p := range pairs {
		if err := checkPair(p, named); err != nil {
			return store.Joint{}, err
		}
		survives, err := s.refillUpdate(ctx, p.Survivor)
		if err != nil {
			return store.Joint{}, err
		}
		retires, err := s.retirement(p)
		if err != nil {
			return store.Joint{}, err
		}
		writes = append(writes, types.TransactWriteItem{Update: survives}, types.TransactWriteItem{Delete: retires})
	}
	return s.together(ctx, fmt.Sprintf("merge %d pairs of shards of %s", len(pairs), schema.BucketKey(s.ns, pairs[0].Survivor.Bucket).PK), writes)
}

// checkPair validates a pair, except the survivor's own refill. It rejects a shard that
// another pair names.
func checkPair(p *store.Pair, named map[store.Bucket]bool) error {
	survivor, retired := p.Survivor, p.Retired
	invalid := func(field string, value int, reason string) error {
		return &store.ValidationError{Field: field, Value: strconv.Itoa(value), Reason: reason}
	}
	sibling := survivor.Bucket
	sibling.Shard += survivor.ShardCount
	switch {
	case survivor.ShardCount < 1 || survivor.ShardCount > schema.MaxShards/2:
		return invalid("shard count", survivor.ShardCount, fmt.Sprintf("give the survivor 1 to %d", schema.MaxShards/2))
	case survivor.Shard < 0 || survivor.Shard >= survivor.ShardCount:
		return invalid("shard", survivor.Shard, "give a number below the shard count")
	case survivor.Seen.ShardCount != 2*survivor.ShardCount || retired.ShardCount != 2*survivor.ShardCount:
		return invalid("shard count", survivor.ShardCount, "give half of what both shards have")
	case retired.Bucket != sibling:
		return invalid("retired shard", retired.Shard, "retire the sibling, of the same entity and resource")
	case len(p.AtLeast) != len(retired.Limits):
		return invalid("at least", len(p.AtLeast), "give a balance for each limit of the retired shard")
	case named[survivor.Bucket]:
		return invalid("shard", survivor.Shard, "merge a shard once in a transaction")
	}
	named[survivor.Bucket] = true
	return nil
}

// retirement returns the deletion of a pair's retired shard.
func (s *Store) retirement(p *store.Pair) (*types.Delete, error) {
	var w expression.Write
	describeRetirement(&w, p)
	sh, err := w.Shape(nil)
	if err != nil {
		return nil, err
	}
	return &types.Delete{
		TableName:                           s.conn.Table,
		Key:                                 s.bucketKey(p.Retired.Bucket),
		ConditionExpression:                 &sh.Condition,
		ExpressionAttributeNames:            sh.Names,
		ExpressionAttributeValues:           w.Values(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, nil
}

// describeRetirement states the conditions under which a pair's retired shard is deleted.
func describeRetirement(w *expression.Write, p *store.Pair) {
	img := p.Retired
	w.Require(expression.RF.Equals(w.Number(":seen", img.RefilledAt)))
	w.Require(expression.ShardCount.Equals(w.Number(":sc", int64(img.ShardCount))))
	w.Require(expression.Disabled.Absent())
	requireValidity(w, img)
	for i := range img.Limits {
		seen := &img.Limits[i]
		l := w.Limit(i, seen.Name)
		params := newParameters(l, seen.Params)
		params.require(w, l)
		w.Require(l.Tokens().Between(l.Number('l', p.AtLeast[i]), l.Number('h', seen.Tokens)))
		switch noted := seen.Observed().Shadowed; {
		case seen.Mode() != store.Shadow:
		case noted == 0:
			w.Require(l.Shadowed().Absent())
		default: // a note moves no balance, so the balance does not tell of one that came meanwhile
			w.Require(l.Shadowed().Equals(l.Number('w', noted)))
		}
	}
}
