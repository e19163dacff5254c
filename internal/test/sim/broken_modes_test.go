package sim_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// taking changes what takes debit of limits in a mode, by what was seen of them.
type taking struct {
	limiter.Store

	change func(seen *store.LimitState, d *store.Debit)
}

func (s taking) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	other := *t
	other.Debits = slices.Clone(t.Debits)
	for i := range other.Debits {
		if seen, has := t.Seen.Limit(other.Debits[i].Limit); has && seen.Mode() != store.Enforce {
			s.change(&seen, &other.Debits[i])
		}
	}
	return s.Store.Take(ctx, &other)
}

// settling changes what is settled of limits in a mode.
type settling struct {
	limiter.Store

	change func(seen *store.LimitState, d *store.Delta)
}

func (s settling) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	other := *a
	other.Deltas = slices.Clone(a.Deltas)
	for i := range other.Deltas {
		if seen, has := a.Seen.Limit(other.Deltas[i].Limit); has && seen.Mode() != store.Enforce {
			s.change(&seen, &other.Deltas[i])
		}
	}
	return s.Store.Adjust(ctx, &other)
}

// moded changes the modes of the limits that clients read.
func moded(change func(*limiter.Limit)) func(limiter.Store) limiter.Store {
	return func(s limiter.Store) limiter.Store {
		known, _ := s.(clocked)
		return loads{known, new(sync.Mutex), without(func(c *limiter.Config) {
			c.Limits = slices.Clone(c.Limits)
			for i := range c.Limits {
				change(&c.Limits[i])
			}
		})()}
	}
}

// refilling changes what refills do to limits that were in a mode, by what was seen of them.
type refilling struct {
	limiter.Store

	change func(seen *store.LimitState, ch *store.Change)
}

func (s refilling) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	other := *r
	other.Changes = slices.Clone(r.Changes)
	for i := range other.Changes {
		if seen, has := r.Seen.Limit(other.Changes[i].Limit); has && seen.Mode() != store.Enforce && r.FullSince == 0 {
			s.change(&seen, &other.Changes[i])
		}
	}
	return s.Store.Refill(ctx, &other)
}

// TestLongestBrokenModesAreSeen: each law about limits in a mode fails when its subject is broken.
func TestLongestBrokenModesAreSeen(t *testing.T) {
	t.Parallel()
	takes := func(f func(*store.LimitState, *store.Debit)) breakage {
		return breakage{store: func(s limiter.Store) limiter.Store { return taking{s, f} }}
	}
	settles := func(f func(*store.LimitState, *store.Delta)) breakage {
		return breakage{store: func(s limiter.Store) limiter.Store { return settling{s, f} }}
	}
	refills := func(f func(*store.LimitState, *store.Change)) breakage {
		return breakage{store: func(s limiter.Store) limiter.Store { return refilling{s, f} }}
	}
	told := func(f func(*limiter.Status, *call)) breakage {
		return breakage{answer: func(c *call) {
			for i := range c.statuses {
				if c.kind == acquiring && c.statuses[i].Limit.Mode == limiter.Shadow {
					f(&c.statuses[i], c)
				}
			}
		}}
	}
	for name, c := range map[string]struct {
		promise, text string
		broken        breakage
	}{
		"refuses in shadow": {"soft", "which is soft", told(func(st *limiter.Status, c *call) {
			st.Exceeded, st.RetryAfter = true, time.Second
			c.err, c.lease = &limiter.ExceededError{Statuses: c.statuses}, nil
		})},
		"tells of refusals that were none": {"shadow", "would refuse true", told(func(st *limiter.Status, _ *call) { st.WouldRefuse = true })},
		"tells of no refusal":              {"shadow", "would refuse false", told(func(st *limiter.Status, _ *call) { st.WouldRefuse = false })},
		"counts what the shadow holds": {"bucket", "counts", takes(func(s *store.LimitState, d *store.Debit) {
			d.Counts, d.Shadows, d.AtLeast = true, s.Mode() == store.Shadow, math.MinInt64
		})},
		"debits what the shadow lacks": {"bucket", "in shadow is debited", takes(func(s *store.LimitState, d *store.Debit) {
			if s.Mode() == store.Shadow {
				d.Counts, d.Shadows, d.AtLeast = false, false, math.MinInt64
			}
		})},
		"debits what is off": {"bucket", "is off: ", takes(func(s *store.LimitState, d *store.Debit) {
			if s.Mode() == store.Off {
				d.Counts = false
			}
		})},
		"notes nothing":          {"bucket", "and it notes 0", takes(func(_ *store.LimitState, d *store.Debit) { d.Shadows = false })},
		"settles on the balance": {"bucket", "what counted only is settled", settles(func(_ *store.LimitState, d *store.Delta) { d.Tokens, d.AtMost = -d.Consumed, math.MaxInt64 })},
		"owes more than one capacity": {"bucket", "in shadow is led to", settles(func(s *store.LimitState, d *store.Delta) {
			if s.Mode() == store.Shadow && d.Tokens < 0 {
				d.Tokens = -d.Consumed
			}
		})},
		"enforces a debt": {"bucket", "the balance moved by", refills(func(s *store.LimitState, ch *store.Change) {
			if ch.Kind == store.SetParams && ch.SoftUntil == 0 && s.Tokens < 0 {
				ch.Earned = 0
			}
		})},
		"fills what leaves its mode": {"bucket", "the balance moved by", refills(func(s *store.LimitState, ch *store.Change) {
			if ch.Kind == store.SetParams && ch.SoftUntil == 0 {
				ch.Earned += 1000
				ch.AtLeast, ch.AtMost = s.Tokens, s.Tokens
			}
		})},
		"enforces what is in a mode": {"bucket", "configuration says otherwise", breakage{store: moded(func(l *limiter.Limit) { l.Mode, l.Percent = limiter.Enforce, 0 })}},
		"is off, not in shadow": {"bucket", "configuration says otherwise", breakage{store: moded(func(l *limiter.Limit) {
			if l.Mode == limiter.Shadow {
				l.Mode = limiter.Off
			}
		})}},
		"holds for all entities": {"bucket", "configuration says otherwise", breakage{store: moded(func(l *limiter.Limit) { l.Percent = 0 })}},
		"holds for other entities": {"bucket", "configuration says otherwise", breakage{store: moded(func(l *limiter.Limit) {
			if l.Percent != 0 {
				l.Percent = 100 - l.Percent
			}
		})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported(t, c.promise, c.text, odds{modes: true}, c.broken)
		})
	}
}
