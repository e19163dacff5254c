package compare_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/compare"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/resulttest"
	"github.com/zeroae/zae-limiter-go/store"
)

// steady is a run of a minute with enough operations for p99.9.
func steady(seed uint64) resulttest.Run {
	return resulttest.Run{Seed: seed, Noise: 0.05, Correlation: 0.5, Classes: []resulttest.Class{{Name: "Users", Rate: 500, Refused: 0.1}}}
}

// mustCompare compares two results with the default threshold.
func mustCompare(t *testing.T, a, b *result.Result) *compare.Comparison {
	t.Helper()
	c, err := compare.Compare(a, b, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// find returns the row of a metric; there is one side, phase and class.
func find(t *testing.T, c *compare.Comparison, metric compare.Metric) compare.Row {
	t.Helper()
	i := slices.IndexFunc(c.Rows, func(r compare.Row) bool { return r.Metric == metric })
	if i < 0 {
		t.Fatalf("there is no row of %s", metric)
	}
	return c.Rows[i]
}

// warned reports whether a warning contains a text.
func warned(c *compare.Comparison, text string) bool {
	return slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, text) })
}

// A change of every figure by 30 % is found, and has the right direction.
func TestAChangeIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*resulttest.Run)
		metric compare.Metric
		want   compare.Change
		ratio  float64
	}{
		{"slower", func(r *resulttest.Run) { r.Sides = []resulttest.Side{{Name: "limiter", Slower: 1.3}} }, compare.P50, compare.Worse, 1.3},
		{"slower", func(r *resulttest.Run) { r.Sides = []resulttest.Side{{Name: "limiter", Slower: 1.3}} }, compare.P99, compare.Worse, 1.3},
		{"slower", func(r *resulttest.Run) { r.Sides = []resulttest.Side{{Name: "limiter", Slower: 1.3}} }, compare.P999, compare.Worse, 1.3},
		{"faster", func(r *resulttest.Run) { r.Sides = []resulttest.Side{{Name: "limiter", Slower: 0.7}} }, compare.P99, compare.Better, 0.7},
		{"fewer", func(r *resulttest.Run) { r.Classes[0].Rate = 350 }, compare.OperationsPerSecond, compare.Worse, 0.7},
		{"more", func(r *resulttest.Run) { r.Classes[0].Rate = 650 }, compare.OperationsPerSecond, compare.Better, 1.3},
		{"dearer", func(r *resulttest.Run) { r.Classes[0].Writes = 1.3 }, compare.WCUPerOperation, compare.Worse, 1.3},
		{"dearer", func(r *resulttest.Run) { r.Classes[0].Writes = 1.3 }, compare.DollarsPerMillion, compare.Worse, 1.3},
		{"cheaper", func(r *resulttest.Run) { r.Classes[0].Writes = 0.7 }, compare.WCUPerOperation, compare.Better, 0.7},
		{"refused", func(r *resulttest.Run) { r.Classes[0].Refused = 0.2 }, compare.RefusedShare, compare.Differs, 2},
		{"equal", func(*resulttest.Run) {}, compare.RequestsPerOperation, compare.Same, 1},
	} {
		t.Run(tt.name+" "+string(tt.metric), func(t *testing.T) {
			t.Parallel()
			b := steady(2)
			tt.change(&b)
			c := mustCompare(t, resulttest.New(steady(1)), resulttest.New(b))
			row := find(t, c, tt.metric)
			if row.Change != tt.want {
				t.Errorf("%+v, want %s", row, tt.want)
			}
			if math.Abs(float64(row.Ratio)/tt.ratio-1) > 0.1 || (row.P < 0.01) != (tt.want != compare.Same) {
				t.Errorf("the ratio is %.3f (p = %.3f), want about %.1f", row.Ratio, row.P, tt.ratio)
			}
			if got := c.Verdict == compare.Regression; got != (tt.want == compare.Worse) {
				t.Errorf("the verdict is %s: %q", c.Verdict, c.Regressions)
			}
		})
	}
}

