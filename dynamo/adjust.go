package dynamo

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Adjust moves balances of an existing bucket, in one update:
//
//	ADD    tk, tc of every delta, wcu
//	if     of a debited limit, tk is below where it would have overflowed by now, and
//	       sufficient if Covered, and cp, ra, rp are as seen; of a credited one, cp is
//	       as seen, and tk leaves room for the credit below it; shard_count as seen;
//	       vu as seen, where a peer may change parameters
//
// The write debits the hidden write limit even if its balance is too low: a short write
// limit never refuses an adjustment.
func (s *Store) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	if err := checkBucket(a.Bucket); err != nil {
		return store.Outcome{}, err
	}
	var v numbers
	v.start(4 + 6*len(a.Deltas))
	v.values[":w"], v.values[":x"] = writeDebit, writeCost
	credits := false
	for i := range a.Deltas {
		d := &a.Deltas[i]
		v.put(alias('d', i), d.Tokens)
		v.put(alias('a', i), d.Consumed)
		v.put(alias('h', i), d.AtMost)
		seen, _ := a.Seen.Limit(d.Limit)
		switch {
		case isCredit(d):
			v.put(alias('p', i), seen.Capacity)
			credits = true
		case a.Seen.Foreign == "":
			v.params(i, &seen.Params)
		}
	}
	if credits || a.Seen.Foreign == "" {
		v.put(":sc", int64(a.Seen.ShardCount))
	}
	if credits && pinsValidity(a) {
		v.put(":vu", a.Seen.ValidUntil)
	}
	var room [128]byte
	sh, err := s.adjusts.get(adjustKey(room[:0], a), func() (*shape, error) { return adjustShape(a) })
	if err != nil {
		return store.Outcome{}, err
	}
	return s.update(ctx, "adjust", a.Bucket, sh, v.done())
}

// isCredit reports whether a delta returns tokens, even if there is no room for them.
func isCredit(d *store.Delta) bool { return d.Consumed < 0 }

// isBetween reports whether the balance must lie between two bounds in ascending order.
// The server accepts no others.
func isBetween(d *store.Delta) bool { return d.Covered && !d.Pinned && d.Consumed <= d.AtMost }

func pinsValidity(a *store.Adjust) bool { return a.Seen.Foreign != "" && a.Seen.HasValidUntil }

func adjustKey(key []byte, a *store.Adjust) []byte {
	flags := byte(1)
	if a.Seen.ShardCount == 1 {
		flags |= 2
	}
	if pinsValidity(a) {
		flags |= 4
	}
	if a.Seen.Foreign != "" {
		flags |= 8
	}
	key = append(key, flags)
	for i := range a.Deltas {
		key = append(key, a.Deltas[i].Limit...)
		how := byte(8)
		if isCredit(&a.Deltas[i]) {
			how |= 1
		}
		if a.Deltas[i].Pinned {
			how |= 2
		}
		if a.Deltas[i].Covered {
			how |= 4
		}
		if isBetween(&a.Deltas[i]) {
			how |= 16
		}
		key = append(key, how)
	}
	return key
}

func adjustShape(a *store.Adjust) (*shape, error) {
	b := newShapeBuilder()
	b.debitWrite()
	credits := false
	for i := range a.Deltas {
		d := &a.Deltas[i]
		b.check(d.Limit)
		tokens, capacity := b.field(i, d.Limit, schema.FieldTokens), b.field(i, d.Limit, schema.FieldCapacity)
		b.add.part(tokens, " ", alias('d', i))
		b.add.part(b.field(i, d.Limit, schema.FieldConsumed), " ", alias('a', i))
		switch {
		case d.Pinned:
			b.condition.part(tokens, "=", alias('h', i))
		case isBetween(d):
			b.within(tokens, alias('a', i), alias('h', i))
		default:
			b.condition.part(tokens, " <= ", alias('h', i))
		}
		if d.Covered && !isBetween(d) {
			b.condition.part(tokens, " >= ", alias('a', i))
		}
		switch {
		case isCredit(d):
			credits = true
			b.condition.part(capacity, "=", alias('p', i))
		case a.Seen.Foreign == "":
			b.pin(i, d.Limit)
		default:
			b.condition.part("attribute_exists(", capacity, ")")
		}
	}
	if credits || a.Seen.Foreign == "" {
		b.shardCount(a.Seen.ShardCount)
	}
	if credits && pinsValidity(a) {
		b.condition.part(b.name("#vu", schema.ValidUntil), "=:vu")
	}
	return b.shape()
}
