package promlimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/metrics/promlimit"
	"github.com/zeroae/zae-limiter-go/store"
)

// What only limiters count are metrics, of all limiters that the collector watches, once each.
func TestWatchedLimitersCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, registry := newCollector(t, promlimit.Options{})
		var busy faults.Slot
		w := testbed.New(t, testbed.Options{})
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, busy.Apply)), limiter.Options{})
		if _, there := values(t, registry)["waiting_callers{}"]; there {
			t.Error("nothing is watched, and something counted")
		}
		c.Watch(l, w.Limiter, nil)
		c.Watch(l)
		w.System(limiter.PerHour("rph", 10))
		w.Take(l, ask("key", "rph", 10))

		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := l.Wait(ctx, ask("key", "rph", 1))
			left <- err
		}()
		synctest.Wait()
		w.Take(l, ask("other", "rph", 1))
		busy.Set(faults.Throttle(func(store.Bucket) error { return faults.BusyTable() }))
		for range 5 {
			if _, err := l.Acquire(t.Context(), ask("other", "rph", 1)); !errors.Is(err, limiter.ErrThrottled) {
				t.Errorf("acquired: %v", err)
			}
		}
		got, stats := values(t, registry), l.Stats()
		if stats.Braked == 0 || got["requests_braked_total{}"] != float64(stats.Braked) ||
			got["waiting_callers{}"] != 1 || got["stamps_healed_total{}"] != 0 {
			t.Errorf("the limiter counts %+v, the metrics are %v", stats, got)
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := values(t, registry)["waiting_callers{}"]; got != 0 {
			t.Errorf("%v wait", got)
		}
	})
}

// Slots that requests hold and wait for are summed over entities and limiters. Refusals have labels,
// and so have the slots that are configured for a resource.
func TestMetricsOfSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, registry := newCollector(t, promlimit.Options{})
		w := testbed.New(t, testbed.Options{})
		one := w.NewLimiter(w.Store, limiter.Options{Observer: c})
		two := w.NewLimiter(w.Store, limiter.Options{Observer: c})
		c.Watch(one, two)
		w.Must(w.Store.SetSlots(t.Context(), limiter.ConfigKey{Resource: testbed.Resource}, []limiter.SlotLimit{limiter.Slots("inflight", 3)}, ""))
		holds := func(entity string, n int64) limiter.Request {
			return limiter.Request{Entity: entity, Resource: testbed.Resource, Slots: map[string]int64{"inflight": n}}
		}
		w.Lease(one, holds("a", 2))
		w.Lease(one, holds("b", 3))
		lease := w.Lease(two, holds("a", 1))
		if _, err := two.Acquire(t.Context(), holds("b", 1)); !errors.Is(err, limiter.ErrSlotsFull) {
			t.Errorf("got %v", err)
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := two.Wait(ctx, holds("a", 2))
			left <- err
		}()
		synctest.Wait()
		labels := "{limit=inflight resource=" + testbed.Resource + "}"
		want := map[string]float64{
			"slots_held" + labels: 6, "slots_waiting" + labels: 2, "slots_lost_total{}": 0,
			"slot_refusals_total{bucket=entity limit=inflight resource=" + testbed.Resource + "}": 1,
			"slot_limit_slots{level=resource limit=inflight resource=" + testbed.Resource + "}":   3,
		}
		got := values(t, registry)
		for name, n := range want {
			if v, there := got[name]; !there || v != n {
				t.Errorf("%s is %v (%t), want %v", name, v, there, n)
			}
		}
		leave()
		if err := <-left; !errors.Is(err, limiter.ErrSlotsFull) {
			t.Error(err)
		}
		w.Must(two.Close())
		if got := values(t, registry); got["slots_held"+labels] != 5 || got["slots_lost_total{}"] != 0 { // to close is no loss
			t.Errorf("held %v, lost %v", got["slots_held"+labels], got["slots_lost_total{}"])
		}
		w.Must(lease.Commit(t.Context()))
	})
}

// Two counters have the tokens of lost processes: those that went back, and those that limits keep.
func TestMetricsOfLostProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, registry := newCollector(t, promlimit.Options{})
		w := testbed.New(t, testbed.Options{})
		c.Watch(w.Limiter)
		w.System(limiter.PerDay("tpd", 1000, limiter.Returning(40)), limiter.PerDay("rpd", 1000))
		var gone faults.Slot
		lost := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, gone.Apply)), limiter.Options{})
		req := ask("key", "tpd", 500)
		req.Consume["rpd"] = 10
		w.Lease(lost, req)
		gone.Set(faults.Fail(errors.New("the process is gone")))
		time.Sleep(16 * time.Minute)
		w.Must(w.Lease(w.Limiter, ask("key", "tpd", 1)).Rollback(t.Context()))
		got := values(t, registry)
		for name, want := range map[string]float64{"lost_returned_tokens_total{}": 200, "lost_kept_tokens_total{}": 300} {
			if v, there := got[name]; !there || v != want {
				t.Errorf("%s is %v (%t), want %v", name, v, there, want)
			}
		}
	})
}