// A change is a regression only beyond the threshold.
func TestTheThreshold(t *testing.T) {
	t.Parallel()
	b := steady(2)
	b.Sides = []resulttest.Side{{Name: "limiter", Slower: 1.3}}
	first, second := resulttest.New(steady(1)), resulttest.New(b)
	for threshold, want := range map[float64]compare.Change{0.01: compare.Worse, 0.2: compare.Worse, 0.5: compare.Same} {
		c, err := compare.Compare(first, second, compare.Options{Threshold: threshold})
		if err != nil {
			t.Fatal(err)
		}
		if row := find(t, c, compare.P50); row.Change != want {
			t.Errorf("with a threshold of %v: %+v, want %s", threshold, row, want)
		}
	}
	for _, threshold := range []float64{-0.1, 1, math.NaN(), math.Inf(1)} {
		_, err := compare.Compare(first, second, compare.Options{Threshold: threshold})
		if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Field != "threshold" {
			t.Errorf("with a threshold of %v: %v", threshold, err)
		}
	}
}

// Errors that appear have no ratio, but a p-value: a few are not a regression.
func TestErrorsThatAppear(t *testing.T) {
	t.Parallel()
	for errs, want := range map[int64]compare.Change{1: compare.Unclear, 300: compare.Worse} {
		a, b := resulttest.New(steady(1)), resulttest.New(steady(1))
		answers := &b.Sides[0].Phases[0].Classes[0].Answers
		answers.Throttled, answers.Admitted, answers.FirstError = errs, answers.Admitted-errs, "acquire: throttled"
		for i := range errs {
			b.Sides[0].Samples[i%60].Throttled++
		}
		c := mustCompare(t, a, b)
		row := find(t, c, compare.ErrorShare)
		if row.Change != want || row.Ratio.Known() || !row.P.Known() {
			t.Errorf("%d errors: %+v, want %s", errs, row, want)
		}
		if !warned(c, "errors appear") || !warned(c, "acquire: throttled") {
			t.Errorf("%d errors: %q", errs, c.Warnings)
		}
		back := find(t, mustCompare(t, b, a), compare.ErrorShare)
		if errs == 300 && (back.Change != compare.Better || back.Ratio != 0) {
			t.Errorf("%d errors disappear: %+v", errs, back)
		}
	}
	if c := mustCompare(t, resulttest.New(steady(1)), resulttest.New(steady(2))); slices.ContainsFunc(c.Rows, func(r compare.Row) bool { return r.Metric == compare.ErrorShare }) {
		t.Error("without errors, there is a row of errors")
	}
}

// Wrong answers that appear are a regression, however few.
func TestWrongAnswersThatAppear(t *testing.T) {
	t.Parallel()
	right, wrong, unbalanced := resulttest.New(steady(1)), resulttest.New(steady(1)), resulttest.New(steady(1))
	wrong.Sides[0].Wrong.Beyond = 1
	unbalanced.Sides[0].Balance.Wrong = 1
	for _, b := range []*result.Result{wrong, unbalanced} {
		if c := mustCompare(t, right, b); c.Verdict != compare.Regression || len(c.Regressions) != 1 {
			t.Errorf("%s: %q", c.Verdict, c.Regressions)
		}
		if c := mustCompare(t, b, right); c.Verdict != compare.NoRegression || !warned(c, "A has wrong answers") {
			t.Errorf("%s: %q", c.Verdict, c.Warnings)
		}
		if c := mustCompare(t, b, b); c.Verdict != compare.NoRegression || !warned(c, "both runs have wrong answers") {
			t.Errorf("%s: %q", c.Verdict, c.Warnings)
		}
	}
}

