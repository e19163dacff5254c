package compare

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

const (
	// minSamples is how many samples a phase needs.
	minSamples = 8
	// minBatches is how many values of each run the test needs to find any difference.
	minBatches = 5
	// perRoot is the number of batches by the square root of the number of samples.
	perRoot    = 0.8
	maxBatches = 100
	// minBeyond is how many operations must be above a quantile.
	minBeyond = 20
)

// thresholds have the p-value below which runs differ. A phase has about ten figures: at the 0.05
// of benchmath, one of eight pairs of equal runs would be a regression.
var thresholds = benchmath.Thresholds{CompareAlpha: 0.01}

// A figure is a metric of a part of a run.
type figure struct {
	metric Metric
	title  string
	// worse is the direction of a regression: 1 is more, -1 is less, 0 is neither.
	worse int
	// least is the number of operations that the figure needs.
	least int64
	of    func(*part) float64
	// The value of a batch is the ratio of two sums over its seconds. So a quantile is the
	// mean of those of the seconds, by their operations.
	sum, by func(*second) float64
}

// figures are those of a class. A faster limiter refuses more of the users that wait for it, so
// refusals have no direction. The lag is the generator's.
var figures = []figure{
	{OperationsPerSecond, "operations/s", -1, 0, func(p *part) float64 { return p.PerSecond() }, (*second).done, func(s *second) float64 { return s.seconds }},
	{P50, "latency p50", 1, 2 * minBeyond, func(p *part) float64 { return float64(p.Latency.P50) }, func(s *second) float64 { return s.done() * float64(s.P50) }, (*second).done},
	{P99, "latency p99", 1, 100 * minBeyond, func(p *part) float64 { return float64(p.Latency.P99) }, func(s *second) float64 { return s.done() * float64(s.P99) }, (*second).done},
	{P999, "latency p99.9", 1, 1000 * minBeyond, func(p *part) float64 { return float64(p.Latency.P999) }, func(s *second) float64 { return s.done() * float64(s.P999) }, (*second).done},
	{Lag, "generator lag p99", 0, 100 * minBeyond, func(p *part) float64 { return float64(p.Lag.P99) }, func(s *second) float64 { return s.done() * float64(s.Lag) }, (*second).done},
	{RefusedShare, "refused", 0, 1, func(p *part) float64 { return result.Share(p.Answers.Refused, p.Answers.Operations) }, func(s *second) float64 { return float64(s.Refused) }, (*second).done},
	{ErrorShare, "errors", 1, 1, func(p *part) float64 { return result.Share(p.Answers.Errors(), p.Answers.Operations) }, func(s *second) float64 { return float64(s.Errors) }, (*second).done},
}

const million = 1e6

// costs are the figures of a whole phase.
var costs = []figure{
	cost(RequestsPerOperation, "round trips/operation", func(c result.Cost) float64 { return c.Requests }),
	cost(WCUPerOperation, "WCU/operation", func(c result.Cost) float64 { return c.WCU }),
	cost(RCUPerOperation, "RCU/operation", func(c result.Cost) float64 { return c.RCU }),
	cost(DollarsPerMillion, "dollars/million", func(c result.Cost) float64 { return million * c.Dollars }),
}

func cost(metric Metric, title string, of func(result.Cost) float64) figure {
	return figure{
		metric, title, 1, 1,
		func(p *part) float64 { return of(p.cost.Per(p.Answers.Operations)) },
		func(s *second) float64 { return of(s.cost) }, (*second).done,
	}
}

// figureOf is the figure of a metric.
func figureOf(m Metric) *figure {
	all := slices.Concat(figures, costs)
	return &all[slices.IndexFunc(all, func(f figure) bool { return f.metric == m })]
}

// A phase is a phase of a side, by its index.
type phase struct {
	side  *result.Side
	index int
}

func (p phase) of() *result.Phase { return &p.side.Phases[p.index] }

// A part is a class in a phase, or the whole phase as one class without a name.
type part struct {
	result.Class

	cost    result.Cost // of the whole phase
	seconds []second
}

// A second is the part of a class in a sample, or the whole sample.
type second struct {
	result.ClassSample

	seconds float64
	cost    result.Cost
}

func (s *second) done() float64 { return float64(s.Done) }

// whole is the phase as one class.
func (p phase) whole() *part {
	whole := &part{Class: result.Class{Answers: p.of().Answers()}, cost: p.of().Cost}
	for i := range p.side.Samples {
		s := &p.side.Samples[i]
		if s.Phase != p.index || s.Seconds <= 0 {
			continue
		}
		whole.seconds = append(whole.seconds, second{result.ClassSample{
			Done: s.Done, Refused: s.Refused, Errors: s.Throttled + s.Unavailable + s.Failed,
			P50: s.P50, P99: s.P99, P999: s.P999, Lag: s.Lag,
		}, s.Seconds, s.Cost})
	}
	return whole
}

// class is a class of the phase. Samples have the parts of classes if there are several.
func (p phase) class(i int) *part {
	if len(p.of().Classes) == 1 {
		return &part{Class: p.of().Classes[0], seconds: p.whole().seconds}
	}
	class := &part{Class: p.of().Classes[i]}
	for k := range p.side.Samples {
		s := &p.side.Samples[k]
		for _, c := range s.Classes {
			if s.Phase == p.index && s.Seconds > 0 && c.Name == class.Name {
				class.seconds = append(class.seconds, second{ClassSample: c, seconds: s.Seconds})
			}
		}
	}
	return class
}

// judge compares the batches of a figure whose values have a ratio. It returns the p-value,
// NaN if there is none.
func (f *figure) judge(a, b *part, ratio, threshold float64) (p Number, is Change) {
	x, y := f.batches(a.seconds), f.batches(b.seconds)
	switch {
	case min(a.Answers.Operations, b.Answers.Operations) < f.least:
		return Number(math.NaN()), TooFew
	case min(len(x), len(y)) < minBatches:
		return Number(math.NaN()), TooShort
	}
	test := benchmath.AssumeNothing.Compare(benchmath.NewSample(x, &thresholds), benchmath.NewSample(y, &thresholds))
	p = Number(test.P)
	switch more := ratio > 1; {
	case ratio >= 1-threshold && ratio <= 1+threshold:
		return p, Same
	case test.P >= test.Alpha:
		return p, Unclear
	case f.worse == 0:
		return p, Differs
	case more == (f.worse > 0):
		return p, Worse
	}
	return p, Better
}

// batches are the values of the batches that have any.
func (f *figure) batches(seconds []second) (values []float64) {
	n := len(seconds)
	if n < minSamples {
		return nil
	}
	batches := min(maxBatches, max(minBatches, int(perRoot*math.Sqrt(float64(n)))))
	for batch := range batches {
		sum, by := 0.0, 0.0
		for i := batch * n / batches; i < (batch+1)*n/batches; i++ {
			sum, by = sum+f.sum(&seconds[i]), by+f.by(&seconds[i])
		}
		if by > 0 {
			values = append(values, sum/by)
		}
	}
	return values
}
