// Package compare compares two results of one scenario. Each figure gets a ratio with a 95 %
// confidence interval, and a judgement: it is a regression only if the whole interval is
// beyond a threshold.
//
// # Method
//
// The seconds of a run depend on one another: while a store stalls, many operations are slow.
// So operations are not treated as independent. Each phase is split into batches of seconds:
// from 4 to 100, and as many as 0.8 times the square root of the seconds. A batch of A is
// paired with the batch of B at the same part of the phase, because the load of a scenario
// changes with time in the same way in both runs. Student's distribution turns the variance between batches into an
// interval.
//
//   - Rates and costs are ratios of sums. The variance is that of their linearized logarithms.
//   - Quantiles come from the whole histogram. Their variance comes from leaving out one pair
//     of batches after the other (the jackknife). The distribution of one second is
//     interpolated from its p50, p99 and p99.9. The degrees of freedom follow from how evenly
//     the operations above the quantile are spread over batches. An interval is never
//     narrower than that of order statistics of independent operations.
//   - Shares (refused, errors) have intervals by Clopper and Pearson, with the number of
//     operations divided by the design effect: the variance between batches over that of
//     independent operations, and at least 1 (Korn and Graubard 1998). The interval of the
//     ratio follows from both (recovery of variance estimates, Zou and Donner 2008).
//
// It assumes that batches are independent of one another: what disturbs a run lasts less than
// a batch, which is 10 s in a phase of a minute. Samples are of whole sides. In a phase with several classes, the variance of each class is increased by what
// that of the side exceeds the variance of independent operations by, so some intervals are
// wider than necessary. A test simulates pairs of equal runs: of 1,000 intervals, 900 to 990
// contain 1.
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

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/internal/confidence"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/store"
)

// Format is the version of the JSON form.
const Format = 1

// DefaultThreshold is the threshold of [Options].
const DefaultThreshold = 0.05

// Options say how to compare.
type Options struct {
	// Threshold is how far from 1 a whole interval must be, as a ratio, to be a change: 0.05
	// for 5 %. Above 0 and below 1; 0 is [DefaultThreshold].
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
	Same    Change = "same"    // the whole interval is within the threshold
	Unclear Change = "unclear" // the interval is on both sides of the threshold
	Differs Change = "differs" // beyond the threshold, where neither side is better
	// These figures have no interval: the phase has too few samples; there are too few
	// operations, or one run has none at all; the operations above a quantile are in too few
	// batches.
	TooShort  Change = "too short"
	TooFew    Change = "too few"
	Clustered Change = "clustered"
)

// A Verdict is the judgement on all figures.
type Verdict string

// The verdicts.
const (
	Regression   Verdict = "regression"
	NoRegression Verdict = "no regression"
	Undecided    Verdict = "undecided" // no figure has an interval
)

// A Comparison is the result of a comparison of A, the older, with B. Its JSON has stable
// names.
type Comparison struct {
	Format     int     `json:"format"` // version of this form
	Scenario   string  `json:"scenario"`
	A          Run     `json:"a"`          // the first result
	B          Run     `json:"b"`          // the second result
	Threshold  float64 `json:"threshold"`  // smallest change that counts, as a share
	Confidence float64 `json:"confidence"` // confidence of the intervals, as a share
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
	// Ratio is B/A, and Low to High its interval. They are null where there is none.
	Ratio  Number `json:"ratio"`
	Low    Number `json:"low"`    // lower bound of the ratio
	High   Number `json:"high"`   // upper bound of the ratio
	Change Change `json:"change"` // what the interval says
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

// worse tells which direction is worse: 1 is more, -1 is less, 0 is neither. A faster limiter
// refuses more of the users that wait for it, so refusals have no direction. The lag is the
// generator's.
func (m Metric) worse() int {
	switch m {
	case OperationsPerSecond:
		return -1
	case RefusedShare, Lag:
		return 0
	default:
		return 1
	}
}

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
		Format: Format, Scenario: a.Scenario, A: runOf(a), B: runOf(b), Threshold: o.Threshold, Confidence: confidence.Level,
		Regressions: []string{}, Warnings: []string{}, Rows: []Row{},
	}
	c.warnOfRuns(a, b)
	for i := range a.Sides {
		at := slices.IndexFunc(b.Sides, func(s result.Side) bool { return s.Name == a.Sides[i].Name })
		if at < 0 {
			c.warn("Side %s is in A only.", a.Sides[i].Name)
			continue
		}
		c.sides(&a.Sides[i], &b.Sides[at])
	}
	for i := range b.Sides {
		if !slices.ContainsFunc(a.Sides, func(s result.Side) bool { return s.Name == b.Sides[i].Name }) {
			c.warn("Side %s is in B only.", b.Sides[i].Name)
		}
	}
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
	for i := range a.Phases {
		at := slices.IndexFunc(b.Phases, func(p result.Phase) bool { return p.Name == a.Phases[i].Name })
		if at < 0 {
			c.warn("Phase %s of side %s is in A only.", a.Phases[i].Name, a.Name)
			continue
		}
		c.phases(newPhase(a, i), newPhase(b, at))
	}
	for i := range b.Phases {
		if !slices.ContainsFunc(a.Phases, func(p result.Phase) bool { return p.Name == b.Phases[i].Name }) {
			c.warn("Phase %s of side %s is in B only.", b.Phases[i].Name, b.Name)
		}
	}
}

