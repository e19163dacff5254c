// Package resulttest makes results of load tests for tests: operations with random latencies
// and answers, counted as a run counts them.
package resulttest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

// A Run describes a run.
type Run struct {
	Scenario string // "" is "gateway"
	Sides    []Side
	Phases   []Phase // nil is one phase "all" of 60 s
	Classes  []Class // nil is one class "Users" of 100 operations a second
	// Correlation is that of a second with the one before, and Noise the standard deviation
	// of the logarithm of what multiplies rates and latencies of a second; 0 is steady.
	Correlation, Noise float64
	// Trend multiplies the load at the end of the run, and 1/Trend at its start; 0 is 1.
	Trend float64
	// Seed is that of the random numbers, not of the scenario.
	Seed uint64
}

// A Side is one side.
type Side struct {
	Name string
	// Slower multiplies the latencies; 0 is 1.
	Slower float64
	// Bare is no limiter: its answers are not judged.
	Bare bool
}

// A Phase is a phase.
type Phase struct {
	Name    string
	Seconds int
}

// A Class is a class.
type Class struct {
	Name string
	Rate float64 // operations a second
	// Paced means that every second has the same number of operations.
	Paced bool
	// Median is that of the latencies in milliseconds; 0 is 5. Half of their logarithms are
	// within 0.67 times Spread of it; 0 is 0.4.
	Median, Spread float64
	// Slower multiplies the latencies; 0 is 1.
	Slower             float64
	Refused, Throttled float64 // shares
	// Writes multiplies the cost of what is admitted; 0 is 1.
	Writes float64
	// Lag is the mean of the generator's lag in milliseconds; 0 is a lag that is the same in
	// every run.
	Lag float64
	// Only is the phase in which the class is active; "" is all.
	Only string
}

// New makes the result of a run.
func New(run Run) *result.Result {
	r := rand.New(rand.NewPCG(run.Seed, 1))
	if run.Phases == nil {
		run.Phases = []Phase{{"all", 60}}
	}
	if run.Classes == nil {
		run.Classes = []Class{{Name: "Users", Rate: 100}}
	}
	if run.Sides == nil {
		run.Sides = []Side{{Name: "limiter"}}
	}
	if run.Scenario == "" {
		run.Scenario = "gateway"
	}
	out := &result.Result{
		Format: result.Format, Scenario: run.Scenario, About: "Two models behind one gateway.", Version: "v1.2.3",
		Target: "an engine in this process", Machine: "linux/amd64, 2 processors", Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Seed: 7, Limiters: 2, Namespace: "load-1", Prices: "us-east-1, 2026-01-01",
	}
	for _, side := range run.Sides {
		out.Sides = append(out.Sides, run.side(r, side))
	}
	for _, s := range out.Sides {
		for _, p := range s.Phases {
			out.Spent = out.Spent.Plus(p.Cost)
		}
	}
	return out
}

func (run *Run) side(r *rand.Rand, of Side) result.Side {
	s := result.Side{Name: of.Name}
	total, at := 0, 0
	for _, p := range run.Phases {
		total += p.Seconds
	}
	noise := r.NormFloat64() * run.Noise
	for i, p := range run.Phases {
		phase := phase{result.Phase{Name: p.Name}}
		var books []*book
		for _, c := range run.Classes {
			if c.Only == "" || c.Only == p.Name {
				books = append(books, &book{Class: c, bins: make([]int64, bins)})
			}
		}
		for range p.Seconds {
			noise = run.Correlation*noise + math.Sqrt(1-run.Correlation*run.Correlation)*run.Noise*r.NormFloat64()
			scale := math.Exp(noise)
			if run.Trend > 0 {
				scale *= math.Pow(run.Trend, 2*float64(at)/float64(total)-1)
			}
			sample := second(r, of, books, scale)
			sample.Side, sample.Phase, sample.At = of.Name, i, float64(at)
			if sample.Users = 64; at > total/2 {
				sample.Users = 96
			}
			sample.Shards = min(8, 1<<(4*at/total))
			s.Samples = append(s.Samples, sample)
			phase.Cost = phase.Cost.Plus(sample.Cost)
			at++
		}
		phase.close(books, float64(p.Seconds))
		s.Phases = append(s.Phases, phase.Phase)
	}
	answers := s.Answers()
	n := answers.Admitted
	s.Limits = []result.LimitUse{
		{Population: "tenants", Resource: "gpt-4o", Limit: "rpm", Demanded: answers.Operations, Entitled: n, Admitted: n},
		{Population: "tenants", Resource: "gpt-4o", Limit: "tpm", Demanded: 800 * answers.Operations, Entitled: 800 * n, Admitted: 790 * n},
	}
	if !of.Bare {
		s.Wrong = &result.Wrong{}
		s.Balance = &result.Balance{Buckets: 64, Booked: 801 * n, Found: 801 * n}
	}
	return s
}

// A phase is a phase being made.
type phase struct{ result.Phase }

// close adds what the classes measured, and the writes.
func (p *phase) close(books []*book, seconds float64) {
	writes := result.Writes{Reasons: map[string]int64{}}
	for _, b := range books {
		p.Classes = append(p.Classes, b.class(seconds))
		writes.Sent += b.answers.Admitted + b.answers.Throttled
		writes.Throttled += b.answers.Throttled
	}
	if writes.Throttled > 0 {
		writes.EarlySent, writes.EarlyThrottled = writes.Sent/10, writes.Throttled/2
		writes.Reasons["TableWriteKeyRangeThroughputExceeded"] = writes.Throttled - writes.Throttled/5
		writes.Reasons["unknown"] = writes.Throttled / 5
	}
	p.Populations = []result.Population{{Name: "tenants", Cost: p.Cost, Writes: writes, Shards: 4}}
}

