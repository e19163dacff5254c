package estimate

import (
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// A busy is what requests to one bucket cost, a second.
type busy struct {
	writes, retries float64 // writes of admitted requests, and those that were repeated
	refused         float64 // writes for refused requests
	reads           float64 // read units of looks before a write
	reached         float64 // records that reach the aggregator's function
	shards          int
}

// meet works out what the busiest bucket, each other one, a limited one and a parent's cost. If
// requests meet at a bucket, or are refused, they are rehearsed: callers of a process share
// writes, and processes take turns.
func (l *Load) meet(s split) (err error) {
	const rarely = 0.01 // so rarely a request finds another one under way that it does not matter
	for _, of := range []struct {
		is   *busy
		rate float64
	}{{&l.busy.hot, s.hot}, {&l.busy.each, s.each}, {&l.busy.parent, s.parent}} {
		*of.is = busy{shards: 1, writes: of.rate, retries: of.rate * l.contentionShare()}
		if of.rate*l.Latency.Seconds() <= rarely*float64(l.Processes) {
			continue
		}
		const plenty = 1_000_000_000
		if *of.is, err = l.rehearsed(of.rate, store.Limit{Name: "l", Capacity: plenty, Amount: plenty, Period: time.Second}); err != nil {
			return err
		}
	}
	if s.limited > 0 {
		l.busy.limited, err = l.rehearsed(s.asked, limitOf(s.asked*(1-l.RefusedOf)))
	}
	return err
}

// limitOf is a limit that admits so many requests a second, a minute's at once.
func limitOf(rate float64) store.Limit {
	const slowest = 1e-5 // about one a day
	period := time.Minute
	if rate*period.Seconds() < 1 {
		period = time.Duration(float64(time.Second) / max(rate, slowest)).Round(time.Millisecond)
	}
	n := max(1, int64(math.Round(rate*period.Seconds())))
	return store.Limit{Name: "l", Capacity: n, Amount: n, Period: period}
}

// rehearsed carries out requests to one bucket, which is empty at first if its limit may refuse
// any.
func (l *Load) rehearsed(rate float64, limit store.Limit) (busy, error) {
	const (
		operations, most, clients = 5_000, 20_000, 10_000 // of the rehearsal, a second, and at once
		warmUp, shortest          = 2 * time.Second, 2 * time.Second
		longest                   = 24 * time.Hour
	)
	factor := max(1, rate/most)
	rate /= factor
	p, err := (&scenario.Scenario{
		Name: "bucket", Limiters: min(l.Processes, maxLimiters), Sides: []scenario.Side{scenario.Limiter}, WarmUp: warmUp,
		Phases:      []scenario.Phase{{Name: "all", For: min(longest, max(shortest, time.Duration(operations/rate*float64(time.Second))))}},
		Resources:   []scenario.Resource{{Name: "r", Limits: []store.Limit{limit}}},
		Populations: []scenario.Population{{Name: "e", Count: 1, Exhausted: float64(limit.Amount) < rate*limit.Period.Seconds()}},
		Classes: []scenario.Class{{
			Name: "c", From: []scenario.Share{{Weight: 1}}, Resources: []scenario.Weighted{{Weight: 1}},
			Calls:   []scenario.Call{{Weight: 1, Consume: []scenario.Amount{{Limit: "l", Least: 1, Most: 1}}}},
			Arrival: scenario.Arrival{Stages: []scenario.Stage{{FromRate: rate, ToRate: rate}}, Poisson: true, Clients: clients},
		}},
	}).Plan()
	if err != nil {
		return busy{}, err
	}
	o := ScenarioOptions{Latency: l.Latency, ConfigTTL: l.ConfigTTL, Aggregator: l.Aggregator, Function: l.Function}
	if err := o.complete(); err != nil {
		return busy{}, err
	}
	r, err := rehearse(&rehearsal{p: p, side: scenario.Limiter, o: &o, most: math.MaxInt64, scatters: true})
	if err != nil {
		return busy{}, err
	}
	of, per := &r.measured.of, factor*rate/max(1, r.measured.operations)
	return busy{
		writes: of[causeAdmitted].Writes * per, retries: of[causeContention].Writes * per, refused: of[causeRefused].Writes * per,
		reads: (of[causeContention].Reads + of[causeRefused].Reads) * per, shards: r.shards,
		reached: r.measured.reached * per,
	}, nil
}

// maxLimiters is the largest number of limiters of a scenario. More processes than that at
// one bucket cost as much.
const maxLimiters = 1000
