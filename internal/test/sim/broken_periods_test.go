package sim_test

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// TestSimWithQuotas plays a few seeds with quotas. In each of them, some are used on both sides
// of an edge.
func TestSimWithQuotas(t *testing.T) {
	t.Parallel()
	const seeds = 12
	var renewed, late atomic.Int64
	playSeeds(t, seeds, func(s uint64) odds {
		o := drawOdds(dice(s))
		o.quotas = beforeEdge
		return o
	}, func(res result) {
		renewed.Add(int64(res.renewed))
		late.Add(int64(res.late))
	})
	if renewed.Load() < 5*seeds || late.Load() < seeds/2 {
		t.Errorf("in %d seeds, quotas were renewed %d times, and %d credits came after the end of their period", seeds, renewed.Load(), late.Load())
	}
}

// renews counts what a write renews.
func (w *write) renews() (n int) {
	for _, name := range names(w.before, nil) {
		if l := w.before.levels[name]; !w.failed && w.after != nil && l.renewed(w.before.rf, w.after.rf) {
			n++
		}
	}
	return n
}

// isLate reports whether a write returns something of a quota that reaches no balance.
func (w *write) isLate() bool {
	return !w.failed && w.before != nil && w.after != nil && slices.ContainsFunc(names(w.before, w.after), func(name string) bool {
		was, is := w.before.levels[name], w.after.levels[name]
		return is.renews != nil && is.tc < was.tc && is.tk == was.tk
	})
}

// anytime returns credits in any period: also to an item that was renewed meanwhile.
type anytime struct{ limiter.Store }

func (s anytime) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	out, err := s.Store.Adjust(ctx, a)
	if err != nil || out.Applied || out.Image == nil {
		return out, err
	}
	again := *a
	again.Seen, again.Before = out.Image, 0
	return s.Store.Adjust(ctx, &again)
}

// edge is the end of an image's first period, 0 if it has no quota.
func edge(img *store.Image) int64 {
	if img == nil || !slices.ContainsFunc(img.Limits, func(s store.LimitState) bool { return s.Renewal != nil }) {
		return 0
	}
	return img.ValidUntil
}

// looseOverEdges has the two shards of a doubling begin a period with what they had of the one
// before.
type looseOverEdges struct{ limiter.Store }

func (s looseOverEdges) Bear(ctx context.Context, b *store.Birth) (store.Joint, error) {
	now := s.Now().UnixMilli()
	if b.Donor == nil || b.ShardCount == b.Donor.Seen.ShardCount || edge(b.Donor.Seen) == 0 || edge(b.Donor.Seen) > now {
		return s.Store.Bear(ctx, b)
	}
	loose, donor := *b, *b.Donor
	donor.Loose, donor.RefilledAt, donor.Validity = true, now, store.Validity{Change: true, Until: store.ValidUntil(now, donor.Seen.Limits, func(l *store.LimitState) (store.Params, int64) { return *l.Params, l.Opened() })}
	loose.Donor, loose.Now, loose.ValidUntil = &donor, now, donor.Validity.Until
	return s.Store.Bear(ctx, &loose)
}

// ephemeral has items with quotas expire with their period.
type ephemeral struct{ limiter.Store }

func (s ephemeral) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	early := *r
	if end := edge(r.Seen); end > r.RefilledAt && r.Expiry.At != 0 {
		early.Expiry.At = end/1000 + 1
	}
	return s.Store.Refill(ctx, &early)
}

// overdue takes from a period that has ended, and does not begin the next one.
type overdue struct{ limiter.Store }

func (s overdue) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	if end := edge(r.Seen); end == 0 || end > r.RefilledAt {
		return s.Store.Refill(ctx, r)
	}
	t := &store.Take{Bucket: r.Bucket, Now: r.Seen.RefilledAt}
	for _, ch := range r.Changes {
		if ch.Debit > 0 {
			t.Debits = append(t.Debits, store.Debit{Amount: store.Amount{Limit: ch.Limit, Milli: ch.Debit}, AtMost: math.MaxInt64})
		}
	}
	if len(t.Debits) > 0 {
		if out, err := s.Take(ctx, t); err != nil || out.Applied {
			return out, err
		}
	}
	return s.Store.Refill(ctx, r)
}

// renewsAgain renews an item that somebody else has just renewed.
type renewsAgain struct{ limiter.Store }

