package sim_test

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// TestSimWithQuotasThatVary plays a few seeds whose quotas follow timetables. In each of them, some are
// used on both sides of a change of their amount.
func TestSimWithQuotasThatVary(t *testing.T) {
	t.Parallel()
	const seeds = 12
	var followed atomic.Int64
	playSeeds(t, seeds, func(s uint64) odds {
		o := drawOdds(dice(s))
		o.quotas, o.varied, o.dated = beforeEdge, beforeEdge, false
		return o
	}, func(res result) { followed.Add(int64(res.followed)) })
	if followed.Load() < seeds/2 {
		t.Errorf("in %d seeds, balances followed %d changes of amounts", seeds, followed.Load())
	}
}

// follows counts the quotas whose balance a write changes with the amount in force.
func (w *write) follows() (n int) {
	for _, name := range names(w.before, nil) {
		was, had := w.before.share(w.id, name)
		if is, has := w.after.share(w.id, name); had && has && !w.failed && was.inStep && is.inStep && was.sameParams(is) && was.full != is.full && !was.renewed(w.before.rf, w.after.rf) {
			n++
		}
	}
	return n
}

// A steward changes what refills do to a quota that varies, in its period.
type steward struct {
	limiter.Store

	change func(seen *store.LimitState, ch *store.Change)
}

func (s steward) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	other := *r
	other.Changes = slices.Clone(r.Changes)
	for i := range other.Changes {
		ch := &other.Changes[i]
		seen, ok := r.Seen.Limit(ch.Limit)
		if ok && seen.Renewal != nil && seen.Varies != nil && ch.Kind == store.KeepParams && seen.Renewal.End(seen.Opened(), r.Seen.RefilledAt) > r.RefilledAt {
			s.change(&seen, ch)
		}
	}
	return s.Store.Refill(ctx, &other)
}

// sayers says of every item that its balances have followed all changes.
type sayers struct{ limiter.Store }

func (s sayers) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	other := *r
	other.Validity.InStep = other.Validity.InStep || r.RefilledAt > r.Seen.RefilledAt && slices.ContainsFunc(r.Seen.Limits, func(l store.LimitState) bool {
		return l.Renewal != nil && l.Varies != nil
	})
	return s.Store.Refill(ctx, &other)
}

// TestLongestBrokenQuotasThatVaryAreSeen: each law about quotas that vary fails when its subject is broken.
func TestLongestBrokenQuotasThatVaryAreSeen(t *testing.T) {
	t.Parallel()
	o := odds{quotas: beforeEdge, varied: beforeEdge}
	hot := o
	hot.hot, hot.throttled = true, 0.03
	with := func(change func(*store.LimitState, *store.Change)) func(limiter.Store) limiter.Store {
		return func(s limiter.Store) limiter.Store { return steward{s, change} }
	}
	unbound := func(ch *store.Change) { ch.AtLeast, ch.AtMost = math.MinInt64, math.MaxInt64 }
	for name, c := range map[string]struct {
		odds          odds
		promise, text string
		with          func(limiter.Store) limiter.Store
	}{
		"takes no difference": {o, "P11", "in the period until", with(func(_ *store.LimitState, ch *store.Change) {
			if ch.Earned < 0 {
				ch.Earned = 0
				unbound(ch)
			}
		})},
		"gives a difference twice": {o, "bucket", "must be", with(func(_ *store.LimitState, ch *store.Change) {
			if ch.Earned > 0 {
				ch.Earned *= 2
				unbound(ch)
			}
		})},
		"says that it followed what it did not": {hot, "bucket", "has not followed all changes", func(s limiter.Store) limiter.Store { return sayers{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported(t, c.promise, c.text, c.odds, breakage{store: c.with})
		})
	}
}
