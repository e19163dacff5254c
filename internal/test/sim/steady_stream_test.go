package sim_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// TestLongNeverStarvedByAnAggregator is promise P2 with aggregators that also refill, by clocks
// of their own: frequent refills lose nothing.
func TestLongNeverStarvedByAnAggregator(t *testing.T) {
	t.Parallel()
	d := demand{
		"with two aggregators", []limiter.Limit{
			limiter.PerSecond("rps", 1, limiter.Burst(10)), limiter.PerDay("daily", 10), limiter.Custom("odd", 7, 13*time.Second, limiter.Burst(20)),
		}, 20 * time.Minute, 0, false, 2,
	}
	for _, off := range d.starved(d.admit(t, 1, breakage{})) {
		t.Error("P2:", off)
	}
	d.name = "with two that round"
	rounds := breakage{tender: func(s limiter.Store) limiter.Store { return rounding{s} }}
	if off := d.starved(d.admit(t, 1, rounds)); len(off) == 0 {
		t.Error("aggregators that credit whole tokens only are not reported as starving")
	}
}
