package wall

import (
	"sync"
	"sync/atomic"
	"time"
)

// previousAfter is how many minutes after its end a minute becomes a previous peak.
const previousAfter = 30

// whole is the throughput of a table or an index over all its partitions, for reads or for
// writes.
//
// It is one bucket behind one lock. Every charge takes the lock, but a check only when nothing is
// left. The lock is held for a fraction of the time that a request takes. A bucket split over
// several locks would be inexact.
type whole struct {
	limited atomic.Bool // whether there is a limit
	// drained is whether the balance was 0 or less when last updated. If not, all requests are admitted,
	// because the balance only grows between charges.
	drained atomic.Bool

	mu     sync.Mutex
	limits capacity
	pace   pace
	bucket bucket
	ramp   ramp
}

// capacity is one direction of a [Capacity].
type capacity struct {
	provisioned    int64 // half units per second
	burst          time.Duration
	initial, quota int64 // half units per second
}

func (c *capacity) limited() bool { return c.provisioned > 0 || c.initial > 0 || c.quota > 0 }

// ramp records the consumption of an on-demand table, by the minute. Sums are in half units, like
// the rate of a bucket that counts by the minute. So double a peak is a rate.
type ramp struct {
	minute int64                // the current one, from the creation of the meter
	sum    int64                // half units charged in it
	recent [previousAfter]int64 // sums of the minutes before, by minute modulo their number
	peak   int64                // the largest sum of all earlier minutes, or a substitute for it
}

// next ends the current minute. A minute leaves recent, and may become the peak, after
// previousAfter more minutes have ended.
func (r *ramp) next() {
	slot := &r.recent[r.minute%previousAfter]
	r.peak = max(r.peak, *slot)
	*slot, r.sum = r.sum, 0
	r.minute++
}

// configure sets other limits. The balance is kept as far as it fits. If the unit of the balance
// changes, the balance begins with a second's worth.
func (w *whole) configure(now int64, c capacity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked(now)
	kind := w.pace.half
	w.limits = c
	w.limited.Store(c.limited())
	// Half of the units provisioned per second, over a minute.
	w.ramp.peak = max(w.ramp.peak, min(c.provisioned, maxRate)*60/2)
	w.paceLocked()
	if w.pace.half != kind {
		w.bucket.balance = w.pace.rate * second
	}
	w.bucket.balance = min(w.bucket.balance, w.pace.depth)
	w.drained.Store(w.limits.limited() && w.bucket.balance <= 0)
}

// paceLocked computes the pace for the current minute.
func (w *whole) paceLocked() {
	c := &w.limits
	switch quota := min(c.quota, maxRate) * 60; {
	case c.provisioned > 0:
		w.pace = perSecond(c.provisioned, c.burst)
	case c.initial == 0 && quota == 0:
		w.pace = pace{}
	case c.initial == 0:
		w.pace = perMinute(quota)
	default:
		w.pace = perMinute(max(min(c.initial, maxRate)*60, 2*w.ramp.peak))
		if quota > 0 && quota < w.pace.rate {
			w.pace = perMinute(quota)
		}
	}
}

// advanceLocked brings the bucket to an instant, minute by minute because the pace may change
// with each. Once as many minutes have passed without a request as a peak takes to become
// previous, the pace no longer changes.
func (w *whole) advanceLocked(now int64) {
	for range previousAfter + 1 {
		end := (w.ramp.minute + 1) * minute
		if now < end {
			break
		}
		w.refillLocked(end)
		w.ramp.next()
		w.paceLocked()
	}
	w.ramp.minute = max(w.ramp.minute, now/minute)
	w.refillLocked(now)
}

func (w *whole) refillLocked(now int64) {
	if w.pace.rate > 0 {
		w.bucket = w.pace.refilled(w.bucket, now)
	} else {
		w.bucket.at = max(w.bucket.at, now)
	}
}

// check reports whether anything is left.
//
// drained may be stale in one direction only. It is set under the lock as soon as nothing is left.
// It stays set until a check finds that the bucket has refilled. So a stale value costs a lock, and
// never admits a request.
func (w *whole) check(now int64) Level {
	if !w.drained.Load() {
		return Admitted
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked(now)
	switch c := &w.limits; {
	case !c.limited() || w.bucket.balance > 0:
		w.drained.Store(false)
		return Admitted
	case c.provisioned > 0:
		return Provisioned
	case c.quota > 0 && w.pace.rate == min(c.quota, maxRate)*60:
		return AccountLimit
	default:
		return KeyRange
	}
}

// charge takes half units, more than 0.
func (w *whole) charge(now, halves int64) {
	if !w.limited.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.limits.limited() {
		return
	}
	w.advanceLocked(now)
	w.bucket = w.pace.charged(w.bucket, halves)
	if w.bucket.balance <= 0 {
		w.drained.Store(true)
	}
	if w.pace.half == minute {
		w.ramp.sum += halves
	}
}
