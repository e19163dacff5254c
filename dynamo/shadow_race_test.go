package dynamo_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// The races of limits in shadow of ADR 062, one test each.

var inShadow = limiter.PerHour("rph", 10, limiter.InShadow(0))

// inShadowWorld has a bucket of a limit in shadow with 3 of 10 tokens, and a limiter that writes
// through a tap.
func inShadowWorld(t *testing.T, f func(w *testbed.World, slow *faults.Tap, l *limiter.Limiter)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := testbed.New(t, testbed.Options{})
		fixture.SetLimits(t, w.Store, userOfBed, []store.Limit{inShadow})
		slow := faults.NewTap(w.API)
		l := w.NewLimiter(w.OpenOn(slow), limiter.Options{})
		w.Serve(l, testbed.Ask("user", "rph", 7))
		f(w, slow, l)
	})
}

// stateOf is the limit on the only item of the bucket.
func stateOf(w *testbed.World) store.LimitState {
	w.Helper()
	images := w.Images("user")
	if len(images) != 1 {
		w.Fatalf("%d shards", len(images))
	}
	return images[0].Limits[0]
}

// has compares what a limit holds, has counted, and would have refused, in tokens.
func has(w *testbed.World, held, counted, refused int64) {
	w.Helper()
	s := stateOf(w)
	if s.Tokens != held*1000 || s.Consumed != counted*1000 || s.Observed().Shadowed != refused*1000 {
		w.Errorf("%+v, %+v: want %d held, %d counted and %d refused", s, s.Observed(), held, counted, refused)
	}
}

// A warm acquire is one write of one unit, whether the limit would refuse it or not.
func TestALimitInShadowCostsNothing(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		for _, amount := range []int64{1, 5, 2, 1, 1} {
			if n, units := writesOf(w, func() { w.Serve(l, testbed.Ask("user", "rph", amount)) }); n != 1 || units != 1 {
				t.Errorf("%d tokens: %d requests, %v units", amount, n, units)
			}
		}
		has(w, 0, 17, 7)
	})
}

// What would have been refused moves no balance when it is returned or settled, either.
func TestAShadowedAmountReturnsToNoBalance(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		for used, counted := range []int64{7, 8, 10} {
			lease := w.Lease(l, testbed.Ask("user", "rph", 4))
			if would := lease.WouldRefuse(); len(would) != 1 || would[0].Available != 3 || would[0].RetryAfter != 0 || would[0].Exceeded {
				t.Errorf("%+v", would)
			}
			w.Must(lease.Settle("rph", int64(used)))
			w.Must(lease.Commit(w.Context()))
			has(w, 3, counted, 4*int64(used+1))
		}
		lease := w.Lease(l, testbed.Ask("user", "rph", 2)) // this one is debited
		w.Must(lease.Rollback(w.Context()))
		has(w, 3, 10, 12)
	})
}

// A count that was planned in shadow does not land on an enforced limit.
func TestACountUnderWayMeetsAnEnforcedLimit(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, slow *faults.Tap, l *limiter.Limiter) {
		slow.Set(once(is("UpdateItem"), func() { fixture.SetLimits(t, w.Store, userOfBed, []store.Limit{hard}) }))
		if refused := w.Take(l, testbed.Ask("user", "rph", 4)); refused == nil {
			t.Error("an enforced limit admits 4 of 3 tokens")
		}
		has(w, 3, 7, 0)
	})
}

// A process that still believes in an enforced limit is refused by its memory only; one that asks meets
// the shadow.
func TestARequestUnderWayMeetsALimitInShadow(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, slow *faults.Tap, l *limiter.Limiter) {
		fixture.SetLimits(t, w.Store, userOfBed, []store.Limit{hard})
		w.Serve(l, testbed.Ask("user", "rph", 1))
		slow.Set(once(is("UpdateItem"), func() { fixture.SetLimits(t, w.Store, userOfBed, []store.Limit{inShadow}) }))
		w.Serve(l, testbed.Ask("user", "rph", 2))
		w.Serve(l, testbed.Ask("user", "rph", 1))
		has(w, 0, 11, 1)
	})
}

// Enforcement begins with the balance of the shadow, and with none if that owes something. No edit
// fills the bucket.
func TestEnforcementBeginsWithTheBalance(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		edit := func(limits ...store.Limit) { fixture.SetLimits(t, w.Store, userOfBed, limits) }
		off := limiter.PerHour("rph", 10, limiter.SwitchedOff())
		for range 3 {
			for _, to := range []store.Limit{hard, inShadow, off, inShadow, hard} {
				edit(to)
			}
			has(w, 3, 7, 0)
		}
		edit(inShadow)
		lease := w.Lease(l, testbed.Ask("user", "rph", 1))
		w.Must(lease.Settle("rph", 9))
		w.Must(lease.Commit(w.Context()))
		has(w, -6, 16, 0)
		edit(softly)
		has(w, -6, 16, 0)
		edit(inShadow)
		edit(hard)
		has(w, 0, 16, 0)
		if refused := w.Take(l, testbed.Ask("user", "rph", 1)); refused == nil || refused.RetryAfter() != 6*time.Minute {
			t.Errorf("enforcement begins with %v", refused)
		}
	})
}

