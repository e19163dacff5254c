package benchmarks_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// All limits of an entity are in one item: ten cost as much as one, while the item is below
// a kilobyte.
func TestTenLimitsCostWhatOneCosts(t *testing.T) {
	for _, e := range []engine{embedded, local} {
		if e.start == nil {
			t.Logf("%s: NOT MEASURED: it takes the build tag conformance", e.name)
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			want := dynamo.Usage{Requests: 1, WCU: 1}
			for _, l := range []load{{limits: 1}, {limits: 10}} {
				if got := billOfAcquire(t, e, l); got != want {
					t.Errorf("a warm acquire of %d limits costs %+v, want %+v", l.limits, got, want)
				}
			}
		})
	}
}

// billOfAcquire is the cost of a warm acquire.
func billOfAcquire(t *testing.T, e engine, l load) dynamo.Usage {
	t.Helper()
	api, rec := e.start(t, l)
	meter := dynamo.NewMeter(api)
	lim := newLimiter(t, meter)
	var before dynamo.Totals
	for range 2 { // the first reads the bucket
		before = meter.Totals()
		if _, err := lim.Acquire(t.Context(), request(probe, rec.limits, amount)); err != nil {
			t.Fatal(err)
		}
	}
	return meter.Totals().Sub(before).Sum()
}
