package dynamo

import (
	"context"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Take debits a bucket that can afford it, in one conditional update:
//
//	SET    q of a sequence
//	ADD    tk −a, tc +a of every limit with an amount, wcu; dn; of a limit in a mode that only
//	       counts the amount, tc +a alone, and wr +a, wl of one that would have refused it;
//	       o of the process, and qn
//	if     tk ≥ a of each, less what it earned since the stamp and may take ahead, and
//	       below where it would have overflowed by now; of a soft limit, the stamp is
//	       after now instead of tk ≥ a, and in shadow tk ≥ a − cp;
//	       cp, ra, rp and shard_count are those of the calculation; the limits with
//	       amount 0 exist;
//	       rf is not before Since, if given, or is Stamp; wcu holds a token; not expired,
//	       not disabled; vu is as seen, or, on an item with a peer's features, not lapsed;
//	       q of a sequence is absent or below, and created as seen; o of the process is there, or
//	       is new, and qn leaves room for it
//
// Of a bypassed bucket it only counts:
//
//	ADD    tc +a of every limit with an amount, wcu; dn
//	if     bypass is after now; the limits exist; shard_count as above; wcu holds a token; not
//	       expired, not disabled
func (s *Store) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	if w := sentBefore(ctx); w != nil {
		return w.exchange(ctx)
	}
	if err := checkBucket(t.Bucket); err != nil {
		return store.Outcome{}, err
	}
	turn, err := s.prepare(ctx, t.Bucket, t.Turn)
	if err != nil {
		return store.Outcome{}, err
	}
	w := newBucketWrite(s, t.Bucket)
	w.seen = t.Seen
	describeTake(&w.Write, t)
	turn.describe(&w.Write, nil)
	describeTally(&w.Write, tally{sequence: &t.Sequence, reserve: t.Reserve}, t.Seen, turn)
	return w.send(ctx, "take", &s.takes)
}

// describeTake states the operations of a take.
func describeTake(w *expression.Write, t *store.Take) {
	asks := coversOf(t)
	cost := debitWrite(w)
	w.Require(expression.TTL.AbsentOrAbove(w.Number(":s", t.Now/1000)))
	w.Require(expression.Disabled.Absent())
	if t.ShardCount != 0 {
		requireShardCount(w, t.ShardCount)
	}
	if len(t.Debits) > 0 && t.Debits[0].Until == store.NoBalance {
		w.Require(expression.WriteTokens.AtLeast(cost))
		describeCount(w, t)
		return
	}
	requireValid(w, t)
	if asks.asTheyAre {
		if t.Since != 0 {
			w.RequireFirst(expression.RF.AtLeast(w.Number(":since", t.Since)))
		}
		w.RequireFirst(expression.WriteTokens.AtLeast(cost))
	}
	if asks.sinceStamp {
		w.RequireSecond(expression.RF.Equals(w.Number(":seen", t.Stamp)))
		w.RequireSecond(expression.WriteTokens.AtLeast(w.Number(":y", schema.WCUCost-t.Earned)))
	}
	for i := range t.Debits {
		d := &t.Debits[i]
		l := w.Limit(i, d.Limit)
		if d.Milli == 0 {
			w.Require(l.Tokens().Exists())
			w.Require(l.Capacity().Exists())
			continue
		}
		amount := l.Number('a', d.Milli)
		if !d.Counts {
			w.Add(l.Tokens(), l.Number('d', -d.Milli))
		}
		w.Add(l.Consumed(), amount)
		if d.Shadows {
			noteShadow(w, l, d.Milli, t.Now)
		}
		requireParameters(w, l, t, &d.Params)
		asks.describe(w, l, d, t.Now, amount)
	}
	countAcquire(w, t.Debits)
	if asks == (covers{}) { // the write only fetches the image that its refusal returns
		w.Require(expression.WriteTokens.Exists())
		w.Require(expression.WriteTokens.Absent())
	}
}

// describeCount states what a take of a bypassed bucket counts.
func describeCount(w *expression.Write, t *store.Take) {
	w.Require(expression.Bypass.AtLeast(w.Number(":bypass", t.Now+1)))
	for i := range t.Debits {
		d := &t.Debits[i]
		l := w.Limit(i, d.Limit)
		w.Require(l.Tokens().Exists())
		w.Require(l.Capacity().Exists())
		if d.Milli != 0 {
			w.Add(l.Consumed(), l.Number('a', d.Milli))
		}
	}
	countAcquire(w, t.Debits)
}

// requireParameters requires that a limit has the parameters that a take was worked out with, if any.
func requireParameters(w *expression.Write, l expression.Limit, t *store.Take, p *store.Params) {
	if *p == (store.Params{}) {
		return
	}
	seen := newParameters(l, p)
	seen.require(w, l)
	if hasLapsed(t) && p.Varies == nil { // ValidUntil does not tell that it follows a schedule now
		w.Require(l.Schedule().Absent())
	}
}

// describe states what a debit requires of its limit's balance.
func (asks covers) describe(w *expression.Write, l expression.Limit, d *store.Debit, now int64, amount expression.Value) {
	switch {
	case asks == (covers{}):
	case !d.Soft:
		asks.cover(w, l, d, amount)
	case d.Counts:
		w.Require(l.Soft().AtLeast(l.Number('k', now+1)))
		w.Require(l.Capacity().Exists())
	default:
		w.Require(l.Soft().AtLeast(l.Number('k', now+1)))
		asks.bound(w, l, d)
	}
}

