package testbed_test

import (
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A world works in a bubble and outside, on its own engine or on another API, and its
// stores are remote only if the test says so.
func TestAWorldDecides(t *testing.T) {
	t.Parallel()
	try := func(tb testing.TB, o testbed.Options, immediate bool) {
		tb.Helper()
		w := testbed.New(tb, o)
		if w.Store.Immediate() != immediate {
			w.Errorf("immediate: %t", !immediate)
		}
		w.System(limiter.PerHour("rph", 10), limiter.PerHour("tph", 10))
		before := w.Meter.Totals()
		if refused := w.Take(w.Limiter, testbed.AskAll("user", testbed.Tokens{"rph": 8, "tph": 1})); refused != nil {
			w.Error(refused)
		}
		if sum := w.Meter.Totals().Sub(before).Sum(); sum.Requests == 0 {
			w.Error("no requests are counted")
		}
		refused := w.Take(w.NewLimiter(w.OpenOn(w.API), limiter.Options{}), testbed.Ask("user", "rph", 3))
		if refused == nil || w.Balance("user", "rph") != 2 || w.Balance("user", "tph") != 9 || len(w.Images("user")) != 1 {
			w.Errorf("refused %v, %d and %d are left", refused, w.Balance("user", "rph"), w.Balance("user", "tph"))
		}
	}
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	for name, o := range map[string]struct {
		testbed.Options
		immediate bool
	}{
		"in process":      {testbed.Options{}, true},
		"remote":          {testbed.Options{Remote: true}, false},
		"by another time": {testbed.Options{Engine: dynamolite.Options{Now: now}, Table: dynamo.TableOptions{Now: now}, Store: dynamo.Options{Now: now}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, o.Options, o.immediate)
			synctest.Test(t, func(t *testing.T) { try(t, o.Options, o.immediate) })
			o.API = testbed.NewEngine(t, o.Engine)
			try(t, o.Options, o.immediate)
		})
	}
}
