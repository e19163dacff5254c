package loadtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// If the requests of an entity come to one process, they share its memory and its writes: an
// admission costs one write unit or less, and hardly any read. At random ones, processes refuse
// each other's writes, and each reads the configuration of each bucket.
func TestLongRouting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(builtin(t, "routing", 45*time.Second), dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond}})
		r := run(t, o)
		random, sticky := &r.Sides[0], &r.Sides[1]
		for _, side := range []*result.Side{random, sticky} {
			logSide(t, side)
			t.Logf("%s: %+v", side.Name, side.Phases[1].Cost)
			if side.Wrong.Answers() != 0 || side.Balance.Wrong != 0 {
				t.Errorf("%s: %+v, %+v", side.Name, side.Wrong, side.Balance)
			}
		}
		for i, most := range map[string]float64{"busy": 1.05, "calm": 1.01, "hot": 0.8, "tight": 1.2} {
			admitted, writes := answered(sticky, 1, i), population(&sticky.Phases[1], i).Cost.WCU
			if writes > most*admitted {
				t.Errorf("%s: %.0f write units for %.0f admissions, want %.2f for each at most", i, writes, admitted, most)
			}
		}
		if a, b := random.Phases[1].Cost, sticky.Phases[1].Cost; b.WCU > 0.8*a.WCU || b.RCU > 0.2*a.RCU {
			t.Errorf("sticky %+v, at random %+v", b, a)
		}
	})
}

// answered is how many operations of a class were admitted in a phase of a side.
func answered(side *result.Side, phase int, class string) float64 {
	for i := range side.Phases[phase].Classes {
		if c := &side.Phases[phase].Classes[i]; c.Name == class {
			return float64(c.Answers.Admitted)
		}
	}
	return 0
}

// On the side sticky, each bucket is used by one limiter, which makes it before the load. Another
// limiter would have to read it first. Buckets that are exhausted are emptied.
func TestAStickyEntityHasOneLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := builtin(t, "routing", 1500*time.Millisecond)
		s.Sides, s.Phases = s.Sides[1:], s.Phases[1:]
		s.Populations[3].Exhausted = true
		o, _ := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond}})
		r := run(t, o)
		side := &r.Sides[0]
		if got := side.Phases[0].Cost.RCU; got > 10 {
			t.Errorf("the load costs %.0f read units", got)
		}
		if n := answered(side, 0, "tight"); n > 30 { // it earns 20 a second, also while the others are made
			t.Errorf("%.0f of an exhausted bucket were admitted in a second", n)
		}
	})
}
