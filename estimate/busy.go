package estimate

import (
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// A busy is what requests to one bucket cost that nobody is refused, in writes a second.
type busy struct {
	writes, retries float64
	shards          int
}

// busy works out a bucket that gets so many requests a second of all processes together. If
// several processes meet at it, it is simulated: they pace their writes.
func (l *Load) busy(rate float64) busy {
	if b, ok := l.buckets[rate]; ok {
		return b
	}
	const rarely = 0.01 // so rarely a request finds another one under way that it does not matter
	p := float64(l.Processes)
	b := busy{shards: 1}
	if l.Processes > 1 && rate*l.Latency.Seconds() > rarely*p {
		b = l.simulated(rate)
	} else {
		b.writes = p * lane(rate/p, l.Latency, l.places())
		b.retries = b.writes * l.contentionShare()
	}
	l.buckets[rate] = b
	return b
}

// simulated carries out requests to one bucket whose limits are wide.
func (l *Load) simulated(rate float64) busy {
	const (
		operations, most = 20_000, 100_000 // of the simulation, and a second
		warmUp, shortest = 2 * time.Second, 2 * time.Second
		clients, limit   = 100_000, 1_000_000_000
	)
	factor := max(1, rate/most)
	rate /= factor
	of := &scenario.Scenario{
		Name: "bucket", Limiters: min(l.Processes, maxLimiters), Sides: []scenario.Side{scenario.Limiter}, WarmUp: warmUp,
		Phases:      []scenario.Phase{{Name: "all", For: max(shortest, time.Duration(operations/rate*float64(time.Second)))}},
		Resources:   []scenario.Resource{{Name: "r", Limits: []store.Limit{{Name: "l", Capacity: limit, Amount: limit, Period: time.Second}}}},
		Populations: []scenario.Population{{Name: "e", Count: 1}},
		Classes: []scenario.Class{{
			Name: "c", From: []scenario.Share{{Weight: 1}}, Resources: []scenario.Weighted{{Weight: 1}},
			Calls:   []scenario.Call{{Weight: 1, Consume: []scenario.Amount{{Limit: "l", Least: 1, Most: 1}}}},
			Arrival: scenario.Arrival{Stages: []scenario.Stage{{FromRate: rate, ToRate: rate}}, Poisson: true, Clients: clients},
		}},
	}
	o := ScenarioOptions{Latency: l.Latency, ConfigTTL: l.ConfigTTL}
	if err := o.complete(); err != nil {
		panic(err) // the load was validated
	}
	p, err := of.Plan()
	if err != nil {
		panic(err) // the scenario is always the same one
	}
	s := newSimulation(p, scenario.Limiter, &o)
	s.scatters = true
	_, _, measured, _ := s.drive()
	per := factor / p.Duration().Seconds()
	return busy{
		writes: measured.of[causeAdmitted].writes * per, retries: measured.of[causeContention].writes * per,
		shards: len(s.bucket(bucketKey{}).shards),
	}
}

// maxLimiters is the largest number of limiters of a scenario. More processes than that at
// one bucket cost as much.
const maxLimiters = 1000
