package compare_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/compare"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/resulttest"
)

// equalRuns are loads of which two runs differ by chance only.
var equalRuns = []struct {
	name string
	run  resulttest.Run
}{
	{"independent seconds", resulttest.Run{Phases: []resulttest.Phase{{Name: "all", Seconds: 60}}}},
	{"a short run", resulttest.Run{Noise: 0.2, Correlation: 0.3, Phases: []resulttest.Phase{{Name: "all", Seconds: 10}}}},
	{"seconds that depend on one another", resulttest.Run{Noise: 0.2, Correlation: 0.6, Phases: []resulttest.Phase{{Name: "all", Seconds: 60}}}},
	{"a store that stalls", resulttest.Run{Noise: 0.4, Correlation: 0.8, Phases: []resulttest.Phase{{Name: "all", Seconds: 240}}}},
	{"two classes", resulttest.Run{
		Noise: 0.2, Correlation: 0.6, Phases: []resulttest.Phase{{Name: "all", Seconds: 60}},
		Classes: []resulttest.Class{{Name: "Users", Rate: 50, Refused: 0.1, Throttled: 0.01, Lag: 0.1}, {Name: "Whale", Rate: 20, Refused: 0.3, Median: 20, Spread: 0.8}},
	}},
	{"a ramp", resulttest.Run{Noise: 0.1, Correlation: 0.5, Trend: 1.5, Phases: []resulttest.Phase{{Name: "all", Seconds: 60}}}},
}

// The interval of two runs of the same load contains 1 in about 95 % of the cases. Intervals
// that take operations or seconds for independent fail where seconds depend on one another.
func TestLongTheIntervalsContainOne(t *testing.T) {
	t.Parallel()
	for _, tt := range equalRuns {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			most := 0.99
			if len(tt.run.Classes) > 1 {
				most = 1 // they are wider than necessary
			}
			covers(t, tt.run, 1000, 0.9, most)
		})
	}
}

// The same with few pairs, for every run of the tests.
func TestMostIntervalsContainOne(t *testing.T) {
	t.Parallel()
	covers(t, equalRuns[2].run, 60, 0.8, 1)
}

// covers simulates pairs of runs, and requires that a share of the intervals of each metric
// contains 1.
func covers(t *testing.T, run resulttest.Run, pairs int, least, most float64) {
	t.Helper()
	if run.Classes == nil {
		run.Classes = []resulttest.Class{{Name: "Users", Rate: 60, Refused: 0.1, Throttled: 0.01, Lag: 0.1}}
	}
	type place struct {
		class  string
		metric compare.Metric
	}
	held, of, regressions := map[place]int{}, map[place]int{}, 0
	for i := range pairs {
		a, b := run, run
		a.Seed, b.Seed = uint64(2*i+1), uint64(2*i+2)
		c, err := compare.Compare(resulttest.New(a), resulttest.New(b), compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Rows {
			if !r.Low.Known() {
				continue
			}
			at := place{r.Class, r.Metric}
			of[at]++
			if r.Low <= 1 && 1 <= r.High {
				held[at]++
			}
		}
		if c.Verdict == compare.Regression {
			regressions++
		}
	}
	for m, n := range of {
		share := float64(held[m]) / float64(n)
		t.Logf("%-34v %5d intervals, %.1f %% contain 1", m, n, 100*share)
		if n >= pairs/10 && (share < least || share > most) {
			t.Errorf("%.1f %% of the intervals of %v contain 1, want from %.0f %% to %.1f %%", 100*share, m, 100*least, 100*most)
		}
	}
	if len(of) < 7 {
		t.Errorf("only %d metrics have intervals", len(of))
	}
	t.Logf("%d of %d pairs are taken for regressions", regressions, pairs)
	if regressions > pairs/10 {
		t.Errorf("%d of %d pairs of equal runs are taken for regressions", regressions, pairs)
	}
}