// cover requires that a balance is sufficient and has not overflowed. amount is what is debited.
func (asks covers) cover(w *expression.Write, l expression.Limit, d *store.Debit, amount expression.Value) {
	if asks.asTheyAre {
		least := amount
		if d.Ahead != 0 {
			least = l.Number('b', leastOf(d))
		}
		w.RequireFirst(l.Tokens().Between(least, l.Number('h', d.AtMost)))
	}
	if asks.sinceStamp {
		w.RequireSecond(l.Tokens().Between(l.Number('l', leastOf(d)-d.Earned), l.Number('m', d.AtMostAtStamp)))
	}
}

// bound requires that the balance of a soft limit has not overflowed.
func (asks covers) bound(w *expression.Write, l expression.Limit, d *store.Debit) {
	if asks.asTheyAre {
		w.RequireFirst(softly(l, d.AtLeast, d.AtMost, 'b', 'h'))
	}
	if asks.sinceStamp {
		w.RequireSecond(softly(l, leastSoftly(d), d.AtMostAtStamp, 'l', 'm'))
	}
}

// softly is that the balance of a soft limit is at most so high, and at least so low if there is a bound.
func softly(l expression.Limit, least, most int64, lower, upper byte) expression.Condition {
	if least == math.MinInt64 {
		return l.Tokens().AtMost(l.Number(upper, most))
	}
	return l.Tokens().Between(l.Number(lower, least), l.Number(upper, most))
}

// noteShadow notes what a limit in shadow would have refused, and when.
func noteShadow(w *expression.Write, l expression.Limit, milli, now int64) {
	w.Add(l.Shadowed(), l.Number('w', milli))
	w.Set(l.ShadowedAt(), l.Number('x', now))
}

// requireValid requires that the parameters are those seen and hold. Of an item with a peer's
// features, or one whose parameters have lapsed, it is only that they hold: then another process has
// made the item valid again.
func requireValid(w *expression.Write, t *store.Take) {
	if seen := t.Seen; seen == nil || !seen.IsEvaluable() || hasLapsed(t) {
		w.Require(expression.ValidUntil.AbsentOrAbove(w.Number(":n", t.Now)))
	} else {
		requireValidity(w, seen)
	}
}

// hasLapsed reports whether parameters of the item that was seen no longer hold.
func hasLapsed(t *store.Take) bool {
	return t.Seen != nil && t.Seen.HasValidUntil && t.Seen.ValidUntil <= t.Now
}

// countAcquire counts a take that takes tokens.
func countAcquire(w *expression.Write, debits []store.Debit) {
	if slices.ContainsFunc(debits, func(d store.Debit) bool { return d.Milli != 0 }) {
		addAcquire(w)
	}
}

// covers is how a take requires that every balance, also that of the hidden write
// limit, is sufficient and has not overflowed: as it is, or with what was earned since
// the stamp, which the item must have. If both are set, one of the two suffices. If
// none is set, no balance can be sufficient.
//
// With what was earned since the stamp, a lower balance of each limit is sufficient. So
// requiring either bound for each limit equals requiring one kind of bound for all
// limits, which needs half of the operators.
type covers struct{ asTheyAre, sinceStamp bool }

const (
	// eitherOperators is how many operators debits may need for one expression to require either:
	// ten for each, and two more for a soft limit. That is 27 hard limits.
	eitherOperators, eitherEach, softEach = 270, 10, 2
)

// coversOf returns how a take requires that the balances are sufficient. No balance
// meets an upper bound that is smaller than the lower one.
func coversOf(t *store.Take) covers {
	c := covers{asTheyAre: true, sinceStamp: t.Stamp != 0}
	soft := 0
	for i := range t.Debits {
		switch d := &t.Debits[i]; {
		case d.Soft && d.Counts:
			soft++
		case d.Soft:
			soft++
			c.asTheyAre = c.asTheyAre && d.AtLeast <= d.AtMost
			c.sinceStamp = c.sinceStamp && leastSoftly(d) <= d.AtMostAtStamp
		case d.Milli > 0:
			c.asTheyAre = c.asTheyAre && leastOf(d) <= d.AtMost
			c.sinceStamp = c.sinceStamp && leastOf(d)-d.Earned <= d.AtMostAtStamp
		}
	}
	if soft > store.MaxSoftTake {
		return covers{}
	}
	if c.sinceStamp && eitherEach*len(t.Debits)+softEach*soft > eitherOperators {
		c.asTheyAre = false
	}
	return c
}

// leastOf is the least balance that covers a debit.
func leastOf(d *store.Debit) int64 { return d.Milli - d.Ahead }

// leastSoftly is the least balance at the stamp that a soft limit's debit may meet, if there is one.
func leastSoftly(d *store.Debit) int64 {
	if d.AtLeast == math.MinInt64 {
		return d.AtLeast
	}
	return d.AtLeast - d.Earned
}

// bucketKey is the key of a bucket item, in the form that requests use.
func (s *Store) bucketKey(b store.Bucket) item {
	return item{schema.PK: schema.S(schema.BucketKey(s.ns, b).PK), schema.SK: stateSK}
}

// refused returns the outcome of a write that failed: the item whose state refused it,
// or an error.
func (s *Store) refused(op string, b store.Bucket, err error) (store.Outcome, error) {
	it, ok := conn.ConditionFailed(err)
	if !ok {
		return store.Outcome{}, s.conn.Translate(op+" "+schema.BucketKey(s.ns, b).PK, err)
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
