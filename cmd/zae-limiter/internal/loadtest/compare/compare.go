// Package compare compares two results of one scenario. Each figure gets the ratio of B to A, and
// a judgement: it changed if the ratio is beyond a threshold and chance does not explain that.
//
// # Method
//
// The seconds of a run depend on one another: while a store stalls, many operations are slow.
// So neither operations nor seconds are treated as independent. Each phase is split into
// batches of seconds, and a batch gives one value of each figure. The Mann-Whitney U test of
// golang.org/x/perf/benchmath, with which benchstat compares benchmarks, compares the batches of
// A with those of B. It assumes nothing of the distribution, but that batches are independent
// of one another: what disturbs a run lasts less than a batch, which is 10 s in a phase of a
// minute.
//
// The figures themselves are those of the whole phase, as a report shows them.
package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/store"
)

// Format is the version of the JSON form.
const Format = 2

// DefaultThreshold is the threshold of [Options].
const DefaultThreshold = 0.05

// Options say how to compare.
type Options struct {
	// Threshold is how far from 1 a ratio must be to be a change: 0.05 for 5 %. Above 0 and
	// below 1; 0 is [DefaultThreshold].
	Threshold float64
}

// A Run tells apart the runs of a comparison.
type Run struct {
	Version string    `json:"version"`
	Target  string    `json:"target"`  // the DynamoDB that carried the load out
	Machine string    `json:"machine"` // operating system, architecture, number of processors and GOGC
	Started time.Time `json:"started_at"`
	Seed    uint64    `json:"seed"`
}

// A Change is the judgement on one figure.
type Change string

// The changes.
const (
	Worse   Change = "worse"   // a regression
	Better  Change = "better"  // as far beyond the threshold, to the other side
	Same    Change = "same"    // the ratio is within the threshold
	Unclear Change = "unclear" // the ratio is beyond the threshold, which chance may explain
	Differs Change = "differs" // beyond the threshold, where neither side is better
	// These figures are not judged: the phase has too few samples, or there are too few
	// operations.
	TooShort Change = "too short"
	TooFew   Change = "too few"
)

// A Verdict is the judgement on all figures.
type Verdict string

// The verdicts.
const (
	Regression   Verdict = "regression"
	NoRegression Verdict = "no regression"
	Undecided    Verdict = "undecided" // no figure is judged
)

// A Comparison is the result of a comparison of A, the older, with B. Its JSON has stable
// names.
type Comparison struct {
	Format     int     `json:"format"` // version of this form
	Scenario   string  `json:"scenario"`
	A          Run     `json:"a"`          // the first result
	B          Run     `json:"b"`          // the second result
	Threshold  float64 `json:"threshold"`  // smallest change that counts, as a share
	Confidence float64 `json:"confidence"` // confidence of the judgements, as a share: 1 less the highest p-value of a change
	Verdict    Verdict `json:"verdict"`
	// Regressions are sentences, one for each regression. They include wrong answers that
	// appear, which have no threshold.
	Regressions []string `json:"regressions"`
	// Warnings are sentences on what restricts the comparison.
	Warnings []string `json:"warnings"`
	Rows     []Row    `json:"rows"` // one for each metric of each phase
}

// A Row compares one figure.
type Row struct {
	Side  string `json:"side"`            // the side of both results
	Phase string `json:"phase"`           // the phase
	Class string `json:"class,omitempty"` // "" for what the whole phase costs
	// Metric is the name of the figure, with its unit.
	Metric Metric `json:"metric"`
	A      Number `json:"a"` // value of the first result
	B      Number `json:"b"` // value of the second result
	// Ratio is B/A, null if A is 0.
	Ratio Number `json:"ratio"`
	// P is the probability that batches of equal runs differ as much; null if the figure is
	// not judged.
	P      Number `json:"p_value"`
	Change Change `json:"change"` // what the ratio and the p-value say
}

// A Metric is the name of a figure.
type Metric string