// A debit in between makes an end of the shadow look again: it forgives what it sees, and no more.
func TestEnforcementMeetsADebit(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, slow *faults.Tap, l *limiter.Limiter) {
		lease := w.Lease(l, testbed.Ask("user", "rph", 4)) // counted
		patchBucket(t, w, schema.Item{"b_rph_tk": schema.N(-5_000)})
		slow.Set(once(is("UpdateItem"), func() { patchBucket(t, w, schema.Item{"b_rph_tk": schema.N(-7_000)}) }))
		w.Must(w.OpenOn(slow).SetLimits(w.Context(), userOfBed, []store.Limit{hard}))
		has(w, 0, 11, 0)
		w.Must(lease.Rollback(w.Context()))
		has(w, 0, 7, 0)
	})
}

// Processes that all see the last tokens debit them all; none leads the balance below one capacity.
func TestAShadowOwesOneCapacityAtMost(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, slow *faults.Tap, l *limiter.Limiter) {
		slow.Set(once(is("UpdateItem"), func() { patchBucket(t, w, schema.Item{"b_rph_tk": schema.N(-8_000)}) }))
		w.Serve(l, testbed.Ask("user", "rph", 3)) // would owe 11
		has(w, -8, 10, 3)
		patchBucket(t, w, schema.Item{"b_rph_tk": schema.N(-900_000)}) // a Python client debits at any balance
		s := stateOf(w)
		time.Sleep(time.Until(time.UnixMilli(s.SoftUntil())) + time.Millisecond)
		w.Serve(l, testbed.Ask("user", "rph", 1))
		time.Sleep(time.Minute) // this image is fresh
		w.Serve(l, testbed.Ask("user", "rph", 1))
		has(w, -10, 12, 5)
	})
}

// A limit that is off counts, refuses nobody and says nothing. Its balance goes on.
func TestALimitThatIsOffCounts(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		fixture.SetLimits(t, w.Store, userOfBed, []store.Limit{limiter.PerHour("rph", 10, limiter.SwitchedOff())})
		time.Sleep(6 * time.Minute)
		for range 3 {
			lease := w.Lease(l, testbed.Ask("user", "rph", 50))
			if s := lease.Statuses()[0]; s.WouldRefuse || s.Exceeded || s.Limit.Mode != limiter.Off || s.Available != 4 {
				t.Errorf("%+v", s)
			}
		}
		if s := stateOf(w); s.Consumed != 157_000 || s.Observed().Shadowed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A doubling and a merge keep the mode, and what was noted.
func TestShardsInShadow(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		w.Serve(l, testbed.Ask("user", "rph", 4))
		keeper := w.NewKeeper(w.Store, process.Options{})
		w.Must(doubleSoft(w, keeper))
		for range 10 {
			w.Serve(l, testbed.Ask("user", "rph", 6)) // more than a shard's share
		}
		for _, img := range w.Images("user") {
			if s := img.Limits[0]; s.Mode() != store.Shadow || s.Tokens < 0 {
				t.Errorf("shard %d: %+v, %+v", img.Shard, s, s.Observed())
			}
		}
		merged, err := keeper.Merge(w.Context(), w.Images("user"))
		if s := stateOf(w); err != nil || !merged || s.Mode() != store.Shadow || s.Observed().Shadowed != 64_000 || s.Tokens != 3_000 {
			t.Errorf("merged %t, %v: %+v, %+v", merged, err, s, s.Observed())
		}
	})
}

// A limit that comes back into shadow has refused nothing in it yet.
func TestTheNoteBeginsAnew(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		w.Serve(l, testbed.Ask("user", "rph", 4))
		has(w, 3, 11, 4)
		for _, next := range []store.Limit{limiter.PerHour("rph", 10, limiter.SwitchedOff()), inShadow} {
			fixture.SetLimits(t, w.Store, userOfBed, []store.Limit{next})
			w.Serve(w.NewLimiter(w.Store, limiter.Options{}), testbed.Ask("user", "rph", 1))
			if s := stateOf(w); s.Mode() != next.Mode || s.Observed().Shadowed != 0 || s.Observed().ShadowedAt != 0 {
				t.Errorf("%v: %+v", next.Mode, s.Observed())
			}
		}
	})
}

// A new bucket decides its first request, too, and what it holds limits no later one.
func TestANewBucketInShadow(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		ask := testbed.Ask("new", "rph", 11)
		ask.Fallback = []limiter.Limit{inShadow}
		lease := w.Lease(l, ask)
		if would := lease.WouldRefuse(); len(would) != 1 || would[0].Available != 10 {
			t.Errorf("%+v", lease.Statuses())
		}
		w.Must(lease.Rollback(w.Context()))
		if s := w.Images("new")[0].Limits[0]; s.Tokens != 10_000 || s.Consumed != 0 || s.Observed().Shadowed != 11_000 {
			t.Errorf("%+v", s)
		}
	})
}

// Part of the entities are enforced, always the same ones, and a larger part includes them.
func TestAPartOfTheEntities(t *testing.T) {
	inShadowWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		refused := map[string]bool{}
		for _, percent := range []int{80, 40, 1} {
			w.System(limiter.PerHour("rph", 10, limiter.InShadow(percent)))
			limits := w.NewLimiter(w.Store, limiter.Options{})
			was, now := len(refused), 0
			for i := range 300 {
				id := fmt.Sprintf("user-%d", i)
				is := w.Take(limits, testbed.Ask(id, "rph", 11)) != nil
				if refused[id] && !is {
					t.Errorf("%s was enforced, and at %d%% in shadow no longer is", id, percent)
				}
				if is {
					refused[id] = true
					now++
				}
			}
			if want := 300 * (100 - percent) / 100; now < want-25 || now > want+25 || now < was {
				t.Errorf("%d%% in shadow: %d of 300 are enforced", percent, now)
			}
		}
		_ = l
	})
}
