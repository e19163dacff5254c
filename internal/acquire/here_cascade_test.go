package acquire_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// slow adds a round trip to the requests that name an entity's bucket.
func slow(entity string, by time.Duration) faults.Hook {
	return faults.When(func(q *faults.Call) bool {
		return slices.ContainsFunc(q.Buckets(), func(b limiter.Bucket) bool { return b.Entity == entity })
	}, faults.Latency(by))
}

// A caller carries the writes to the entity's bucket and to its parent's, at the same time.
func TestACallerCarriesBothWrites(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerDay("rpd", 100))
		l := w.newCarrying(limiter.Options{})
		w.Take(l.Limiter, ask("key", "rpd", 1))
		l.wire.wait = 10 * time.Millisecond
		l.writes.Store(0)
		before, began := w.requests(), time.Now()
		lease, err := l.Acquire(w.Context(), ask("key", "rpd", 2))
		w.Must(err)
		if got := len(lease.Statuses()); got != 2 {
			w.Errorf("the lease has %d sides", got)
		}
		if carried, took := l.writes.Load(), time.Since(began); carried != 2 || w.requests()-before != 2 || took != l.wire.wait {
			w.Errorf("%d of %d writes carried, within %v", carried, w.requests()-before, took)
		}
		w.holds("key", "rpd", 97, "project", "rpd", 97)
		w.Must(lease.Rollback(w.Context()))
		w.holds("key", "rpd", 99, "project", "rpd", 99)
	})
}

// If one side does not grant the claim, the other side's tokens come back.
func TestOneOfTwoCarriedWritesIsNotGranted(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*world, *carrying)
		want   error
	}{
		"the entity's is refused": {func(w *world, _ *carrying) {
			w.Serve(w.Limiter, ask("key", "rpd", 15))
			w.Serve(w.Limiter, ask("other", "rpd", 1))
		}, limiter.ErrExceeded},
		"the parent's is refused": {func(w *world, _ *carrying) {
			w.Serve(w.Limiter, ask("other", "rpd", 16))
		}, limiter.ErrExceeded},
		"the entity's fails": {func(_ *world, c *carrying) {
			c.slot.Set(faults.Throttle(throttled("key")))
		}, limiter.ErrThrottled},
		"the parent's fails": {func(_ *world, c *carrying) {
			c.slot.Set(faults.Throttle(throttled("project")))
		}, limiter.ErrThrottled},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.family(limiter.PerDay("rpd", 20))
				w.Entities(child("other", "project"))
				l := w.newCarrying(limiter.Options{})
				w.Take(l.Limiter, ask("key", "rpd", 1))
				c.before(w, l)
				key, project := int(w.Balance("key", "rpd")), int(w.Balance("project", "rpd"))
				l.writes.Store(0)
				if _, err := l.Acquire(w.Context(), ask("key", "rpd", 5)); !errors.Is(err, c.want) || l.writes.Load() != 2 {
					w.Errorf("%v after %d carried writes", err, l.writes.Load())
				}
				driverOf(l.Limiter).Settle()
				w.holds("key", "rpd", key, "project", "rpd", project)
			})
		})
	}
}

func throttled(entity string) func(limiter.Bucket) error {
	return func(b limiter.Bucket) error {
		if b.Entity == entity {
			return faults.BusyTable()
		}
		return nil
	}
}

// A caller that waits for its entity's bucket keeps no place at the parent's.
func TestASlowChildBlocksNoOtherChild(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerDay("rpd", 100))
		w.Entities(child("other", "project"))
		l := w.newCarrying(limiter.Options{InFlight: 1})
		w.Take(l.Limiter, ask("key", "rpd", 1))
		w.Take(l.Limiter, ask("other", "rpd", 1))
		l.writes.Store(0)
		l.slot.Set(slow("key", 2*time.Second))
		came := make(chan error)
		go func() { came <- errOf(l.Acquire(w.Context(), ask("key", "rpd", 1))) }()
		time.Sleep(time.Millisecond)
		began := time.Now()
		w.Take(l.Limiter, ask("other", "rpd", 1))
		if took := time.Since(began); took != 0 || l.writes.Load() != 4 {
			w.Errorf("another child waited %v; callers carried %d writes", took, l.writes.Load())
		}
		w.Must(<-came)
		w.holds("key", "rpd", 98, "other", "rpd", 98, "project", "rpd", 96)
	})
}

// A caller that carries nothing because one side is throttled keeps no place at the other one.
func TestAThrottledSideBlocksNoCaller(t *testing.T) {
	for _, entity := range []string{"key", "project"} {
		t.Run(entity, func(t *testing.T) {
			inWorld(t, limiter.Options{InFlight: 1}, func(w *world) {
				w.family(limiter.PerDay("rpd", 100))
				l := w.newCarrying(limiter.Options{InFlight: 1})
				w.Take(l.Limiter, ask("key", "rpd", 1))
				l.slot.Set(faults.Throttle(throttled(entity)))
				for range 5 {
					if _, err := l.Acquire(w.Context(), ask("key", "rpd", 1)); !errors.Is(err, limiter.ErrThrottled) {
						w.Error(err)
					}
				}
				l.slot.Set(nil)
				time.Sleep(10 * time.Second)
				began := time.Now()
				w.Take(l.Limiter, ask("key", "rpd", 1))
				if took := time.Since(began); took != 0 {
					w.Errorf("waited %v", took)
				}
			})
		})
	}
}

// A caller that leaves gets its tokens back from both sides, whichever it waits for.
func TestACallerLeavesTwoCarriedWrites(t *testing.T) {
	for _, entity := range []string{"key", "project"} {
		t.Run(entity, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.family(limiter.PerDay("rpd", 100))
				l := w.newCarrying(limiter.Options{})
				w.Take(l.Limiter, ask("key", "rpd", 1))
				l.writes.Store(0)
				l.slot.Set(slow(entity, time.Second))
				ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
				defer cancel()
				began := time.Now()
				if _, err := l.Acquire(ctx, ask("key", "rpd", 5)); !errors.Is(err, context.DeadlineExceeded) || l.writes.Load() != 2 {
					w.Errorf("%v after %d carried writes", err, l.writes.Load())
				}
				if took := time.Since(began); took != 100*time.Millisecond {
					w.Errorf("the caller waited %v", took)
				}
				driverOf(l.Limiter).Settle()
				w.holds("key", "rpd", 99, "project", "rpd", 99)
			})
		})
	}
}

// The answer to a carried write says that the entity has another parent by now. That one is
// debited, and the former one is refunded.
func TestACarriedWriteBringsAnotherParent(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerDay("rpd", 100))
		w.Entities(limiter.Entity{ID: "next"})
		l := w.newCarrying(limiter.Options{})
		w.Take(l.Limiter, ask("key", "rpd", 1))
		l.writes.Store(0)
		w.setParent("key", "next")
		w.Take(l.Limiter, ask("key", "rpd", 2))
		if l.writes.Load() != 2 {
			w.Errorf("the caller carried %d writes", l.writes.Load())
		}
		w.holds("key", "rpd", 97, "project", "rpd", 99, "next", "rpd", 98)
	})
}