// A book counts the operations of a class in a phase.
type book struct {
	Class
	bins    []int64 // by logarithm, from that of the least latency
	answers result.Answers
	all     []float64 // latencies
	lags    []float64
	sum     float64
}

// binWidth is the logarithm of the width of a bin, a little less than 2 %.
const binWidth = 0.0195

// bins is the number of bins, for latencies from a microsecond to an hour at least.
const bins = 2000

// second makes the operations of a second.
func second(r *rand.Rand, of Side, books []*book, scale float64) result.Sample {
	sample := result.Sample{Seconds: 1}
	var all, lags []float64
	for _, b := range books {
		slower := cmp.Or(of.Slower, 1) * cmp.Or(b.Slower, 1)
		before, from, lagsFrom := sample, len(all), len(lags)
		n := int(b.Rate)
		if !b.Paced {
			n = int(max(0, math.Round(b.Rate*scale+math.Sqrt(b.Rate*scale)*r.NormFloat64())))
		}
		sample.Due += int64(n)
		sample.Done += int64(n)
		for range n {
			latency := slower * scale * cmp.Or(b.Median, 5) * math.Exp(cmp.Or(b.Spread, 0.4)*r.NormFloat64())
			all, b.all = append(all, latency), append(b.all, latency)
			b.bins[bin(latency)]++
			b.sum += latency
			if b.Lag > 0 {
				lag := b.Lag * scale * r.ExpFloat64()
				lags, b.lags = append(lags, lag), append(b.lags, lag)
			}
			b.answer(r, scale, &sample)
		}
		if len(books) > 1 {
			of := sorted(all[from:])
			sample.Classes = append(sample.Classes, result.ClassSample{
				Name: b.Name, Done: int64(n), Refused: sample.Refused - before.Refused, Errors: sample.Throttled - before.Throttled,
				P50: at(of, 0.5), P99: at(of, 0.99), P999: at(of, 0.999), Lag: at(sorted(lags[lagsFrom:]), 0.99),
			})
		}
	}
	all, lags = sorted(all), sorted(lags)
	sample.P50, sample.P99, sample.P999 = at(all, 0.5), at(all, 0.99), at(all, 0.999)
	if len(lags) > 0 {
		sample.Lag = at(lags, 0.99)
	} else if len(all) > 0 {
		sample.Lag = result.Milliseconds(0.05 * math.Exp(0.2*r.NormFloat64()))
	}
	return sample
}

// answer makes the answer to an operation, and its cost.
func (b *book) answer(r *rand.Rand, scale float64, sample *result.Sample) {
	b.answers.Operations++
	switch u := r.Float64(); {
	case u < b.Throttled:
		b.answers.Throttled++
		b.answers.FirstError = "acquire: throttled"
		sample.Throttled++
		sample.WritesThrottled++
	case u < b.Throttled+b.Refused*scale:
		b.answers.Refused++
		sample.Refused++
	default:
		b.answers.Admitted++
		sample.Admitted++
		sample.Writes++
		units := 2 * cmp.Or(b.Writes, 1)
		sample.Cost = sample.Cost.Plus(result.Cost{Requests: 1, WCU: units, Dollars: units * 0.625e-6})
	}
	if r.Float64() < 0.1 {
		sample.Cost = sample.Cost.Plus(result.Cost{Requests: 1, RCU: 0.5, Dollars: 0.5 * 0.125e-6})
	}
}

func sorted(all []float64) []float64 { return slices.Sorted(slices.Values(all)) }

// at is a quantile of sorted latencies.
func at(sorted []float64, p float64) result.Milliseconds {
	if len(sorted) == 0 {
		return 0
	}
	return result.Milliseconds(sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)])
}

func (b *book) class(seconds float64) result.Class {
	slices.Sort(b.all)
	c := result.Class{Name: b.Name, Seconds: seconds, Due: b.answers.Operations, Answers: b.answers}
	c.Latency = result.Latency{P50: at(b.all, 0.5), P95: at(b.all, 0.95), P99: at(b.all, 0.99), P999: at(b.all, 0.999), Max: at(b.all, 1)}
	c.Latency.Histogram = histogram(b.bins)
	if len(b.all) > 0 {
		c.Latency.Mean = result.Milliseconds(b.sum / float64(len(b.all)))
		n := int64(len(b.all))
		c.Lag = result.Latency{Mean: 0.02, P50: 0.02, P95: 0.04, P99: 0.05, P999: 0.1, Max: 0.3, Histogram: []result.Bin{
			{UpTo: 0.02, Count: n - n/2}, {UpTo: 0.04, Count: n/2 - n/50}, {UpTo: 0.05, Count: n/50 - n/200}, {UpTo: 0.3, Count: n / 200},
		}}
	}
	if len(b.lags) > 0 {
		slices.Sort(b.lags)
		counts := make([]int64, bins)
		for _, lag := range b.lags {
			counts[bin(lag)]++
		}
		c.Lag = result.Latency{P50: at(b.lags, 0.5), P95: at(b.lags, 0.95), P99: at(b.lags, 0.99), P999: at(b.lags, 0.999), Max: at(b.lags, 1), Histogram: histogram(counts)}
	}
	return c
}

// bin is the index of the bin of a duration.
func bin(ms float64) int { return max(0, int(math.Ceil(math.Log(ms)/binWidth))+bins/2) }

// histogram has the bins with a count.
func histogram(counts []int64) (all []result.Bin) {
	for i, n := range counts {
		if n > 0 {
			all = append(all, result.Bin{UpTo: result.Milliseconds(math.Exp(float64(i-bins/2) * binWidth)), Count: n})
		}
	}
	return all
}
