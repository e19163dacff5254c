package sim_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// This file has the laws of soft limits, beside those of all limits: what is consumed counts
// exactly, and nobody is refused.

// The life of a stamp of a soft limit, in milliseconds.
const (
	stampsLeast = 48_000
	stampsMost  = 60_000
)

// enforces reports whether the balance must cover what a write debits of a limit: if it only
// takes, and the limit was hard, or its stamp had passed by any reading of the client's
// clock.
func (w *write) enforces(is level) bool {
	return w.call.onlyTakes() && (!is.isSoft() || is.soft <= w.client.earliestMS(w))
}

// legalStamps: a limit becomes soft or hard only by configuration that was in force within
// the time to live. A process that was idle may renew a stamp by what it knew before that,
// and then compares. A stamp lives 48 to 60 seconds. A write that does not renew it leaves it
// as it is. A shard that is born or merged has one of its sibling's.
func (c *checker) legalStamps(r *write, bad func(string, ...any)) {
	a, b := r.before, r.after
	for _, name := range names(b, nil) {
		was, had := a.level(name)
		is := b.levels[name]
		if r.other != nil {
			sibling := r.other.before
			if sibling == nil {
				sibling = r.other.after
			}
			if of, _ := sibling.level(name); is.soft == of.soft {
				continue
			}
		}
		if had && is.soft == was.soft || !had && !is.isSoft() {
			continue
		}
		from := r.call.start - c.knows(r.client)
		if was.isSoft() && is.isSoft() {
			from = 0
		}
		if !c.wasSoft(r.id.whole(), name, is.isSoft(), from, r.at) {
			bad("%s gets the stamp %d, and the configuration says otherwise", name, is.soft)
		}
		earliest := min(b.rf, r.client.earliestMS(r)) + stampsLeast
		if latest := max(b.rf, c.latestMS(r)) + stampsMost; is.isSoft() && (is.soft < earliest || is.soft > latest) {
			bad("%s is soft until %d, must be from %d to %d", name, is.soft, earliest, latest)
		}
	}
}

// knows is how old the configuration may be that a client rests on, by a clock that may have
// been set.
func (c *checker) knows(of *client) time.Duration {
	return max(c.play.ttl, of.ttl, 0) + storeTimeout + c.spread()
}

// wasSoft reports whether a limit was soft, or hard, by a configuration between two instants.
func (c *checker) wasSoft(key bucketKey, name string, soft bool, from, to time.Duration) bool {
	return slices.ContainsFunc(between(c.play.versions(key), from, to), func(v version) bool {
		l, has := v.limits[name]
		return has && l.isSoft() == soft || !has && !soft
	})
}

// onlyCounts reports whether a limit was soft for a call at an instant of it: by all
// configuration that it may rest on, and on each shard of the bucket.
func (c *checker) onlyCounts(k *call, key bucketKey, name string, at time.Duration) bool {
	if !c.odds.soft && !c.odds.modes || c.comparedNothing(k) || c.wasSoft(key, name, false, k.start-c.knows(k.client), k.end) {
		return false
	}
	for i := range mostShards {
		if l, has := c.stateAt(key.shard(i), at).level(name); has && !l.isSoft() {
			return false
		}
	}
	return true
}

// neverRefuses: a limit that was soft all the time refuses nobody, whatever is asked of it.
func (c *checker) neverRefuses(k *call, e *limiter.ExceededError) {
	for _, st := range e.Statuses {
		key := bucketKey{st.Entity, st.Resource}
		if !st.Exceeded || !c.onlyCounts(k, key, st.Limit.Name, k.start) || !c.onlyCounts(k, key, st.Limit.Name, k.end) ||
			slices.ContainsFunc(c.during(key, k.start-max(0, k.client.trust), k.end), func(r *write) bool { return !c.onlyCounts(k, key, st.Limit.Name, r.at-1) }) {
			continue
		}
		id := key.shard(0)
		c.violate("soft", k.end, &id, "%s by %s, which is soft", k, st.Limit.Name)
	}
}

// TestSimWithSoftLimits plays a few seeds with soft limits. In each of them some are debited
// below zero.
func TestSimWithSoftLimits(t *testing.T) {
	t.Parallel()
	const seeds = 12
	var owed atomic.Int64
	playSeeds(t, seeds, func(s uint64) odds {
		o := oddsOf(s)
		o.soft = true
		return o
	}, func(res result) {
		owed.Add(int64(res.owed))
	})
	if n := owed.Load(); n < 5*seeds {
		t.Errorf("in %d seeds, soft limits were debited below zero %d times", seeds, n)
	}
}

// owes counts the soft limits that a write debits below zero.
func (w *write) owes() (n int) {
	for _, name := range names(w.after, nil) {
		was, _ := w.before.level(name)
		if is := w.after.levels[name]; !w.failed && is.isSoft() && is.tk < 0 && is.tc > was.tc {
			n++
		}
	}
	return n
}

// A stamper changes the stamps of soft limits that a refill renews.
type stamper struct {
	limiter.Store

	stamp func(seen, renewed int64) int64
}

func (s stamper) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	other := *r
	other.Changes = slices.Clone(r.Changes)
	for i := range other.Changes {
		if ch := &other.Changes[i]; ch.SoftUntil > r.RefilledAt {
			seen, _ := r.Seen.Limit(ch.Limit)
			ch.SoftUntil = s.stamp(seen.SoftUntil(), ch.SoftUntil)
		}
	}
	return s.Store.Refill(ctx, &other)
}

// softly changes whether the limits are soft that clients read.
func softly(soft func(bool) bool) breakage {
	return breakage{store: func(s limiter.Store) limiter.Store {
		known, _ := s.(clocked)
		return loads{known, new(sync.Mutex), without(func(c *limiter.Config) {
			c.Limits = slices.Clone(c.Limits)
			for i := range c.Limits {
				c.Limits[i].Soft = soft(c.Limits[i].Soft)
			}
		})()}
	}}
}

// TestLongestBrokenSoftLimitsAreSeen: each law about soft limits fails when its subject is
// broken.
func TestLongestBrokenSoftLimitsAreSeen(t *testing.T) {
	t.Parallel()
	stamps := func(f func(seen, renewed int64) int64) breakage {
		return breakage{store: func(s limiter.Store) limiter.Store { return stamper{s, f} }}
	}
	for name, c := range map[string]struct {
		promise, text string
		broken        breakage
	}{
		"refuses by a soft limit": {"soft", "which is soft", breakage{answer: func(c *call) {
			if i := slices.IndexFunc(c.statuses, func(st limiter.Status) bool { return st.Limit.Soft }); i >= 0 && c.kind == acquiring {
				c.statuses[i].Exceeded, c.statuses[i].RetryAfter = true, time.Second
				c.err, c.lease = &limiter.ExceededError{Statuses: c.statuses}, nil
			}
		}}},
		"makes limits hard":    {"bucket", "configuration says otherwise", softly(func(bool) bool { return false })},
		"makes limits soft":    {"bucket", "configuration says otherwise", softly(func(bool) bool { return true })},
		"stamps for too long":  {"bucket", "is soft until", stamps(func(_, renewed int64) int64 { return renewed + 30_000 })},
		"stamps for too short": {"bucket", "is soft until", stamps(func(_, renewed int64) int64 { return renewed - 30_000 })},
		"takes after a stamp":  {"bucket", "was debited", stamps(func(seen, renewed int64) int64 { return cmp.Or(seen, renewed) })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported(t, c.promise, c.text, odds{soft: true}, c.broken)
		})
	}
}