// The metrics.
const (
	OperationsPerSecond  Metric = "operations_per_second"
	P50                  Metric = "p50_ms"
	P99                  Metric = "p99_ms"
	P999                 Metric = "p99_9_ms"
	RefusedShare         Metric = "refused_share"
	ErrorShare           Metric = "error_share"
	Lag                  Metric = "generator_lag_p99_ms"
	RequestsPerOperation Metric = "requests_per_operation"
	WCUPerOperation      Metric = "wcu_per_operation"
	RCUPerOperation      Metric = "rcu_per_operation"
	DollarsPerMillion    Metric = "dollars_per_million"
)

// A Number is a figure; NaN and infinity are null in JSON.
type Number float64

// MarshalJSON writes the number, or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads a number; null is NaN.
func (n *Number) UnmarshalJSON(data []byte) error {
	*n = Number(math.NaN())
	if string(data) == "null" {
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// Known reports whether there is a finite number.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// ErrIncomparable means that two results have nothing to compare.
var ErrIncomparable = errors.New("the results cannot be compared")

// Compare compares two results. It fails with [ErrIncomparable] if they are of different
// scenarios or have no side, phase and class in common, and with a [store.ValidationError]
// for an invalid option.
func Compare(a, b *result.Result, o Options) (*Comparison, error) {
	o.Threshold = cmp.Or(o.Threshold, DefaultThreshold)
	if !(o.Threshold > 0 && o.Threshold < 1) {
		return nil, &store.ValidationError{Field: "threshold", Value: fmt.Sprint(o.Threshold), Reason: "give more than 0 and less than 1: 0.05 for 5 %"}
	}
	if a.Scenario != b.Scenario {
		return nil, fmt.Errorf("%w: A is of scenario %q, and B of %q: run the same scenario twice", ErrIncomparable, a.Scenario, b.Scenario)
	}
	c := &Comparison{
		Format: Format, Scenario: a.Scenario, A: runOf(a), B: runOf(b), Threshold: o.Threshold, Confidence: 1 - thresholds.CompareAlpha,
		Regressions: []string{}, Warnings: []string{}, Rows: []Row{},
	}
	c.warnOfRuns(a, b)
	match(c, "Side", "", a.Sides, b.Sides, func(s *result.Side) string { return s.Name },
		func(i, j int) { c.sides(&a.Sides[i], &b.Sides[j]) })
	if len(c.Rows) == 0 {
		return nil, fmt.Errorf("%w: they have no side, phase and class of the same name: run the same scenario twice", ErrIncomparable)
	}
	c.judge()
	return c, nil
}

func runOf(r *result.Result) Run { return Run{r.Version, r.Target, r.Machine, r.Started, r.Seed} }

func (c *Comparison) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// warnOfRuns warns of differences between the runs and of figures that do not hold.
func (c *Comparison) warnOfRuns(a, b *result.Result) {
	if a.Namespace == b.Namespace && a.Started.Equal(b.Started) {
		c.warn("A and B are the same run: give two.")
	}
	for _, r := range []struct {
		name string
		*result.Result
	}{{"A", a}, {"B", b}} {
		if r.Unreliable != "" {
			c.warn("The figures of %s are not those of the limiter: %s", r.name, r.Unreliable)
		}
		if r.Interrupted {
			c.warn("%s was interrupted: its last phase is shorter than planned.", r.name)
		}
	}
	for _, d := range []struct{ what, a, b string }{
		{"seed", strconv.FormatUint(a.Seed, 10), strconv.FormatUint(b.Seed, 10)},
		{"target", a.Target, b.Target},
		{"machine", a.Machine, b.Machine},
		{"number of limiters", strconv.Itoa(a.Limiters), strconv.Itoa(b.Limiters)},
		{"table of prices", a.Prices, b.Prices},
	} {
		if d.a != d.b {
			c.warn("The runs differ in the %s: %s in A, %s in B.", d.what, d.a, d.b)
		}
	}
}

// sides compares one side of both runs.
func (c *Comparison) sides(a, b *result.Side) {
	switch {
	case b.IsWrong() && !a.IsWrong():
		c.Regressions = append(c.Regressions, fmt.Sprintf("Side %s: B has wrong answers or books that do not balance, and A has not.", a.Name))
	case b.IsWrong():
		c.warn("Side %s: both runs have wrong answers or books that do not balance.", a.Name)
	case a.IsWrong():
		c.warn("Side %s: A has wrong answers or books that do not balance, and B has not.", a.Name)
	}
	if before, after := a.Answers(), b.Answers(); before.Errors() == 0 && after.Errors() > 0 {
		c.warn("Side %s: errors appear: %d of %d operations of B, none of A. The first: %s",
			a.Name, after.Errors(), after.Operations, cmp.Or(after.FirstError, "unknown"))
	}
	match(c, "Phase", " of side "+a.Name, a.Phases, b.Phases, func(p *result.Phase) string { return p.Name },
		func(i, j int) { c.phases(phase{a, i}, phase{b, j}) })
}

// phases compares one phase of a side in both runs.
func (c *Comparison) phases(a, b phase) {
	p, q := a.of(), b.of()
	match(c, "Class", " of phase "+p.Name+" of side "+a.side.Name, p.Classes, q.Classes, func(k *result.Class) string { return k.Name },
		func(i, j int) {
			c.warnOfLoads(a, &p.Classes[i], &q.Classes[j])
			c.parts(a, figures, a.class(i), b.class(j))
		})
	c.parts(a, costs, a.whole(), b.whole())
}

// match calls both for what both runs have by the same name, and warns of the rest.
func match[T any](c *Comparison, what, of string, a, b []T, name func(*T) string, both func(i, j int)) {
	in := func(all []T, one *T) int {
		return slices.IndexFunc(all, func(t T) bool { return name(&t) == name(one) })
	}
	for i := range a {
		if j := in(b, &a[i]); j >= 0 {
			both(i, j)
		} else {
			c.warn("%s %s%s is in A only.", what, name(&a[i]), of)
		}
	}
	for j := range b {
		if in(a, &b[j]) < 0 {
			c.warn("%s %s%s is in B only.", what, name(&b[j]), of)
		}
	}
}

// dueAlike is how far the rates due of two runs may be apart without a warning.
const dueAlike = 0.1

// warnOfLoads warns of rates that differ. Only operations with a rate have a lag; those of users
// are due when they are sent.
func (c *Comparison) warnOfLoads(p phase, a, b *result.Class) {
	dueA, dueB := float64(a.Due)/a.Seconds, float64(b.Due)/b.Seconds
	if a.Lag.Max > 0 && b.Lag.Max > 0 && math.Abs(dueB-dueA) > dueAlike*dueA {
		c.warn("Class %s of phase %s of side %s has another load: %.4g operations per second were due in A, %.4g in B.", a.Name, p.of().Name, p.side.Name, dueA, dueB)
	}
}

// parts compares figures of a part of both runs, without those that are 0 in both.
func (c *Comparison) parts(p phase, figures []figure, a, b *part) {
	for i := range figures {
		f := &figures[i]
		x, y := f.of(a), f.of(b)
		if x == 0 && y == 0 {
			continue
		}
		row := Row{Side: p.side.Name, Phase: p.of().Name, Class: a.Name, Metric: f.metric, A: Number(x), B: Number(y), Ratio: Number(y / x)}
		row.P, row.Change = f.judge(a, b, y/x, c.Threshold)
		c.Rows = append(c.Rows, row)
	}
}

// judge sums up the rows.
func (c *Comparison) judge() {
	judged := 0
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.Change == Worse {
			c.Regressions = append(c.Regressions, r.where()+": "+r.sentence())
		}
		if r.P.Known() && figureOf(r.Metric).worse != 0 {
			judged++
		}
	}
	switch {
	case len(c.Regressions) > 0:
		c.Verdict = Regression
	case judged == 0:
		c.Verdict = Undecided
		c.warn("No figure is judged: each phase needs at least %d s in both runs.", minSamples)
	default:
		c.Verdict = NoRegression
	}
}
