package compare

import (
	"math"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/internal/confidence"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

const (
	// minSamples is how many samples a phase needs: two in each batch.
	minSamples = 8
	minBatches = 4
	// perRoot is the number of batches by the square root of the number of samples. In the
	// simulation of a store that stalls, 1 gives batches that are a little too short.
	perRoot    = 0.8
	maxBatches = 100
	// minBeyond is how many operations must be above a quantile, and minSpread over how many
	// batches they must be spread.
	minBeyond = 20
	minSpread = 3
)

// A phase is a phase of a side with its samples.
type phase struct {
	*result.Phase

	side    string
	samples []result.Sample
}

func newPhase(s *result.Side, i int) *phase {
	p := &phase{Phase: &s.Phases[i], side: s.Name}
	for _, sample := range s.Samples {
		if sample.Phase == i && sample.Seconds > 0 {
			p.samples = append(p.samples, sample)
		}
	}
	return p
}

// A pair is one phase in both runs.
type pair struct {
	a, b *phase
	// batches is the number of batches in each, 0 if there are too few samples.
	batches int
	t       float64 // Student's quantile
}

func pairUp(a, b *phase) *pair {
	p := &pair{a: a, b: b}
	if n := min(len(a.samples), len(b.samples)); n >= minSamples {
		p.batches = min(maxBatches, max(minBatches, int(perRoot*math.Sqrt(float64(n)))))
		p.t = confidence.Student(float64(p.batches - 1))
	}
	return p
}

// A figure is a value of both runs, and the interval of their ratio. without says why there
// is no interval; "" if there is one.
type figure struct {
	a, b, low, high float64
	without         Change
}

// within is the figure with an interval that reaches as far to both sides on the logarithmic
// scale.
func within(a, b, half float64) figure {
	return figure{a, b, b / a * math.Exp(-half), b / a * math.Exp(half), ""}
}

// A series has one value for each sample, of A and of B.
type series struct{ a, b []float64 }

// series takes one value of each sample.
func (p *pair) series(of func(*result.Sample) float64) series {
	values := func(samples []result.Sample) []float64 {
		all := make([]float64, len(samples))
		for i := range samples {
			all[i] = of(&samples[i])
		}
		return all
	}
	return series{values(p.a.samples), values(p.b.samples)}
}

// variance is that of the difference of two ratios of sums: y/x of B less y/x of A. x is
// divided by a scale: if that is x itself, the ratios are as they are; if it is y, the
// variance is that of the difference of their logarithms.
func (p *pair) variance(y, x, scale series) float64 {
	a, b := deviations(p.batches, y.a, x.a, scale.a), deviations(p.batches, y.b, x.b, scale.b)
	sum := 0.0
	for i := range a {
		sum += (b[i] - a[i]) * (b[i] - a[i])
	}
	n := float64(p.batches)
	return sum * n / (n - 1)
}

// deviations are by how much the y of each batch exceeds that of the overall ratio, in parts
// of the sum of the scale.
func deviations(batches int, y, x, scale []float64) []float64 {
	all := make([]float64, batches)
	sumX, whole := sum(x), sum(scale)
	if sumX == 0 || whole == 0 {
		return all
	}
	ratio := sum(y) / sumX
	for i := range y {
		all[i*batches/len(y)] += (y[i] - ratio*x[i]) / whole
	}
	return all
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

func done(s *result.Sample) float64    { return float64(s.Done) }
func seconds(s *result.Sample) float64 { return s.Seconds }

// rate compares operations per second.
func (p *pair) rate(a, b *result.Class) figure {
	f := figure{a: a.PerSecond(), b: b.PerSecond()}
	switch {
	case f.a == 0 || f.b == 0:
		f.without = TooFew
		return f
	case p.batches == 0:
		f.without = TooShort
		return f
	}
	ended := p.series(done)
	half := p.t * math.Sqrt(p.variance(ended, p.series(seconds), ended))
	if len(p.a.Classes) > 1 || len(p.b.Classes) > 1 {
		independent := confidence.Normal * math.Sqrt(1/sum(ended.a)+1/sum(ended.b))
		ofClass := confidence.Normal * math.Sqrt(1/float64(a.Answers.Operations)+1/float64(b.Answers.Operations))
		half = ofClass * max(1, half/independent)
	}
	return within(f.a, f.b, half)
}

// A cost is one figure of what a phase costs.
type cost struct {
	metric Metric
	of     func(result.Cost) float64
}

const million = 1e6

var costs = []cost{
	{RequestsPerOperation, func(c result.Cost) float64 { return c.Requests }},
	{WCUPerOperation, func(c result.Cost) float64 { return c.WCU }},
	{RCUPerOperation, func(c result.Cost) float64 { return c.RCU }},
	{DollarsPerMillion, func(c result.Cost) float64 { return million * c.Dollars }},
}

// cost compares what one operation costs.
func (p *pair) cost(of cost) figure {
	a, b := p.a.Answers(), p.b.Answers()
	f := figure{a: of.of(p.a.Cost.Per(a.Operations)), b: of.of(p.b.Cost.Per(b.Operations))}
	switch {
	case f.a == 0 || f.b == 0:
		f.without = TooFew
		return f
	case p.batches == 0:
		f.without = TooShort
		return f
	}
	spent := p.series(func(s *result.Sample) float64 { return of.of(s.Cost) })
	return within(f.a, f.b, p.t*math.Sqrt(p.variance(spent, p.series(done), spent)))
}

// share compares a share of the operations.
func (p *pair) share(a, b *result.Class, of func(*result.Answers) int64, y func(*result.Sample) float64) figure {
	na, nb := float64(a.Answers.Operations), float64(b.Answers.Operations)
	f := figure{a: result.Share(of(&a.Answers), a.Answers.Operations), b: result.Share(of(&b.Answers), b.Answers.Operations)}
	switch {
	case na == 0 || nb == 0:
		f.without = TooFew
		return f
	case p.batches == 0:
		f.without = TooShort
		return f
	}
	effect := p.effect(p.series(y))
	f.low, f.high = over(binomial(f.b, nb/effect), binomial(f.a, na/effect))
	return f
}

// effect is how many operations tell as much as one independent operation: the design effect
// of a share, enlarged because the variance is itself an estimate, and at least 1.
func (p *pair) effect(hits series) float64 {
	ended := p.series(done)
	independent := 0.0
	for _, of := range []struct{ hits, n float64 }{{sum(hits.a), sum(ended.a)}, {sum(hits.b), sum(ended.b)}} {
		if of.n > 0 {
			independent += of.hits / of.n * (1 - of.hits/of.n) / of.n
		}
	}
	if independent == 0 {
		return 1
	}
	return max(1, p.variance(hits, ended, ended)/independent*p.t*p.t/(confidence.Normal*confidence.Normal))
}
