package limiter

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// asFull makes a refill independent of the stamp seen, if every limit of the bucket
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
func asFull(r *store.Refill, now int64) {
	img := r.Seen
	if r.Lapse || r.Owner != nil {
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
		ch.AtLeast, ch.AtMost = leastFull(l, since, now), math.MaxInt64
		ch.Params = s.Params
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
	f(&r.Writes, &img.Writes, wholeOf(&img.Writes))
	for i := range r.Changes {
		s := &store.LimitState{}
		if i < len(img.Limits) {
			s = &img.Limits[i]
		}
		f(&r.Changes[i], s, shareOf(img, s.Params))
	}
}