// What restricts a comparison is said.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*result.Result){
		"B was interrupted":                       func(r *result.Result) { r.Interrupted = true },
		"figures of B are not those":              func(r *result.Result) { r.Unreliable = "it was late" },
		"differ in the seed: 7 in A, 8 in B":      func(r *result.Result) { r.Seed = 8 },
		"differ in the target":                    func(r *result.Result) { r.Target = "DynamoDB at AWS" },
		"differ in the machine":                   func(r *result.Result) { r.Machine = "darwin/arm64" },
		"differ in the number of limiters":        func(r *result.Result) { r.Limiters = 9 },
		"differ in the table of prices":           func(r *result.Result) { r.Prices = "eu-west-1" },
		"has another load: ":                      func(r *result.Result) { r.Sides[0].Phases[0].Classes[0].Due *= 2 },
		"Side shared is in B only":                func(r *result.Result) { r.Sides = append(r.Sides, result.Side{Name: "shared"}) },
		"Phase late of side limiter is in B only": func(r *result.Result) { r.Sides[0].Phases = append(r.Sides[0].Phases, result.Phase{Name: "late"}) },
		"Class Whale of phase all of side limiter is in B only": func(r *result.Result) {
			r.Sides[0].Phases[0].Classes = append(r.Sides[0].Phases[0].Classes, result.Class{Name: "Whale"})
		},
	} {
		a, b := resulttest.New(steady(1)), resulttest.New(steady(1))
		b.Started = b.Started.Add(time.Hour)
		change(b)
		if c := mustCompare(t, a, b); !warned(c, want) || len(c.Warnings) != 1 {
			t.Errorf("%q, want %q", c.Warnings, want)
		}
		if mirrored, ok := strings.CutSuffix(want, "B only"); ok {
			if c := mustCompare(t, b, a); !warned(c, mirrored+"A only") {
				t.Errorf("%q, want %q", c.Warnings, mirrored+"A only")
			}
		}
	}
	a, b := resulttest.New(steady(1)), resulttest.New(steady(2))
	b.Started = b.Started.Add(time.Hour)
	if c := mustCompare(t, a, b); len(c.Warnings) > 0 {
		t.Errorf("two runs alike: %q", c.Warnings)
	}
	if c := mustCompare(t, a, a); !warned(c, "A and B are the same run") {
		t.Errorf("one run twice: %q", c.Warnings)
	}
}

