package dynamo

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// takeGuards are the conditions of a take on the item as a whole.
const takeGuards = "(attribute_not_exists(#ttl) OR #ttl > :s)" +
	" AND attribute_not_exists(#dis)" +
	" AND (attribute_not_exists(#vu) OR #vu > :n)"

// Take debits a bucket that can afford it, in one conditional update:
//
//	ADD    tk −a, tc +a of every limit with an amount, wcu
//	if     tk ≥ a of each, less what it earned since the stamp, and below where it would
//	       have overflowed by now;
//	       cp, ra, rp and shard_count are those of the calculation; the limits with
//	       amount 0 exist;
//	       rf is not before Since, if given; wcu holds a token; not expired, not
//	       disabled, not lapsed
func (s *Store) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	if err := checkBucket(t.Bucket); err != nil {
		return store.Outcome{}, err
	}
	var room [128]byte
	asks := coversOf(t)
	sh, err := s.takes.get(takeKey(room[:0], t, asks), func() (*shape, error) { return takeShape(t, asks) })
	if err != nil {
		return store.Outcome{}, err
	}
	return s.update(ctx, "take", t.Bucket, sh, takeValues(t, asks))
}

func takeValues(t *store.Take, asks covers) values {
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
	stamped := asks == sinceStamp || asks == either
	if stamped {
		v.put(":seen", t.Stamp)
		v.put(":y", schema.WCUCost-t.Earned)
	}
	for i := range t.Debits {
		if d := &t.Debits[i]; d.Milli > 0 {
			v.put(alias('d', i), -d.Milli)
			v.put(alias('a', i), d.Milli)
			if asks != notAtAll {
				v.put(alias('h', i), d.AtMost)
			}
			if stamped {
				v.put(alias('l', i), d.Milli-d.Earned)
			}
			if d.Params != (store.Params{}) {
				v.params(i, &d.Params)
			}
		}
	}
	return v.done()
}

func takeShape(t *store.Take, asks covers) (*shape, error) {
	b := newShapeBuilder()
	b.debitWrite()
	b.name("#ttl", schema.TTL)
	b.name("#dis", schema.Disabled)
	b.name("#vu", schema.ValidUntil)
	b.condition.part(takeGuards)
	if t.ShardCount != 0 {
		b.shardCount(t.ShardCount)
	}
	if t.Since != 0 {
		b.condition.part(b.name("#rf", schema.RF), " >= :since")
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
		if a.Params != (store.Params{}) {
			b.pin(i, a.Limit)
		}
	}
	b.covers(t, asks)
	return b.shape()
}

// covers is how a take requires that the balances are sufficient.
type covers byte

const (
	asTheyAre    covers = iota
	sinceStamp          // with what was earned since the stamp, which the item must have
	either              // one of the two
	notAtAll            // none can be: the write only fetches the image that its refusal returns
	coversFlag   = 16   // the lowest bit of a covers value in a key
	eitherLimits = 27   // the most debits for which one expression can require either
)

// coversOf returns how a take requires that the balances are sufficient. No balance
// meets an upper bound that is smaller than the lower one.
func coversOf(t *store.Take) covers {
	isOpen := func(least func(*store.Debit) int64) bool {
		return !slices.ContainsFunc(t.Debits, func(d store.Debit) bool { return d.Milli > 0 && least(&d) > d.AtMost })
	}
	plain := isOpen(func(d *store.Debit) int64 { return d.Milli })
	stamped := t.Stamp != 0 && isOpen(func(d *store.Debit) int64 { return d.Milli - d.Earned })
	switch {
	case plain && stamped && len(t.Debits) <= eitherLimits:
		return either
	case stamped:
		return sinceStamp
	case plain:
		return asTheyAre
	}
	return notAtAll
}

// covers requires that every balance, also that of the hidden write limit, is
// sufficient and has not overflowed.
//
// With what was earned since the stamp, a lower balance of each limit is sufficient. So
// requiring either bound for each limit equals requiring one kind of bound for all
// limits, which needs half of the operators.
func (b *shapeBuilder) covers(t *store.Take, asks covers) {
	asIs := clause{sep: " AND "}
	atStamp := clause{sep: " AND "}
	asIs.part("#w >= :x")
	atStamp.part("#rf=:seen AND #w >= :y")
	for i, a := range t.Debits {
		if a.Milli == 0 {
			continue
		}
		tokens := b.field(i, a.Limit, schema.FieldTokens)
		asIs.part(tokens, " BETWEEN ", alias('a', i), " AND ", alias('h', i))
		atStamp.part(tokens, " BETWEEN ", alias('l', i), " AND ", alias('h', i))
	}
	if asks == sinceStamp || asks == either {
		b.name("#rf", schema.RF)
	}
	switch asks {
	case asTheyAre:
		b.condition.part(asIs.b.String())
	case sinceStamp:
		b.condition.part(atStamp.b.String())
	case either:
		b.condition.part("(", asIs.b.String(), " OR ", atStamp.b.String(), ")")
	case notAtAll:
		b.condition.part("attribute_exists(#w) AND attribute_not_exists(#w)")
	}
}

// takeKey distinguishes takes of different shape. Limit names hold no control
// characters.
func takeKey(key []byte, t *store.Take, asks covers) []byte {
	flags := byte(1 + min(t.ShardCount, 2))
	if t.Since != 0 {
		flags |= 4
	}
	key = append(key, flags+coversFlag*byte(asks))
	for _, a := range t.Debits {
		key = append(key, a.Limit...)
		switch {
		case a.Milli == 0:
			key = append(key, 1)
		case a.Params == store.Params{}:
			key = append(key, 2)
		default:
			key = append(key, 3)
		}
	}
	return key
}

// update sends a write to a bucket item and decodes the item that it met.
func (s *Store) update(ctx context.Context, op string, b store.Bucket, sh *shape, v values) (store.Outcome, error) {
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
	return store.Outcome{Applied: true, Image: img}, err
}

// bucketKey is the key of a bucket item, in the form that requests use.
func (s *Store) bucketKey(b store.Bucket) item {
	return item{schema.PK: schema.S(schema.BucketKey(s.ns, b).PK), schema.SK: stateSK}
}

// refused returns the outcome of a write that failed: the item whose state refused it,
// or an error.
func (s *Store) refused(op string, b store.Bucket, err error) (store.Outcome, error) {
	it, ok := conditionFailed(err)
	if !ok {
		return store.Outcome{}, s.translate(op+" "+schema.BucketKey(s.ns, b).PK, err)
	}
	if it == nil {
		return store.Outcome{}, nil
	}
	img, err := schema.DecodeBucket(it)
	return store.Outcome{Image: img}, err
}

// checkBucket validates the names in a bucket's key.
func checkBucket(b store.Bucket) error {
	if err := store.CheckEntity(b.Entity); err != nil {
		return err
	}
	return store.CheckResource(b.Resource)
}
