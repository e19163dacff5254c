package plan

import (
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// AsFull makes a refill independent of the stamp seen, if every limit of the bucket
// is full by now.
//
// A bucket that is used less than its limits allow is nearly always full. Each take
// then has to cut the overflow, so it is a refill. The stamp locks refills, so
// clients that share the bucket would keep invalidating each other's images. But if a
// bucket was full anyway, its balances afterwards do not depend on its balances
// before. So the condition is that the bucket was full:
//
//	stamp ≤ since   and   balance ≥ capacity − earned(since, now)
//
// for every limit, which implies balance + earned(stamp, now) ≥ capacity. As far as
// the image tells, since lies several times as far back as the limits took to fill.
// So the condition also holds if other clients have meanwhile made the same write.
//
// A quota that was taken from is not full until it renews, and the write that renews it is
// locked by the stamp: another one may have renewed it, or topped it up. So a bucket with a
// quota is left alone. So is one whose schedule has changed since the stamp: another capacity
// may have held on the way. And so is one that is bypassed, whose balances a write does not
// debit.
func AsFull(r *store.Refill, now int64) {
	img := r.Seen
	if isAskedToTrim(img, now) || hasQuota(img) || countSoft(img) > store.MaxSoftTake || r.Bypass.Change || changesAny(img, r.RefilledAt) || r.Owner != nil {
		return
	}
	took, full := int64(0), true
	eachChange(r, func(ch *store.Change, s *store.LimitState, l bucket.Limit) {
		if ch.Kind != store.KeepParams || l.Balance(s.Tokens, img.RefilledAt, now) < l.Capacity {
			full = false
			return
		}
		ms, _ := l.Wait(min(s.Tokens, l.Capacity-ch.Debit), img.RefilledAt, img.RefilledAt, l.Capacity)
		took = max(took, ms)
	})
	const others = 4
	since := max(img.RefilledAt, now-others*took)
	if !full || since >= now {
		return
	}
	eachChange(r, func(_ *store.Change, s *store.LimitState, l bucket.Limit) {
		full = full && s.Tokens >= leastFull(l, since, now)
	})
	if !full {
		return
	}
	r.FullSince = since
	eachChange(r, func(ch *store.Change, s *store.LimitState, l bucket.Limit) {
		ch.Earned = l.Capacity + min(0, ch.Debit) // a credit finds no room
		if ch.Counts {
			ch.Earned += ch.Debit
		} else {
			ch.Earned += max(0, ch.Debit-l.Capacity+floorOf(s.Mode(), l)) // what is beyond the largest debt is not owed
		}
		ch.AtLeast, ch.AtMost = leastFull(l, since, now), math.MaxInt64
		ch.Params = *s.Params
	})
}

// leastFull is the least balance at an instant that has filled up by now.
func leastFull(l bucket.Limit, since, now int64) int64 {
	return l.Capacity - min(l.Capacity, l.Earned(since, now))
}

// eachChange visits the changes of a refill that neither adds nor removes limits,
// with the limits that they change.
func eachChange(r *store.Refill, f func(*store.Change, *store.LimitState, bucket.Limit)) {
	img := r.Seen
	f(&r.Writes, &img.Writes, WritesOf(img))
	for i := range r.Changes {
		s := &store.LimitState{Params: &store.Params{}}
		if i < len(img.Limits) {
			s = &img.Limits[i]
		}
		f(&r.Changes[i], s, ShareOf(img, s))
	}
}

// WritesChange accrues the hidden write limit and debits the refill itself. wait is how
// long until that limit has a token for it. A forced write does not need the token.
func WritesChange(img *store.Image, now int64, forced bool) (ch store.Change, wait time.Duration) {
	if img.Writes.Name == "" {
		return pressingWrite(img), 0
	}
	writes := WritesOf(img)
	if ms, ok := writes.Wait(img.Writes.Tokens, img.RefilledAt, now, WriteCost); !ok || ms > 0 {
		wait = time.Duration(max(1, ms)) * time.Millisecond
	}
	// Not pinned when clamped: a take that lands in between counts as one after the
	// refill. The loss is only a part of an estimate of writes.
	delta, _ := writes.Refill(img.Writes.Tokens, img.RefilledAt, now)
	ch = store.Change{
		Limit: store.WriteLimit, Earned: delta, Debit: WriteCost,
		AtLeast: WriteCost - delta, AtMost: writes.Capacity - delta,
	}
	if forced {
		ch.AtLeast = math.MinInt64
	}
	return ch, wait
}

// pressingWrite debits the hidden write limit even if it holds too little.
func pressingWrite(img *store.Image) store.Change {
	if img.Writes.Name == "" {
		return store.Change{Limit: store.WriteLimit, Kind: store.AddLimit, Params: WriteParams, Earned: WriteParams.Capacity, Debit: WriteCost}
	}
	return store.Change{Limit: store.WriteLimit, Debit: WriteCost, AtLeast: math.MinInt64, AtMost: math.MaxInt64}
}

// FirstWrite is the hidden write limit of a new item, less one write.
func FirstWrite() store.NewLimit {
	return store.NewLimit{
		NamedParams: store.NamedParams{Limit: store.WriteLimit, Params: WriteParams},
		Tokens:      WriteParams.Capacity - WriteCost, Consumed: WriteCost,
	}
}
