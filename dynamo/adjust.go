package dynamo

import (
	"context"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/store"
)

// Adjust moves balances of an existing bucket, in one update:
//
//	SET    q of a sequence
//	ADD    tk, tc of every delta, wcu
//	if     of a debited limit, tk is below where it would have overflowed by now, and
//	       sufficient if Covered, and cp, ra, rp are as seen; of a credited one, cp is
//	       as seen, and tk leaves room for the credit below it; if the credit reaches
//	       the balance, ra is 0, or is not, as seen, and rsa is not there, if it was not; shard_count as seen;
//	       vu as seen; rf is not before the one seen, and before the end of the period of a
//	       quota that is credited; ws of a session that is credited is as seen, and so is tu
//	       of a quota that was topped up; q of a sequence is absent or below, and created as seen.
//	       On an item with a peer's features, a debit requires only that cp exists, and
//	       a credit that vu is as seen, if it was there
//
// The write debits the hidden write limit even if its balance is too low: a short write
// limit never refuses an adjustment.
func (s *Store) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	if err := checkBucket(a.Bucket); err != nil {
		return store.Outcome{}, err
	}
	turn, err := s.prepare(ctx, a.Bucket, a.Turn)
	if err != nil {
		return store.Outcome{}, err
	}
	w := newBucketWrite(s, a.Bucket)
	w.seen = a.Seen
	describeAdjust(&w.Write, a)
	turn.describe(&w.Write, nil)
	describeSequence(&w.Write, &a.Sequence, nil, a.Seen, turn)
	return w.send(ctx, "adjust", &s.adjusts)
}

// describeAdjust states the operations of an adjustment.
func describeAdjust(w *expression.Write, a *store.Adjust) {
	debitWrite(w)
	credits, acquires := false, false
	for i := range a.Deltas {
		d := &a.Deltas[i]
		l := w.Limit(i, d.Limit)
		consumed, most := l.Number('a', d.Consumed), l.Number('h', d.AtMost)
		w.Add(l.Tokens(), l.Number('d', d.Tokens))
		w.Add(l.Consumed(), consumed)
		acquires = acquires || d.Consumed > 0
		least := consumed
		if d.Covered && d.Consumed > -d.Tokens { // more is counted than debited
			least = l.Number('b', -d.Tokens)
		}
		switch {
		case d.Pinned:
			w.Require(l.Tokens().Equals(most))
		case isBetween(d):
			w.Require(l.Tokens().Between(least, most))
		default:
			w.Require(l.Tokens().AtMost(most))
		}
		if d.Covered && !isBetween(d) {
			w.Require(l.Tokens().AtLeast(least))
		}
		seen, _ := a.Seen.Limit(d.Limit)
		switch {
		case isCredit(d):
			credits = true
			describeCredit(w, l, d, a.Seen)
		case a.Seen.IsEvaluable():
			p := newParameters(l, seen.Params)
			p.require(w, l)
		default:
			w.Require(l.Capacity().Exists())
		}
	}
	if acquires {
		addAcquire(w)
	}
	if credits || a.Seen.IsEvaluable() {
		requireShardCount(w, a.Seen.ShardCount)
	}
	if a.Before != 0 {
		w.Require(expression.RF.AtLeast(w.Number(":since", a.Seen.RefilledAt)))
		w.Require(expression.RF.AtMost(w.Number(":before", a.Before-1)))
	}
	if a.Seen.IsEvaluable() || credits && a.Seen.HasValidUntil {
		requireValidity(w, a.Seen)
	}
}

// describeCredit states what a credit requires of its limit: that it has the room seen. If the
// credit reaches the balance, the limit must also still be a rate, a quota of a calendar or a session,
// as it was, and of the session seen.
func describeCredit(w *expression.Write, l expression.Limit, d *store.Delta, img *store.Image) {
	seen, _ := img.Limit(d.Limit)
	w.Require(l.Capacity().Equals(l.Number('p', seen.Capacity)))
	if d.Tokens == 0 {
		return
	}
	switch { // a quota earns nothing
	case !img.IsEvaluable():
	case seen.Amount != 0:
		w.Require(l.Amount().AtLeast(l.Number('q', 1)))
	default:
		w.Require(l.Amount().Equals(l.Number('q', 0)))
		if seen.Opened() == 0 {
			w.Require(l.Session().Absent())
		}
	}
	if seen.Opened() != 0 {
		w.Require(l.SessionOpened().Equals(l.Number('o', seen.Opened())))
	}
	if more := seen.Granted().TopUp; more != 0 { // a reset leaves less
		w.Require(l.TopUp().Equals(l.Number('y', more)))
	}
}

// isCredit reports whether a delta returns tokens, even if there is no room for them.
func isCredit(d *store.Delta) bool { return d.Consumed < 0 }

// isBetween reports whether the balance must lie between two bounds in ascending order.
// The server accepts no others.
func isBetween(d *store.Delta) bool {
	return d.Covered && !d.Pinned && min(d.Consumed, -d.Tokens) <= d.AtMost
}
