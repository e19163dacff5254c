package loadtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// sampleEvery is the length of the interval of a sample.
const sampleEvery = time.Second

// A sampler takes the samples of a side.
type sampler struct {
	side  *side
	to    *result.Side
	start time.Time // of the side's measurement

	phase           int
	stretch         *stretch
	last            time.Time
	cost            dynamo.Usage
	sent, throttled int64
	merged, class   counts
	schedules       []*scenario.Schedule // by class of the stretch
}

// during takes samples while a stretch is driven.
func (s *sampler) during(ctx context.Context, phase int, st *stretch, drive func()) {
	s.phase, s.stretch, s.last, s.cost = phase, st, s.side.run.o.Now(), s.side.router.total()
	s.sent, s.throttled = 0, 0
	s.merged, s.class = newCounts(), newCounts()
	s.schedules = nil
	for _, d := range st.drivers {
		s.schedules = append(s.schedules, s.side.plan.Schedule(d.Class, st.from))
	}
	began, done := s.last, make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				// The sample at the end has the operations that are still under way then, and
				// not a few of them alone: a rate of some milliseconds is no rate.
				left := st.length - s.side.run.o.Now().Sub(began)
				if left.Abs() >= sampleEvery/2 {
					s.take(ctx)
				}
			}
		}
	})
	drive()
	close(done)
	sampling.Wait()
	s.take(ctx)
}

// take takes the sample of the time since the last one.
func (s *sampler) take(ctx context.Context) {
	now := s.side.run.o.Now()
	if !now.After(s.last) {
		return
	}
	m := &s.merged
	m.reset()
	users, due := 0, int64(0)
	var classes []result.ClassSample
	for i, t := range s.stretch.tallies {
		class := &s.side.plan.Classes[s.stretch.drivers[i].Class]
		s.class.reset()
		t.take(&s.class)
		m.add(&s.class)
		if len(s.stretch.tallies) > 1 {
			classes = append(classes, s.class.sample(class.Name))
		}
		at := min(now.Sub(s.stretch.start), s.stretch.length)
		if class.Arrival.Open() {
			due += s.schedules[i].Skip(at)
			continue
		}
		due += s.class.begun
		users += s.schedules[i].Users(min(at, s.stretch.length-1))
	}
	cost := s.side.router.total()
	sent, throttled := s.side.router.writes()
	sample := result.Sample{
		Side: string(s.side.kind), Phase: s.phase, At: s.last.Sub(s.start).Seconds(), Seconds: now.Sub(s.last).Seconds(),
		Due: due, Done: m.answers.Operations, Admitted: m.answers.Admitted, Refused: m.answers.Refused,
		Throttled: m.answers.Throttled, Unavailable: m.answers.Unavailable, Failed: m.answers.Failed, Slow: m.slow,
		P50: m.latency.at(50), P99: m.latency.at(99), P999: m.latency.at(99.9), Lag: m.lag.at(99),
		Cost: s.side.run.cost(less(cost, s.cost)), Writes: sent - s.sent, WritesThrottled: throttled - s.throttled, Users: users,
		Shards: s.shards(ctx), Classes: classes,
	}
	if sample.Seconds < sampleEvery.Seconds()/2 && sample.Due+sample.Done == 0 {
		return // the ticker has just taken the phase's last operations
	}
	s.last, s.cost, s.sent, s.throttled = now, cost, sent, throttled
	s.to.Samples = append(s.to.Samples, sample)
	r := s.side.run
	r.o.Observe(Progress{
		Side: s.side.kind, Phase: s.phase, Sample: &sample, Planned: r.planned(),
		Done: r.over + min(now.Sub(s.stretch.start), s.stretch.length),
	})
}

// sample is what the counts are in a sample.
func (c *counts) sample(class string) result.ClassSample {
	return result.ClassSample{
		Name: class, Done: c.answers.Operations, Refused: c.answers.Refused, Errors: c.answers.Errors(),
		P50: c.latency.at(50), P99: c.latency.at(99), P999: c.latency.at(99.9), Lag: c.lag.at(99),
	}
}

// shards is the number of items of the side's busiest bucket, 0 if it cannot be read now.
func (s *sampler) shards(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sampleEvery)
	defer cancel()
	var busiest *account
	for p := range s.side.books.busiest {
		if a := s.side.books.busiest[p].Load(); a != nil && (busiest == nil || a.demand() > busiest.demand()) {
			busiest = a
		}
	}
	if busiest == nil {
		return 0
	}
	shards, err := s.side.shards(ctx, busiest)
	if err != nil {
		return 0
	}
	return shards
}

// unreliable says why the figures of a result are not those of the limiter, "" if they are.
func unreliable(r *result.Result, maxLag time.Duration) string {
	const most = 0.1 // of the 99th percentile of the latency
	for i := range r.Sides {
		for k := range r.Sides[i].Phases {
			p := &r.Sides[i].Phases[k]
			for j := range p.Classes {
				c := &p.Classes[j]
				of := fmt.Sprintf("side %s, phase %s, class %s: ", r.Sides[i].Name, p.Name, c.Name)
				if late := c.Lag.P99.Duration(); late > maxLag && float64(c.Lag.P99) > most*float64(c.Latency.P99) {
					return fmt.Sprintf("%sthe generator itself was %v late at the 99th percentile; at most %v is allowed: lower the rate, or use more machines", of, late.Round(time.Microsecond), maxLag)
				}
				if left := c.Due - c.Answers.Operations; left > 0 && !r.Interrupted {
					return fmt.Sprintf("%s%d operations that were due were never begun: the rate is higher than what all clients together carry out", of, left)
				}
			}
		}
	}
	return ""
}
