package acquire_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

func TestTheFirstLevelWithLimitsHoldsWhole(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		levels := []struct {
			key limiter.ConfigKey
			cap int64
		}{
			{limiter.ConfigKey{}, 10},
			{limiter.ConfigKey{Resource: "gpt-4"}, 20},
			{limiter.ConfigKey{Entity: "user", Resource: limiter.DefaultResource}, 30},
			{limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, 40},
		}
		for _, level := range levels {
			w.Must(w.Store.SetLimits(w.Context(), level.key, []limiter.Limit{limiter.PerHour("rph", level.cap)}))
			statuses, err := w.Available(w.Context(), ask("user", "rph", 0))
			w.Must(err)
			if got := statuses[0].Limit.Capacity; got != level.cap {
				w.Errorf("with %+v set, the capacity is %d, want %d", level.key, got, level.cap)
			}
		}
		for i := len(levels) - 1; i > 0; i-- {
			w.Must(w.Store.DeleteLimits(w.Context(), levels[i].key))
			statuses, err := w.Available(w.Context(), ask("user", "rph", 0))
			w.Must(err)
			if got := statuses[0].Limit.Capacity; got != levels[i-1].cap {
				w.Errorf("with %+v deleted, the capacity is %d, want %d", levels[i].key, got, levels[i-1].cap)
			}
		}
	})
}

func TestConfigurationIsReadOncePerTTL(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 1000))
		for range 100 {
			w.Take(w.Limiter, ask("user", "rph", 1))
		}
		driverOf(w.Limiter).Settle()
		if got := w.Meter.Totals()["BatchGetItem"].Requests; got > 3 { // open, create, and the comparison that followed the change
			w.Errorf("%d reads", got)
		}
		stats := w.Stats()
		if stats.Config.Size == 0 || stats.Config.Misses == 0 || stats.Config.TTL != limiter.DefaultConfigTTL || stats.Buckets != 1 {
			w.Errorf("stats: %+v", stats)
		}
		before := w.Meter.Totals()
		const ttls = 10
		w.admitted(w.Limiter, ask("user", "rph", 1), time.Second, ttls*limiter.DefaultConfigTTL)
		if got := w.Meter.Totals().Sub(before)["BatchGetItem"].Requests; got < ttls-1 || got > ttls*3/2 {
			w.Errorf("%d reads in %d times to live", got, ttls)
		}
	})
}

func TestInvalidationIsSeenByTheNextAcquire(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 5))
		w.Take(w.Limiter, ask("user", "rph", 5))
		w.Must(w.OpenOn(w.Engine).SetSystem(w.Context(), []limiter.Limit{limiter.PerHour("rph", 3600)}, ""))
		w.InvalidateConfig()
		refused := w.Take(w.Limiter, ask("user", "rph", 1))
		if refused == nil || refused.Statuses[0].Limit.Capacity != 3600 {
			w.Errorf("got %v, want a refusal that quotes 3600", refused)
		}
	})
}

func TestWithoutACacheEveryAcquireReads(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: -1}, func(w *world) {
		w.System(limiter.PerHour("rph", 5))
		w.Take(w.Limiter, ask("user", "rph", 1))
		w.Must(w.OpenOn(w.Engine).SetSystem(w.Context(), []limiter.Limit{limiter.PerHour("rph", 2)}, ""))
		if w.Take(w.Limiter, ask("user", "rph", 3)) == nil {
			w.Error("3 of 2 were served")
		}
		w.holds("user", "rph", 2)
	})
}

// A bucket with limits of the entity's own does not expire. Other buckets expire when
// idle.
func TestExpiryFollowsTheLevel(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		expires := func(want bool) {
			w.Helper()
			w.Take(w.Limiter, ask("user", "rph", 1))
			driverOf(w.Limiter).Settle()
			if _, ok := w.item()["ttl"]; ok != want {
				w.Errorf("expires: %t, want %t", ok, want)
			}
		}
		w.System(limiter.PerHour("rph", 100))
		expires(true)
		own := limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}
		w.Must(w.Store.SetLimits(w.Context(), own, []limiter.Limit{limiter.PerHour("rph", 100)}))
		expires(false)
		w.Must(w.Store.DeleteLimits(w.Context(), own))
		expires(true)
	})
}

// A bucket also expires if its lifetime is longer than can be counted. It is then as
// configured, so a comparison does not write it again.
func TestALifeBeyondCountingExpires(t *testing.T) {
	const century = 36_525 * 24 * 60 * 60
	for _, limit := range []limiter.Limit{
		limiter.PerMinute("long", 5, limiter.Burst(1_000_000_000_000)), // a thousand times the time to fill is too much
		limiter.PerDay("longer", 1, limiter.Burst(limiter.MaxTokens)),  // the time to fill is too much
	} {
		t.Run(limit.Name, func(t *testing.T) {
			inWorld(t, limiter.Options{TTLMultiplier: 1000}, func(w *world) {
				w.System(limit)
				w.Take(w.Limiter, ask("user", limit.Name, 1))
				driverOf(w.Limiter).Settle()
				item := w.item()
				if at, ok := schema.Plain(item["ttl"]).(int64); !ok || at < time.Now().Unix()+century {
					w.Errorf("it expires at %d", at)
				}
				if writes := schema.Plain(item["b_wcu_tc"]); writes != int64(1000) {
					w.Errorf("it was written %v/1000 times, want once", writes)
				}
			})
		})
	}
}

// The entity's parent is part of the bucket's owner, so a comparison also finds a
// parent that was set later.
func TestAParentGivenLaterIsFollowed(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100))
		w.Take(w.Limiter, ask("key", "rph", 1)) // the entity has no record yet
		w.Entities(limiter.Entity{ID: "project"}, child("key", "project"))
		w.admitted(w.Limiter, ask("key", "rph", 1), time.Second, limiter.DefaultConfigTTL)
		before := w.Balance("project", "rph")
		w.Take(w.Limiter, ask("key", "rph", 1))
		if got := w.Balance("project", "rph"); got != before-1 {
			w.Errorf("the project went from %d to %d", before, got)
		}
	})
}

// A read of configuration that a change overtook is not remembered. With peer defect
// 7.11, the outdated configuration stays in use for a whole time to live.
func TestAReadThatAChangeOvertookIsNotKept(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		slow := faults.NewTap(w.Engine)
		store := w.OpenOn(slow)
		l := w.NewLimiter(store, limiter.Options{})
		slow.Set(faults.On(faults.Delay(0, time.Second), faults.BatchGetItem))
		first := make(chan *limiter.ExceededError)
		go func() { first <- w.Take(l, ask("user", "rph", 1)) }()
		time.Sleep(time.Second / 2) // the old limits were read and are on their way
		slow.Set(nil)
		w.Must(store.SetSystem(w.Context(), []limiter.Limit{limiter.PerHour("rph", 20)}, ""))
		if refused := w.Take(l, ask("other", "rph", 20)); refused != nil {
			w.Errorf("after the change: %v", refused)
		}
		if refused := <-first; refused != nil {
			w.Error(refused)
		}
		if refused := w.Take(l, ask("third", "rph", 20)); refused != nil {
			w.Errorf("after both: %v", refused)
		}
	})
}