// phases compares one phase of a side in both runs.
func (c *Comparison) phases(a, b *phase) {
	p := pairUp(a, b)
	for i := range a.Classes {
		at := slices.IndexFunc(b.Classes, func(k result.Class) bool { return k.Name == a.Classes[i].Name })
		if at < 0 {
			c.warn("Class %s of phase %s of side %s is in A only.", a.Classes[i].Name, a.Name, a.side)
			continue
		}
		c.classes(p, &a.Classes[i], &b.Classes[at])
	}
	for i := range b.Classes {
		if !slices.ContainsFunc(a.Classes, func(k result.Class) bool { return k.Name == b.Classes[i].Name }) {
			c.warn("Class %s of phase %s of side %s is in B only.", b.Classes[i].Name, b.Name, b.side)
		}
	}
	for _, of := range costs {
		c.add(p, "", of.metric, p.cost(of))
	}
}

// dueAlike is how far the rates due of two runs may be apart without a warning.
const dueAlike = 0.1

func (c *Comparison) classes(p *pair, a, b *result.Class) {
	// Only operations with a rate have a lag; those of users are due when they are sent.
	dueA, dueB := float64(a.Due)/a.Seconds, float64(b.Due)/b.Seconds
	if a.Lag.Max > 0 && b.Lag.Max > 0 && math.Abs(dueB-dueA) > dueAlike*dueA {
		c.warn("Class %s of phase %s of side %s has another load: %.4g operations per second were due in A, %.4g in B.", a.Name, p.a.Name, p.a.side, dueA, dueB)
	}
	c.add(p, a.Name, OperationsPerSecond, p.rate(a, b))
	for _, q := range quantiles {
		c.add(p, a.Name, q.metric, p.quantile(q, a, b))
	}
	c.add(p, a.Name, RefusedShare, p.share(a, b, func(k *result.Answers) int64 { return k.Refused }, func(s *result.Sample) float64 { return float64(s.Refused) }))
	c.add(p, a.Name, ErrorShare, p.share(a, b, (*result.Answers).Errors, func(s *result.Sample) float64 { return float64(s.Throttled + s.Unavailable + s.Failed) }))
}

// add adds a row, unless neither run has anything of it.
func (c *Comparison) add(p *pair, class string, metric Metric, f figure) {
	if f.a == 0 && f.b == 0 {
		return
	}
	row := Row{
		Side: p.a.side, Phase: p.a.Name, Class: class, Metric: metric, A: Number(f.a), B: Number(f.b),
		Ratio: Number(f.b / f.a), Low: Number(f.low), High: Number(f.high), Change: f.without,
	}
	if f.without == "" {
		row.Change = change(metric.worse(), f.low, f.high, c.Threshold)
	} else {
		row.Low, row.High = Number(math.NaN()), Number(math.NaN())
	}
	c.Rows = append(c.Rows, row)
}

// change judges an interval.
func change(worse int, low, high, threshold float64) Change {
	more, less := low > 1+threshold, high < 1-threshold
	switch {
	case !more && !less && low >= 1-threshold && high <= 1+threshold:
		return Same
	case !more && !less:
		return Unclear
	case worse == 0:
		return Differs
	case more == (worse > 0):
		return Worse
	}
	return Better
}

// judge sums up the rows.
func (c *Comparison) judge() {
	judged := 0
	for i := range c.Rows {
		r := &c.Rows[i]
		switch r.Change {
		case Worse:
			c.Regressions = append(c.Regressions, r.where()+": "+r.sentence())
			judged++
		case Better, Same, Unclear:
			if r.Metric.worse() != 0 {
				judged++
			}
		case Differs, TooShort, TooFew, Clustered:
		}
	}
	switch {
	case len(c.Regressions) > 0:
		c.Verdict = Regression
	case judged == 0:
		c.Verdict = Undecided
		c.warn("No figure has an interval: each phase needs at least %d s in both runs.", minSamples)
	default:
		c.Verdict = NoRegression
	}
}
