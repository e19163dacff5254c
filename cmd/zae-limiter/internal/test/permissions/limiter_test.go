package permissions_test

import (
	"context"
	"errors"
	"sync"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

const acquire = "Limiter.Acquire"

// acquires has what an acquire on a bucket of one item meets.
func acquires(w *world) {
	w.family()
	w.record(acquire, "the first of an entity", func() { w.acquire(w.Limiter, "user", 100) })
	w.record(acquire, "the bucket is remembered", func() { w.acquire(w.Limiter, "user", 100) })
	w.record(acquire, "the first of a process", func() { w.acquire(w.limiter(), "user", 100) })
	w.record(acquire, "refused", func() { w.acquire(w.limiter(), "user", 3600) })
	time.Sleep(30 * time.Second)
	w.record(acquire, "tokens were earned", func() { w.acquire(w.Limiter, "user", 3400) })
	time.Sleep(50 * time.Second)
	w.record(acquire, "the configuration is renewed in the background", func() { w.acquire(w.Limiter, "user", 1) })
	time.Sleep(time.Hour)
	w.record(acquire, "the remembered configuration is old", func() { w.acquire(w.Limiter, "user", 1) })
	w.System(limiter.PerHour("rph", 1800))
	w.record(acquire, "the limits have changed", func() { w.acquire(w.Limiter, "user", 1) })
	time.Sleep(100 * time.Hour)
	w.record(acquire, "the bucket has expired", func() { w.acquire(w.Limiter, "user", 1) })
	w.remove("user", 0)
	w.record(acquire, "the bucket was deleted", func() { w.acquire(w.Limiter, "user", 1) })
	w.record(acquire, "slots, and others look for some", func() {
		slots := limiter.Request{
			Entity: "user", Resource: testbed.Resource, Slots: tokens{"inflight": 1}, SlotFallback: []limiter.SlotLimit{limiter.Slots("inflight", 1)},
		}
		lease, err := w.Acquire(w.Context(), slots)
		w.Must(err)
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		if _, err := w.limiter().Wait(ctx, slots); !errors.Is(err, limiter.ErrSlotsFull) {
			w.Errorf("the slot is held: %v", err)
		}
		w.Must(lease.Commit(w.Context()))
		time.Sleep(time.Second)
	})
	w.record(acquire, "many at once", func() { w.together(20, func() { w.acquire(w.Limiter, "user", 1) }) })
}

// cascades has what an acquire meets that takes tokens from a parent, too.
func cascades(w *world) {
	w.family()
	w.record(acquire, "the first of an entity with a parent", func() { w.acquire(w.Limiter, "key", 100) })
	w.record(acquire, "with a parent", func() { w.acquire(w.Limiter, "key", 100) })
	w.acquire(w.Limiter, "project", 3300)
	w.record(acquire, "refused by the parent", func() { w.acquire(w.limiter(), "key", 500) })
	w.System(limiter.PerHour("rph", 1800), limiter.PerDay("rpd", 9000))
	w.record(acquire, "a new limit, with a parent", func() {
		w.Take(w.limiter(), testbed.AskAll("key", tokens{"rph": 0, "rpd": 1}))
	})
}

// oddities has an acquire's rarer conditions.
func oddities(w *world) {
	fallback := testbed.Ask("guest", "rph", 1)
	fallback.Fallback = []limiter.Limit{hourly}
	w.record(acquire, "limits that come with the request", func() { w.Take(w.Limiter, fallback) })
	w.System(hourly)
	w.acquire(w.Limiter, "user", 1)
	_, ns := w.Store.Namespace()
	w.Must(switchOff(w.Context(), w.API, ns, store.Bucket{Entity: "user", Resource: testbed.Resource}))
	w.record(acquire, "the bucket is disabled", func() {
		if _, err := w.Acquire(w.Context(), testbed.Ask("user", "rph", 1)); !errors.Is(err, limiter.ErrDisabled) {
			w.Errorf("disabled: %v", err)
		}
	})
	w.acquire(w.Limiter, "other", 1)
	w.record(acquire, "the table cannot be reached", func() {
		w.disturb.Set(faults.Fail(faults.BusyTable()))
		defer w.disturb.Set(nil)
		allow := testbed.Ask("other", "rph", 1)
		allow.OnUnavailable = limiter.Allow
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		lease, err := w.Acquire(ctx, allow)
		w.Must(err)
		w.Must(lease.Commit(w.Context()))
	})
}

// queues has what callers that wait send.
func queues(w *world) {
	const wait = "Limiter.Wait"
	w.family()
	waitFor := func(entity string, n int64) { w.Must(errOf(w.Wait(w.Context(), testbed.Ask(entity, "rph", n)))) }
	w.record(wait, "admitted at once", func() { waitFor("user", 3600) })
	w.record(wait, "after a wait", func() { waitFor("user", 1) })
	w.record(wait, "many at once", func() { w.together(20, func() { waitFor("user", 1) }) })
	w.record(wait, "with a parent", func() { waitFor("key", 3600); waitFor("key", 1) })
	w.record(wait, "behind others, by other limits", func() {
		for range 5 { // more of the orders in which the two can go on
			w.together(2, func() {
				ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
				defer cancel()
				_, _ = w.Wait(ctx, testbed.Ask("user", "rph", 15)) // one of the two is too late
				waitFor("user", 1)
			})
		}
	})
}

// acquireUntilWhole takes until an entity's bucket has so many shards again: each take meets one at random.
func (w *world) acquireUntilWhole(entity string, shards int) {
	w.Helper()
	for l := w.limiter(); len(w.Images(entity)) < shards; {
		w.acquire(l, entity, 1)
	}
}

// sharded has what an acquire on a bucket of several items meets.
func sharded(w *world) {
	w.System(hourly)
	w.acquire(w.Limiter, "user", 100)
	w.double("user")
	w.record(acquire, "the bucket was doubled meanwhile", func() {
		for range 10 {
			w.acquire(w.Limiter, "user", 1)
		}
	})
	w.record(acquire, "the first of a process, several shards", func() { w.acquire(w.limiter(), "user", 1) })
	w.record(acquire, "several shards are gathered", func() { w.acquire(w.limiter(), "user", 2500) })
	w.record(acquire, "refused by several shards", func() { w.acquire(w.limiter(), "user", 3600) })
	w.record(acquire, "many at once, several shards", func() { w.together(50, func() { w.acquire(w.Limiter, "user", 40) }) })
	time.Sleep(time.Hour)
	w.double("user")
	w.remove("user", 3)
	w.record(acquire, "a shard was deleted", func() { w.acquireUntilWhole("user", 4) })
	w.remove("user", 3)
	w.remove("user", 1)
	w.record(acquire, "a shard and its sibling were deleted", func() { w.acquireUntilWhole("user", 4) })
	w.merge("user")
	w.record(acquire, "the bucket was merged meanwhile", func() {
		for range 10 {
			w.acquire(w.Limiter, "user", 1)
		}
	})
}

// throttled has an acquire that doubles the bucket, because its writes run out or its
// partition is throttled.
func throttled(w *world) {
	w.System(limiter.PerHour("rph", 360_000))
	w.acquire(w.Limiter, "user", 1)
	w.record(acquire, "the writes of the bucket run out", func() {
		ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range 4 {
			l := w.NewLimiter(calls{w.Store}, limiter.Options{InFlight: -1})
			all.Go(func() {
				for range 400 {
					lease, err := l.Acquire(ctx, testbed.Ask("user", "rph", 1))
					if err == nil {
						w.Check(lease.Commit(ctx))
					}
				}
			})
		}
		all.Wait()
	})
	if n := len(w.Images("user")); n < 2 {
		w.Errorf("%d shards, the writes did not run out", n)
	}
	w.acquire(w.Limiter, "hot", 1)
	w.record(acquire, "the partition is throttled", func() {
		w.disturb.Set(faults.Throttle(func(b limiter.Bucket) error {
			if b.Entity == "hot" && b.Shard == 0 {
				return faults.HotPartition()
			}
			return nil
		}))
		defer w.disturb.Set(nil)
		for range 5 {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			_, _ = w.Acquire(ctx, testbed.Ask("hot", "rph", 1)) // some are turned away
			cancel()
		}
	})
}

// leases has the ends of leases.
func leases(w *world) {
	w.family()
	take := func(entity string, n int64) *limiter.Lease {
		lease, err := w.Acquire(w.Context(), testbed.Ask(entity, "rph", n))
		w.Must(err)
		return lease
	}
	settle := func(call, name, entity string, n, delta int64, end func(*limiter.Lease) error) {
		lease := take(entity, n)
		w.Must(lease.Adjust("rph", delta))
		w.record(call, name, func() { w.Must(end(lease)) })
	}
	commit := func(l *limiter.Lease) error { return l.Commit(w.Context()) }
	rollback := func(l *limiter.Lease) error { return l.Rollback(w.Context()) }
	settle("Lease.Commit", "nothing was adjusted", "user", 1, 0, commit)
	settle("Lease.Commit", "more was used", "user", 1, 100, commit)
	settle("Lease.Commit", "less was used", "user", 100, -50, commit)
	settle("Lease.Commit", "more was used, with a parent", "key", 1, 100, commit)
	settle("Lease.Take", "one bucket", "user", 1, 0, func(l *limiter.Lease) error { return l.Take(w.Context(), tokens{"rph": 1}) })
	settle("Lease.Take", "with a parent", "key", 1, 0, func(l *limiter.Lease) error { return l.Take(w.Context(), tokens{"rph": 1}) })
	settle("Lease.Release", "one bucket", "user", 2, 0, func(l *limiter.Lease) error { return l.Release(w.Context(), tokens{"rph": 1}) })
	settle("Lease.Release", "with a parent", "key", 2, 0, func(l *limiter.Lease) error { return l.Release(w.Context(), tokens{"rph": 1}) })
	settle("Lease.Rollback", "one bucket", "user", 1, 0, rollback)
	settle("Lease.Rollback", "with a parent", "key", 1, 0, rollback)
	for name, entity := range map[string]string{"one bucket": "user", "with a parent": "key"} {
		w.record("Limiter.Return", name, func() { w.Must(w.Return(w.Context(), testbed.Ask(entity, "rph", 1))) })
	}
	w.record("Limiter.Return", "the first of a process", func() { w.Must(w.limiter().Return(w.Context(), testbed.Ask("user", "rph", 1))) })
	resumed(w, take("key", 1))
	time.Sleep(time.Hour)
	w.double("user")
	w.Limiter = w.limiter()
	settle("Lease.Rollback", "several shards", "user", 3000, 0, rollback)
	w.Limiter = w.limiter()
	settle("Lease.Commit", "less was used, several shards", "user", 3000, -2800, commit)
}

// resumed has the ends of a lease that another process settles, of which the second finds what the first
// did.
func resumed(w *world, lease *limiter.Lease) {
	text, err := lease.Token(w.Context(), time.Minute)
	w.Must(err)
	for _, when := range []string{"first", "again"} {
		l := w.limiter()
		w.record("Lease.Commit", "a resumed lease, "+when, func() {
			lease, err := l.Resume(text)
			w.Must(err)
			w.Must(lease.Settle("rph", 3))
			w.Must(lease.Commit(w.Context()))
		})
	}
}

// questions has the calls that take nothing.
func questions(w *world) {
	w.family()
	both := func(name, entity string) {
		w.record("Limiter.Available", name, func() {
			_, err := w.limiter().Available(w.Context(), testbed.Ask(entity, "rph", 1))
			w.Must(err)
		})
		w.record("Limiter.TimeUntilAvailable", name, func() {
			_, err := w.limiter().TimeUntilAvailable(w.Context(), testbed.Ask(entity, "rph", 1))
			w.Must(err)
		})
		w.record("Limiter.Limits", name, func() { w.Must(errOf(w.limiter().Limits(w.Context(), entity, testbed.Resource))) })
		w.record("Limiter.Standing", name, func() { w.Must(errOf(w.limiter().Standing(w.Context(), entity, testbed.Resource))) })
		w.record("Limiter.Top", name, func() {
			w.Must(errOf(w.limiter().Top(w.Context(), limiter.TopQuery{Resource: testbed.Resource, Most: 1})))
		})
		w.record("Limiter.TopSlots", name, func() {
			w.Must(errOf(w.limiter().TopSlots(w.Context(), limiter.TopQuery{Resource: testbed.Resource, Most: 1})))
		})
	}
	both("there is no bucket", "key")
	w.acquire(w.Limiter, "key", 1)
	both("with a parent", "key")
	w.double("user")
	both("several shards", "user")
	w.record("Limiter.Do", "the work succeeds", func() {
		w.Must(w.limiter().Do(w.Context(), testbed.Ask("key", "rph", 1), func(context.Context, *limiter.Lease) error { return nil }))
	})
	w.record("Limiter.Do", "the work fails", func() {
		failed := errors.New("failed")
		if err := w.limiter().Do(w.Context(), testbed.Ask("key", "rph", 1), func(context.Context, *limiter.Lease) error { return failed }); !errors.Is(err, failed) {
			w.Errorf("do: %v", err)
		}
	})
}