// Runs without anything in common are refused.
func TestIncomparable(t *testing.T) {
	t.Parallel()
	a := resulttest.New(steady(1))
	for want, change := range map[string]func(*resulttest.Run){
		`A is of scenario "gateway", and B of "other"`: func(r *resulttest.Run) { r.Scenario = "other" },
		"no side, phase and class of the same name":    func(r *resulttest.Run) { r.Sides = []resulttest.Side{{Name: "bare"}} },
	} {
		run := steady(2)
		change(&run)
		_, err := compare.Compare(a, resulttest.New(run), compare.Options{})
		if !errors.Is(err, compare.ErrIncomparable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A short run has figures and ratios, but no judgement.
func TestTooShort(t *testing.T) {
	t.Parallel()
	short, other := steady(1), steady(2)
	short.Phases, other.Phases = []resulttest.Phase{{Name: "all", Seconds: 7}}, []resulttest.Phase{{Name: "all", Seconds: 60}}
	c := mustCompare(t, resulttest.New(short), resulttest.New(other))
	for _, r := range c.Rows {
		if r.Change != compare.TooShort && r.Change != compare.TooFew || r.P.Known() || !r.Ratio.Known() {
			t.Errorf("%+v", r)
		}
	}
	if c.Verdict != compare.Undecided || !warned(c, "at least 8 s") {
		t.Errorf("%s: %q", c.Verdict, c.Warnings)
	}
	short.Phases[0].Seconds = 8
	if c := mustCompare(t, resulttest.New(short), resulttest.New(other)); find(t, c, compare.OperationsPerSecond).Change == compare.TooShort {
		t.Error("8 s are too short")
	}
}

// Quantiles need operations above them.
func TestTooFew(t *testing.T) {
	t.Parallel()
	few := func(seed uint64) *result.Result {
		run := steady(seed)
		run.Classes[0].Rate = 30 // 1,800 operations
		return resulttest.New(run)
	}
	c := mustCompare(t, few(1), few(2))
	if r := find(t, c, compare.P50); !r.P.Known() {
		t.Errorf("%+v", r)
	}
	for _, metric := range []compare.Metric{compare.P99, compare.P999} {
		if r := find(t, c, metric); r.Change != compare.TooFew || r.P.Known() {
			t.Errorf("%+v", r)
		}
	}
}

// A stall of some seconds changes a quantile of the whole phase. It is one batch of many, so
// chance may explain it.
func TestAStallIsUnclear(t *testing.T) {
	t.Parallel()
	a, b := resulttest.New(steady(1)), resulttest.New(steady(2))
	b.Sides[0].Phases[0].Classes[0].Latency.P99 *= 50
	for i := range 3 {
		b.Sides[0].Samples[i].P99 *= 100
	}
	if c := mustCompare(t, a, b); find(t, c, compare.P99).Change != compare.Unclear || c.Verdict != compare.NoRegression {
		t.Errorf("%+v", find(t, c, compare.P99))
	}
}

// Of two classes in one phase, the samples of each judge its figures: a change of the smaller
// is found, and the other has none.
func TestAClassAmongOthers(t *testing.T) {
	t.Parallel()
	two := func(seed uint64, slower float64) *result.Result {
		run := steady(seed)
		run.Classes = append(run.Classes, resulttest.Class{Name: "Whale", Rate: 10, Slower: slower})
		return resulttest.New(run)
	}
	c := mustCompare(t, two(1, 1), two(2, 1.3))
	want := map[string]compare.Change{"Users": compare.Same, "Whale": compare.Worse}
	for _, r := range c.Rows {
		if r.Metric == compare.P50 && r.Change != want[r.Class] {
			t.Errorf("%+v, want %s", r, want[r.Class])
		}
	}
	if len(c.Regressions) != 1 || !strings.Contains(c.Regressions[0], "class Whale: latency p50") {
		t.Errorf("%q", c.Regressions)
	}
}

// A run without any operation is a regression by its rate, and gives no NaN.
func TestNoOperations(t *testing.T) {
	t.Parallel()
	none := steady(1)
	none.Classes[0].Rate = 0
	a, b := resulttest.New(steady(1)), resulttest.New(none)
	for i, pair := range [][2]*result.Result{{a, b}, {b, a}} {
		c := mustCompare(t, pair[0], pair[1])
		for _, r := range c.Rows {
			if r.Metric == compare.OperationsPerSecond {
				continue
			}
			if r.Change != compare.TooFew || r.P.Known() {
				t.Errorf("%+v", r)
			}
		}
		if want := []compare.Change{compare.Worse, compare.Better}[i]; find(t, c, compare.OperationsPerSecond).Change != want {
			t.Errorf("%+v, want %s", c.Rows[0], want)
		}
	}
	if _, err := compare.Compare(b, b, compare.Options{}); !errors.Is(err, compare.ErrIncomparable) {
		t.Errorf("nothing is compared with nothing: %v", err)
	}
}

// The lag of the generator is shown without a judgement.
func TestTheLagIsNoRegression(t *testing.T) {
	t.Parallel()
	a, b := resulttest.New(steady(1)), resulttest.New(steady(2))
	for i := range b.Sides[0].Samples {
		b.Sides[0].Samples[i].Lag *= 3
	}
	lag := &b.Sides[0].Phases[0].Classes[0].Lag
	lag.P99 *= 3
	for i := range lag.Histogram {
		lag.Histogram[i].UpTo *= 3
	}
	c := mustCompare(t, a, b)
	if r := find(t, c, compare.Lag); r.Change != compare.Differs || math.Abs(float64(r.Ratio)-3) > 1e-9 {
		t.Errorf("%+v", r)
	}
	if c.Verdict != compare.NoRegression {
		t.Errorf("%s: %q", c.Verdict, c.Regressions)
	}
}

// The same results give the same comparison, and its JSON has no NaN.
func TestJSON(t *testing.T) {
	t.Parallel()
	a, b := resulttest.New(steady(1)), resulttest.New(steady(2))
	b.Sides[0].Phases[0].Classes[0].Answers.Failed = 3
	first, err := json.Marshal(mustCompare(t, a, b))
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(mustCompare(t, a, b))
	if err != nil || string(first) != string(second) {
		t.Errorf("the second comparison differs: %v", err)
	}
	var read compare.Comparison
	if err := json.Unmarshal(first, &read); err != nil {
		t.Fatal(err)
	}
	row := find(t, &read, compare.ErrorShare)
	if row.Ratio.Known() || row.B == 0 || read.Format != compare.Format || read.Threshold != 0.05 || read.Confidence != 0.99 {
		t.Errorf("%+v", row)
	}
	for _, name := range []string{
		`"scenario":"gateway"`, `"verdict":`, `"regressions":[`, `"warnings":[`, `"metric":"p99_ms"`, `"metric":"wcu_per_operation"`,
		`"ratio":null,"p_value":`, `"change":"`, `"side":"limiter","phase":"all","class":"Users"`,
	} {
		if !strings.Contains(string(first), name) {
			t.Errorf("no %s in %s", name, first)
		}
	}
}

// The table has a row for each figure, without empty figures.
func TestTable(t *testing.T) {
	t.Parallel()
	c := mustCompare(t, resulttest.New(steady(1)), resulttest.New(steady(2)))
	header, rows := c.Table()
	if len(rows) != len(c.Rows) {
		t.Fatalf("%d rows, want %d", len(rows), len(c.Rows))
	}
	for i, row := range rows {
		if len(row) != len(header) || row[0] != "limiter" || row[3] == "" || row[4] == "" || row[6] == "" || c.Rows[i].P.Known() != (row[7] != "") {
			t.Errorf("%q", row)
		}
	}
}

// equalRuns are loads of which two runs differ by chance only.
var equalRuns = map[string]resulttest.Run{
	"independent seconds":                {Phases: []resulttest.Phase{{Name: "all", Seconds: 60}}},
	"a short run":                        {Noise: 0.2, Correlation: 0.3, Phases: []resulttest.Phase{{Name: "all", Seconds: 10}}},
	"seconds that depend on one another": {Noise: 0.2, Correlation: 0.6, Phases: []resulttest.Phase{{Name: "all", Seconds: 60}}},
	"a store that stalls":                {Noise: 0.4, Correlation: 0.8, Phases: []resulttest.Phase{{Name: "all", Seconds: 240}}},
	"two classes": {
		Noise: 0.2, Correlation: 0.6, Phases: []resulttest.Phase{{Name: "all", Seconds: 60}},
		Classes: []resulttest.Class{{Name: "Users", Rate: 50, Refused: 0.1, Throttled: 0.01, Lag: 0.1}, {Name: "Whale", Rate: 20, Refused: 0.3, Median: 20, Spread: 0.8}},
	},
	"a ramp": {Noise: 0.1, Correlation: 0.5, Trend: 1.5, Phases: []resulttest.Phase{{Name: "all", Seconds: 60}}},
}

// Few pairs of equal runs are taken for regressions. A test that takes operations or seconds
// for independent fails where seconds depend on one another.
func TestEqualRunsAreNoRegressions(t *testing.T) {
	t.Parallel()
	const pairs, most = 50, 0.1
	for name, run := range equalRuns {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if run.Classes == nil {
				run.Classes = []resulttest.Class{{Name: "Users", Rate: 60, Refused: 0.1, Throttled: 0.01, Lag: 0.1}}
			}
			regressions, beyond, figures := 0, 0, 0
			for i := range pairs {
				a, b := run, run
				a.Seed, b.Seed = uint64(2*i+1), uint64(2*i+2)
				c := mustCompare(t, resulttest.New(a), resulttest.New(b))
				for _, r := range c.Rows {
					if r.P.Known() {
						figures++
					}
					if r.P < 0.01 {
						beyond++
					}
				}
				if c.Verdict == compare.Regression {
					regressions++
				}
			}
			t.Logf("%d of %d pairs are taken for regressions; %d of %d p-values are below 0.01", regressions, pairs, beyond, figures)
			if float64(regressions) > most*pairs || float64(beyond) > 0.03*float64(figures) {
				t.Error("too many")
			}
		})
	}
}
