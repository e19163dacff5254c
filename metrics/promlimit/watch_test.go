package promlimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

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
