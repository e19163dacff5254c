package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// takeGuards are the conditions of a take that hold for the item as a whole.
const takeGuards = "(attribute_not_exists(#ttl) OR #ttl > :s)" +
	" AND attribute_not_exists(#dis)" +
	" AND (attribute_not_exists(#vu) OR #vu > :n)"

// Take debits a bucket that can afford it, in one conditional update:
//
//	ADD    tk −a, tc +a of every limit with an amount, wcu
//	if     tk ≥ a of each, less what was earned since the stamp, and below where it would have overflowed by now;
//	       cp, ra, rp and shard_count as that was worked out from; the limits with
//	       amount 0 exist;
//	       if it was refilled since when it had to be; wcu holds a token; not expired, not disabled, not lapsed
func (s *Store) Take(ctx context.Context, t *limiter.Take) (limiter.Outcome, error) {
	if err := checkBucket(t.Bucket); err != nil {
		return limiter.Outcome{}, err
	}
	var room [128]byte
	sh, err := s.takes.get(takeKey(room[:0], t), func() (*shape, error) { return takeShape(t) })
	if err != nil {
		return limiter.Outcome{}, err
	}

	var v numbers
	v.start(7 + 7*len(t.Debits))
	v.values[":w"], v.values[":x"] = writeDebit, writeCost
	v.put(":n", t.Now)
	v.put(":s", t.Now/1000)
	if t.ShardCount != 0 {
		v.put(":sc", int64(t.ShardCount))
	}
	if t.Since != 0 {
		v.put(":since", t.Since)
	}
	if t.Stamp != 0 {
		v.put(":seen", t.Stamp)
		v.put(":y", schema.WCUCost-t.Earned)
	}
	for i := range t.Debits {
		if d := &t.Debits[i]; d.Milli > 0 {
			v.put(alias('d', i), -d.Milli)
			v.put(alias('a', i), d.Milli)
			v.put(alias('h', i), d.AtMost)
			if t.Stamp != 0 {
				v.put(alias('l', i), d.Milli-d.Earned)
			}
			if d.Params != (limiter.Params{}) {
				v.params(i, &d.Params)
			}
		}
	}
	return s.update(ctx, "take", t.Bucket, sh, v.done())
}

func takeShape(t *limiter.Take) (*shape, error) {
	b := newShapeBuilder()
	b.debitWrite()
	b.name("#ttl", schema.TTL)
	b.name("#dis", schema.Disabled)
	b.name("#vu", schema.ValidUntil)
	b.condition.part(takeGuards)
	covers := func(balance, least, leastAtStamp string) {
		if t.Stamp == 0 {
			b.condition.part(balance, " >= ", least)
		} else {
			b.condition.part("(", balance, " >= ", least, " OR #rf = :seen AND ", balance, " >= ", leastAtStamp, ")")
		}
	}
	covers("#w", ":x", ":y")
	if t.ShardCount != 0 {
		b.shardCount(t.ShardCount)
	}
	if t.Since != 0 {
		b.condition.part(b.name("#rf", schema.RF), " >= :since")
	}
	if t.Stamp != 0 {
		b.name("#rf", schema.RF)
	}
	for i, a := range t.Debits {
		b.check(a.Limit)
		tokens := b.field(i, a.Limit, schema.FieldTokens)
		if a.Milli == 0 {
			b.condition.part("attribute_exists(", tokens, ")")
			b.condition.part("attribute_exists(", b.field(i, a.Limit, schema.FieldCapacity), ")")
			continue
		}
		b.add.part(tokens, " ", alias('d', i))
		b.add.part(b.field(i, a.Limit, schema.FieldConsumed), " ", alias('a', i))
		covers(tokens, alias('a', i), alias('l', i))
		b.condition.part(tokens, " <= ", alias('h', i))
		if a.Params != (limiter.Params{}) {
			b.pin(i, a.Limit)
		}
	}
	return b.shape()
}

// takeKey tells two takes of different shape apart. Limit names hold no control
// characters.
func takeKey(key []byte, t *limiter.Take) []byte {
	flags := byte(1 + min(t.ShardCount, 2))
	if t.Since != 0 {
		flags |= 4
	}
	if t.Stamp != 0 {
		flags |= 8
	}
	key = append(key, flags)
	for _, a := range t.Debits {
		key = append(key, a.Limit...)
		switch {
		case a.Milli == 0:
			key = append(key, 1)
		case a.Params == limiter.Params{}:
			key = append(key, 2)
		default:
			key = append(key, 3)
		}
	}
	return key
}

// update sends a write to a bucket item and reads the item it met.
func (s *Store) update(ctx context.Context, op string, b limiter.Bucket, sh *shape, v values) (limiter.Outcome, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	sent := s.clock.sending()
	out, err := s.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           s.table,
		Key:                                 s.bucketKey(b),
		UpdateExpression:                    &sh.update,
		ConditionExpression:                 &sh.condition,
		ExpressionAttributeNames:            sh.names,
		ExpressionAttributeValues:           v,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, bucketWrite)
	if err != nil {
		s.clock.failed(err, sent)
		return s.refused(op, b, err)
	}
	s.clock.answered(out.ResultMetadata, sent)
	img, err := schema.DecodeBucket(out.Attributes)
	return limiter.Outcome{Applied: true, Image: img}, err
}

// bucketKey is the key of a bucket item, as requests name it.
func (s *Store) bucketKey(b limiter.Bucket) item {
	return item{schema.PK: schema.S(schema.BucketKey(s.ns, b).PK), schema.SK: stateSK}
}

// refused is the outcome of a write that failed: the item whose state refused
// it, or an error.
func (s *Store) refused(op string, b limiter.Bucket, err error) (limiter.Outcome, error) {
	it, ok := conditionFailed(err)
	if !ok {
		return limiter.Outcome{}, s.translate(op+" "+schema.BucketKey(s.ns, b).PK, err)
	}
	if it == nil {
		return limiter.Outcome{}, nil
	}
	img, err := schema.DecodeBucket(it)
	return limiter.Outcome{Image: img}, err
}

// checkBucket checks the names that a bucket's key is made of.
func checkBucket(b limiter.Bucket) error {
	if err := limiter.CheckEntity(b.Entity); err != nil {
		return err
	}
	return limiter.CheckResource(b.Resource)
}
