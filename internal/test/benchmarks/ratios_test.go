package benchmarks_test

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// throughClient are the largest ratios of an acquire to the update it sends, if an SDK
// client sends it.
var throughClient = []target{{wallTime, 1.10}, {procTime, 1.15}, {allocs, 1.25}}

// inProcess is the same for an engine that is called directly, where the update costs
// microseconds.
var inProcess = []target{{wallTime, 1.5}}

// TestRatios compares a warm acquire with its update. It times short slices of the two in
// turn, and takes the median of the ratios of neighbours only. So its result is the same on
// a busy machine as on an idle one, but takes longer. A target is missed if the 99 %
// interval of the median lies above it.
//
// Not parallel: other work would be measured too.
func TestRatios(t *testing.T) {
	if raceEnabled {
		t.Fatal("under the race detector ratios say nothing: run without -race")
	}
	for _, c := range []struct {
		engine
		targets []target
	}{
		{embedded, inProcess},
		{loopback, throughClient},
		{lowered, nil}, // reported, without targets
		{local, throughClient},
	} {
		if c.start == nil {
			t.Logf("%s: NOT MEASURED: it takes the build tag conformance", c.name)
			continue
		}
		for _, l := range []load{{limits: 2}, {limits: 2, full: true}} {
			t.Run(fmt.Sprintf("%s/%v", c.name, l), func(t *testing.T) {
				p := newPair(t, c.engine, l)
				report(t, compare(t, c.slice, c.targets, p.acquire, p.update), c.targets)
			})
		}
	}
}

// report prints the measurements and fails the test if a target is missed.
func report(t *testing.T, c *comparison, targets []target) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "per operation\tsubject\tbase\tratio\t99 %% interval\tbase/base\ttarget\t\n")
	for _, q := range []quantity{wallTime, procTime, allocs} {
		if c.perOp(c.base, q) == 0 {
			continue // there is nothing to compare with
		}
		r, noise := ratios(c.subject, c.base, q), ratios(c.control, c.base, q)
		fmt.Fprintf(w, "%s\t%s\t%s\t%.3f\t%.3f – %.3f\t%.3f – %.3f\t", q.name,
			q.format(c.perOp(c.subject, q)), q.format(c.perOp(c.base, q)), r.median, r.low, r.high, noise.low, noise.high)
		for _, target := range targets {
			if target.name != q.name {
				continue
			}
			v := c.verdict(target)
			fmt.Fprintf(w, "≤ %.2f %s", target.most, v)
			if v == missed {
				t.Errorf("%s: %.3f times the update's, want at most %.2f", q.name, r.median, target.most)
			}
		}
		fmt.Fprintf(w, "\t\n")
	}
	_ = w.Flush()
	t.Logf("%d rounds of %d operations\n%s", len(c.base), c.slice, text.String())
}

func (q quantity) format(v float64) string {
	if q.name == allocs.name {
		return fmt.Sprintf("%.1f", v)
	}
	return time.Duration(v).Round(10 * time.Nanosecond).String()
}
