package compare

import (
	"maps"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/internal/confidence"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

// A quantile is a figure of a latency.
type quantile struct {
	metric Metric
	beyond float64 // the share of the operations above it
	of     func(*result.Latency) result.Milliseconds
	class  func(*result.Class) *result.Latency
	// points are the latencies of one second in order, with the shares above them.
	points func(*result.Sample) []point
}

// A point of the distribution of a second: a latency, and the share above it.
type point struct{ at, beyond float64 }

var quantiles = []quantile{
	{P50, 0.5, func(l *result.Latency) result.Milliseconds { return l.P50 }, latency, latencies},
	{P99, 0.01, func(l *result.Latency) result.Milliseconds { return l.P99 }, latency, latencies},
	{P999, 0.001, func(l *result.Latency) result.Milliseconds { return l.P999 }, latency, latencies},
	{Lag, 0.01, func(l *result.Latency) result.Milliseconds { return l.P99 }, func(c *result.Class) *result.Latency { return &c.Lag }, lags},
}

func latency(c *result.Class) *result.Latency { return &c.Latency }

// latencies are the points of a second. The greatest of n latencies has about half of one
// operation above it.
func latencies(s *result.Sample) []point {
	const half, hundredth, thousandth = 0.5, 0.01, 0.001
	least := half / float64(s.Done)
	points := []point{{float64(s.P50), half}}
	for _, p := range []point{{float64(s.P99), max(hundredth, least)}, {float64(s.P999), max(thousandth, least)}} {
		last := points[len(points)-1]
		if p.at > last.at && p.beyond < last.beyond {
			points = append(points, p)
		}
	}
	return points
}

// lags are the points of an exponential distribution: a sample has only one quantile of the
// lag.
func lags(s *result.Sample) []point {
	const half, hundredth = 0.5, 0.01
	beyond := min(half, max(hundredth, half/float64(s.Done)))
	return []point{{float64(s.Lag) * math.Log(half) / math.Log(beyond), half}, {float64(s.Lag), beyond}}
}

// A curve is the distribution of a second, interpolated between points as a normal
// distribution of the logarithm of the latency, and so on beyond the first and the last.
type curve []struct{ log, score float64 }

func newCurve(points []point) curve {
	var c curve
	for _, p := range points {
		c = append(c, struct{ log, score float64 }{math.Log(max(p.at, math.SmallestNonzeroFloat64)), math.Sqrt2 * math.Erfinv(1-2*p.beyond)})
	}
	return c
}

// beyond is the share above a latency, by its logarithm.
func (c curve) beyond(log float64) float64 {
	if len(c) == 1 { // all latencies are the same
		if log < c[0].log {
			return 1
		}
		return 0
	}
	i := 1
	for i < len(c)-1 && log > c[i].log {
		i++
	}
	slope := (c[i].score - c[i-1].score) / (c[i].log - c[i-1].log)
	return math.Erfc((c[i-1].score+slope*(log-c[i-1].log))/math.Sqrt2) / 2
}

// quantile compares a quantile of a class.
func (p *pair) quantile(q quantile, a, b *result.Class) figure {
	la, lb := q.class(a), q.class(b)
	f := figure{a: float64(q.of(la)), b: float64(q.of(lb))}
	ha, hb := newHistogram(la), newHistogram(lb)
	switch {
	case f.a == 0 || f.b == 0 || min(ha.total, hb.total)*q.beyond < minBeyond:
		f.without = TooFew
		return f
	case p.batches == 0:
		f.without = TooShort
		return f
	}
	a1, a2 := without(p.a.samples, p.batches, q), without(p.b.samples, p.batches, q)
	spread := min(a1.spread, a2.spread)
	if spread < minSpread {
		f.without = Clustered
		return f
	}
	t := confidence.Student(spread-1) / confidence.Normal
	dependent := t * t * jackknife(a1.quantiles, a2.quantiles)
	ofPhase := together(p.a, q).variance(q.beyond) + together(p.b, q).variance(q.beyond)
	ofClass := ha.variance(q.beyond) + hb.variance(q.beyond)
	// With several classes, what the variance of the whole phase exceeds that of independent
	// operations by may be in proportion to it, or the same for all: the greater counts.
	excess := max(0, dependent-ofPhase)
	return within(f.a, f.b, confidence.Normal*math.Sqrt(ofClass+excess*max(1, ofClass/ofPhase)))
}

// jackknife is the variance of the difference of two logarithms, from their values without
// each batch.
func jackknife(a, b []float64) float64 {
	n := float64(len(a))
	mean, squares := (sum(b)-sum(a))/n, 0.0
	for i := range a {
		squares += (b[i] - a[i] - mean) * (b[i] - a[i] - mean)
	}
	return squares * (n - 1) / n
}

// A mixture is the distribution of all operations of some samples.
type mixture struct {
	curves []curve
	counts []float64
	total  float64
}

func newMixture(samples []result.Sample, q quantile) *mixture {
	m := &mixture{}
	for i := range samples {
		if samples[i].Done > 0 {
			m.curves = append(m.curves, newCurve(q.points(&samples[i])))
			m.counts = append(m.counts, done(&samples[i]))
			m.total += done(&samples[i])
		}
	}
	return m
}

// quantile is the logarithm of the latency that a share of the operations is above.
func (m *mixture) quantile(beyond float64) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range m.curves {
		low, high = min(low, c[0].log-1), max(high, c[len(c)-1].log+1)
	}
	const halvings = 40
	for range halvings {
		middle, above := (low+high)/2, 0.0
		for i, c := range m.curves {
			above += c.beyond(middle) * m.counts[i]
		}
		if above > beyond*m.total {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// A resampled quantile is what a quantile depends on.
type resampled struct {
	// quantiles are the logarithms of the quantile without each batch.
	quantiles []float64
	// spread is the number of batches over which the operations above the quantile are
	// spread: that of batches with the same number each that are as uneven (Kish).
	spread float64
}

// without resamples a quantile. Values that differ from the quantile of all by more than a
// factor of 4 count as that.
func without(samples []result.Sample, batches int, q quantile) resampled {
	m := newMixture(samples, q)
	if len(m.curves) == 0 {
		return resampled{}
	}
	const steps = 48 // of the grid on which the distribution of each batch is known
	reach := math.Log(4)
	from, step := m.quantile(q.beyond)-reach, 2*reach/steps
	var all [steps + 1]float64 // operations above each point of the grid, less the share
	each := make([][steps + 1]float64, batches)
	above := make([]float64, batches)
	for i, c := range m.curves {
		for j := range all {
			excess := (c.beyond(from+step*float64(j)) - q.beyond) * m.counts[i]
			all[j] += excess
			each[i*batches/len(m.curves)][j] += excess
		}
		above[i*batches/len(m.curves)] += c.beyond(from+reach) * m.counts[i]
	}
	found := make([]float64, batches)
	for k := range each {
		j := 1
		for j < steps && all[j]-each[k][j] > 0 {
			j++
		}
		before, after := all[j-1]-each[k][j-1], all[j]-each[k][j]
		part := 0.0
		if before > after {
			part = min(1, max(0, before/(before-after)))
		}
		found[k] = from + step*(float64(j-1)+part)
	}
	squares := 0.0
	for _, n := range above {
		squares += n * n
	}
	return resampled{found, sum(above) * sum(above) / squares}
}

// A histogram finds the latency of a level.
type histogram struct {
	bins  []result.Bin
	total float64
}

func newHistogram(l *result.Latency) *histogram {
	h := &histogram{bins: l.Histogram}
	for _, b := range h.bins {
		h.total += float64(b.Count)
	}
	return h
}

// together is the histogram of all classes of a phase.
func together(p *phase, q quantile) *histogram {
	counts := map[result.Milliseconds]int64{}
	for i := range p.Classes {
		for _, b := range q.class(&p.Classes[i]).Histogram {
			counts[b.UpTo] += b.Count
		}
	}
	all := result.Latency{}
	for _, edge := range slices.Sorted(maps.Keys(counts)) {
		all.Histogram = append(all.Histogram, result.Bin{UpTo: edge, Count: counts[edge]})
	}
	return newHistogram(&all)
}

// variance is that of the logarithm of a quantile of independent operations, from the
// interval of order statistics.
func (h *histogram) variance(beyond float64) float64 {
	share := binomial(beyond, h.total)
	deviation := math.Log(h.at(share.low)/h.at(share.high)) / (2 * confidence.Normal)
	return deviation * deviation
}

// at is the latency that a share of the operations is above, interpolated within its bin.
func (h *histogram) at(beyond float64) float64 {
	const width = 1.02 // a bin is at most 2 % wide
	rest, edge := h.total*(1-beyond), 0.0
	for i, b := range h.bins {
		count, high := float64(b.Count), float64(b.UpTo)
		if rest <= count || i == len(h.bins)-1 {
			low := max(edge, high/width)
			return low + (high-low)*min(1, rest/count)
		}
		rest, edge = rest-count, high
	}
	return 0
}
