package aggregator_test

import (
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/dated"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A result says how many stamps its batch moved back, and how many refills it did not send to
// items that the table throttled. Each is in one result.
func TestAResultCountsWhatKeepersHealAndBrake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := testbed.NewEngine(t, dynamolite.Options{})
		server := &dated.Server{
			Handler: dynamolite.NewHandler(engine, dynamolite.HandlerOptions{}), Date: func(int) time.Time { return time.Now() },
		}
		var busy faults.Slot
		w := newWorldOn(t, testbed.Options{API: faults.Wrap(server.Client(), busy.Apply)}, engine)
		w.System(limiter.PerMinute("rpm", 90_000))
		use := func() {
			if refused := w.Take(w.Limiter, ask("user", "rpm", 50_000)); refused != nil {
				t.Fatal(refused)
			}
			time.Sleep(8 * time.Second)
		}
		use()
		if res := w.process(w.drain()); res.Refills != 1 || res.Healed != 0 {
			t.Errorf("at first: %+v", res)
		}
		time.Sleep(time.Minute)
		use()
		w.set("user", 0, map[string]int64{"rf": time.Now().Add(2 * time.Hour).UnixMilli()})
		if res := w.process(w.drain()); res.Healed != 1 || res.Braked != 0 {
			t.Errorf("a stamp two hours ahead: %+v", res)
		}
		if res := w.process(w.drain()); res.Healed != 0 {
			t.Errorf("the batch after it: %+v", res)
		}

		time.Sleep(time.Minute)
		use()
		records := w.drain()
		busy.Set(faults.Throttle(func(store.Bucket) error { return faults.BusyTable() }))
		if res, err := w.aggregator.Process(t.Context(), records); err != nil || res.Errors == 0 || res.Braked != 0 {
			t.Errorf("a busy table: %+v, %v", res, err)
		}
		busy.Set(nil)
		if res := w.process(records); res.Braked != 1 || res.Refills != 0 {
			t.Errorf("just after it: %+v", res)
		}
		if res := w.process(nil); res.Braked != 0 {
			t.Errorf("the batch after it: %+v", res)
		}
	})
}
