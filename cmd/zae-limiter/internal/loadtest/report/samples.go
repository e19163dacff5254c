package report

import (
	"math"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/chart"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

// A side is a side with its samples merged for charts.
type side struct {
	name   string
	points []result.Sample
	at     []float64
	marks  []chart.Mark
	phases []string
}

func newSide(s *result.Side) side {
	of := side{name: s.Name, points: merge(whole(s.Samples), MaxPoints)}
	for i := range s.Phases {
		of.phases = append(of.phases, s.Phases[i].Name)
	}
	last := -1
	for _, p := range of.points {
		of.at = append(of.at, p.At)
		if p.Phase != last && len(s.Phases) > 1 {
			of.marks = append(of.marks, chart.Mark{At: p.At, Name: of.phase(p.Phase)})
		}
		last = p.Phase
	}
	return of
}

// phase names a phase by its index.
func (s *side) phase(i int) string {
	if i < 0 || i >= len(s.phases) {
		return ""
	}
	return s.phases[i]
}

// values are one figure of all points. Without seconds or operations, there may be none:
// then it is NaN.
func (s *side) values(of func(*result.Sample) float64) []float64 {
	values := make([]float64, len(s.points))
	for i := range s.points {
		values[i] = of(&s.points[i])
		if math.IsInf(values[i], 0) {
			values[i] = math.NaN()
		}
	}
	return values
}

// whole adds an interval that is much shorter than others to the one before: its rates mean
// little. The last interval of a phase may be.
func whole(samples []result.Sample) []result.Sample {
	const short = 0.5 // seconds
	var all []result.Sample
	for _, s := range samples {
		last := len(all) - 1
		if s.Seconds < short && last >= 0 && all[last].Phase == s.Phase {
			all[last] = together([]result.Sample{all[last], s})
			continue
		}
		all = append(all, s)
	}
	return all
}

// merge merges samples that follow one another in one phase, so that about most are left.
func merge(samples []result.Sample, most int) []result.Sample {
	each := (len(samples) + most - 1) / most
	if each <= 1 {
		return samples
	}
	var merged []result.Sample
	for from := 0; from < len(samples); {
		to := from + 1
		for to < len(samples) && to < from+each && samples[to].Phase == samples[from].Phase {
			to++
		}
		merged = append(merged, together(samples[from:to]))
		from = to
	}
	return merged
}

// together is several samples as one: sums of counts, the last numbers of users and shards,
// the greatest p99, p99.9 and lag, and the mean p50 by operation.
func together(samples []result.Sample) result.Sample {
	sum := samples[0]
	p50 := float64(sum.P50) * float64(sum.Done)
	for i := range samples[1:] {
		s := &samples[1+i]
		sum.Seconds += s.Seconds
		sum.Due += s.Due
		sum.Done += s.Done
		sum.Admitted += s.Admitted
		sum.Refused += s.Refused
		sum.Throttled += s.Throttled
		sum.Unavailable += s.Unavailable
		sum.Failed += s.Failed
		p50 += float64(s.P50) * float64(s.Done)
		sum.P99, sum.P999, sum.Lag = max(sum.P99, s.P99), max(sum.P999, s.P999), max(sum.Lag, s.Lag)
		sum.Cost = sum.Cost.Plus(s.Cost)
		sum.Writes += s.Writes
		sum.WritesThrottled += s.WritesThrottled
		sum.Users, sum.Shards = s.Users, s.Shards
	}
	if sum.Done > 0 {
		sum.P50 = result.Milliseconds(p50 / float64(sum.Done))
	}
	return sum
}

// table has a row for each point.
func (s *side) table() table {
	t := table{Names: 1, Header: []string{
		"phase", "at, s", "seconds", "due", "done", "admitted", "refused", "throttled", "unavailable", "other errors",
		"p50", "p99", "p99.9", "lag p99", "writes", "writes throttled", "WCU", "RCU", "users", "shards",
	}}
	count := limitarg.Grouped[int64]
	for i := range s.points {
		p := &s.points[i]
		t.Rows = append(t.Rows, plain(s.phase(p.Phase), chart.Number(p.At), chart.Number(p.Seconds), count(p.Due), count(p.Done),
			count(p.Admitted), count(p.Refused), count(p.Throttled), count(p.Unavailable), count(p.Failed),
			milliseconds(p.P50), milliseconds(p.P99), milliseconds(p.P999), milliseconds(p.Lag),
			count(p.Writes), count(p.WritesThrottled), chart.Number(p.Cost.WCU), chart.Number(p.Cost.RCU),
			count(int64(p.Users)), count(int64(p.Shards))))
	}
	return t
}