func (s renewsAgain) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	out, err := s.Store.Refill(ctx, r)
	if err != nil || out.Applied || out.Image == nil || edge(r.Seen) == 0 || edge(r.Seen) > out.Image.RefilledAt || len(out.Image.Limits) != len(r.Seen.Limits) {
		return out, err
	}
	again := *r
	again.Seen, again.Validity = out.Image, store.Validity{}
	again.RefilledAt, again.FullSince = max(r.RefilledAt, out.Image.RefilledAt), 0
	again.Changes = slices.Clone(r.Changes)
	for i := range again.Changes {
		ch, is := &again.Changes[i], out.Image.Limits[i]
		if ch.AtLeast, ch.AtMost = math.MinInt64, math.MaxInt64; is.Renewal != nil && is.Name == ch.Limit && out.Image.ShardCount == 1 {
			ch.Earned = is.Capacity - is.Tokens
		}
	}
	return s.Store.Refill(ctx, &again)
}

// generous fills a quota whose parameters change.
type generous struct{ limiter.Store }

func (s generous) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	full := *r
	full.Changes = slices.Clone(r.Changes)
	for i := range full.Changes {
		if ch := &full.Changes[i]; ch.Kind == store.SetParams && ch.Params.Renewal != nil && r.Seen.ShardCount == 1 {
			seen, _ := r.Seen.Limit(ch.Limit)
			ch.Earned = ch.Params.Capacity - seen.Tokens
			ch.AtLeast, ch.AtMost = seen.Tokens, seen.Tokens
		}
	}
	return s.Store.Refill(ctx, &full)
}

// changing changes some of what refills do to limits.
type changing struct {
	limiter.Store

	which  func(*store.Change) bool
	change func(*store.Change)
}

func (s changing) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	other := *r
	other.Changes = slices.Clone(r.Changes)
	for i := range other.Changes {
		if ch := &other.Changes[i]; s.which(ch) {
			s.change(ch)
		}
	}
	return s.Store.Refill(ctx, &other)
}

// carries reports whether a quota carries something into the period that a refill begins.
func carries(ch *store.Change) bool { return ch.Renews && ch.TopUp > 0 }

// TestLongestBrokenPeriodsAreSeen: each law about quotas fails when its subject is broken.
func TestLongestBrokenPeriodsAreSeen(t *testing.T) {
	t.Parallel()
	o := odds{quotas: beforeEdge, carries: true, skew: 100 * time.Millisecond}
	hot := o
	hot.hot, hot.throttled = true, 0.03
	for name, c := range map[string]struct {
		odds    odds
		promise string
		text    string
		with    func(limiter.Store) limiter.Store
	}{
		"renews without the lock":              {o, "P11", "in the period until", func(s limiter.Store) limiter.Store { return renewsAgain{s} }},
		"credits what is of an earlier period": {o, "P10", "comes back in the one until", func(s limiter.Store) limiter.Store { return anytime{s} }},
		"doubles over an edge":                 {hot, "bucket", "what was given away ended at", func(s limiter.Store) limiter.Store { return looseOverEdges{s} }},
		"expires before the next period":       {o, "expiry", "expires before the next period", func(s limiter.Store) limiter.Store { return ephemeral{s} }},
		"takes after the end of the period":    {o, "bucket", "when the parameters were valid until", func(s limiter.Store) limiter.Store { return overdue{s} }},
		"begins no session": {o.seated(), "bucket", "is of the session of", func(s limiter.Store) limiter.Store {
			return changing{s, func(ch *store.Change) bool { return ch.Opened > store.NoSession }, func(ch *store.Change) { ch.Opened = store.NoSession }}
		}},
		"forgets what it may hold": {o, "bucket", "above its share", func(s limiter.Store) limiter.Store {
			return changing{s, carries, func(ch *store.Change) { ch.TopUp = 0 }}
		}},
		"carries more than was left": {o, "P11", "in the period until", func(s limiter.Store) limiter.Store {
			return changing{s, carries, func(ch *store.Change) { ch.TopUp += 100_000; ch.Earned += 100_000 }}
		}},
		"an edit fills what was consumed already": {o, "bucket", "must be", func(s limiter.Store) limiter.Store { return generous{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported(t, c.promise, c.text, c.odds, breakage{store: c.with})
		})
	}
}
