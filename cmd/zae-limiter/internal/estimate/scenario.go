package estimate

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// ScenarioOptions are what a scenario does not say. The zero value of a field is its
// default.
type ScenarioOptions struct {
	// Latency is how long a request to the table takes; default 5 ms. A user sends the next
	// operation after the end of the one before, so the number of operations depends on it.
	Latency time.Duration
	// Cold leaves out the first acquires of all buckets, by which a run makes them before it
	// drives the load. Buckets that are to be exhausted are made all the same.
	Cold bool
	// ConfigTTL is the limiters' time to live of configuration; default a minute.
	ConfigTTL time.Duration
	// Aggregator means that an aggregator reads the table's stream.
	Aggregator bool
	// Retention is how long usage is kept; default 90 days.
	Retention time.Duration
	// Function are the assumptions on the aggregator's function.
	Function Function
	// MaxOperations bounds the operations that are worked out one by one, for each side;
	// default 50,000. A load of more is worked out in less time with the same shape, and
	// multiplied.
	MaxOperations int64
}

// A Run is what a run of a scenario costs, and a month of its load.
type Run struct {
	Scenario string `json:"scenario"`
	// Seconds are those of all warm-ups and measurements.
	Seconds float64 `json:"duration_seconds"`
	// SetUp are the namespaces, entities, limits and buckets, and Load the warm-ups and the
	// measurements.
	SetUp []Cost `json:"set_up"`
	Load  []Cost `json:"load"` // cost of the load by part
	Sum   Cost   `json:"sum"`  // the sum of all parts

	Operations float64 `json:"operations"` // operations of the run
	Refused    float64 `json:"refused"`    // operations that are refused
	// Shards are those of the bucket with the most shards.
	Shards int `json:"most_shards"`
	// Simulated is the part of the load that was worked out operation by operation.
	Simulated float64 `json:"simulated"`
	// Month is the measured load of the first side on the limiter as an average of a month;
	// the figures of its parts are rates. It leaves out the set-up and new buckets.
	Month *Estimate `json:"month,omitempty"`
}

// A Cost is what one cause costs in a run.
type Cost struct {
	Name     string  `json:"name"`     // the part
	Requests float64 `json:"requests"` // requests to DynamoDB
	Writes   float64 `json:"write_units"`
	Reads    float64 `json:"read_units"`
}

// Dollars is what the run itself costs on demand.
func (r *Run) Dollars(p *Prices) float64 {
	return (r.Sum.Writes*p.WriteUnits.Dollars + r.Sum.Reads*p.ReadUnits.Dollars) / million
}

// Scenario works out what a run of a scenario costs. It carries out the load in virtual time, with
// limiters on the embedded engine: about ten thousand operations a second of processor time. It
// fails with a [store.ValidationError] that names the option that is out of bounds. It panics in
// a bubble of testing/synctest, as [New] may.
func Scenario(p *scenario.Plan, o ScenarioOptions) (*Run, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	r := &Run{Scenario: p.Name, Simulated: 1, Sum: Cost{Name: "sum"}}
	var setUp, load book
	registered := Cost{Name: PartSetUp}
	for _, side := range p.Sides {
		of, times, err := whole(p, side, &o)
		if err != nil {
			return nil, err
		}
		lasting := of.load.last(times)
		setUp.plus(&of.setUp, 1)
		load.plus(&lasting, 1)
		registered = registered.plus(of.registered, 1)
		r.Seconds += (p.WarmUp + p.Duration()).Seconds()
		r.Operations += lasting.operations
		r.Refused += lasting.refused
		r.Shards = max(r.Shards, of.shards)
		r.Simulated = min(r.Simulated, 1/times)
		if side != scenario.Bare && r.Month == nil {
			r.Month = of.month()
		}
	}
	r.finish(registered, &setUp, &load)
	return r, nil
}

// complete fills in the defaults and checks the options.
func (o *ScenarioOptions) complete() error {
	l := Load{
		Rate: 1, Latency: o.Latency, ConfigTTL: o.ConfigTTL, Aggregator: o.Aggregator, Retention: o.Retention, Function: o.Function,
	}
	l.fill()
	if err := l.validate(); err != nil {
		return err
	}
	const operations = 50_000
	if o.MaxOperations = or(o.MaxOperations, operations); o.MaxOperations < 1 {
		return invalid("max operations", float64(o.MaxOperations), "give 1 or more")
	}
	o.Latency, o.ConfigTTL, o.Retention, o.Function = l.Latency, l.ConfigTTL, l.Retention, l.Function
	return nil
}

// whole rehearses a side, in less time if it has too many operations. Its load then lasts so
// many times as long.
func whole(p *scenario.Plan, side scenario.Side, o *ScenarioOptions) (of *rehearsal, times float64, err error) {
	const each, least = 2, 1e-3
	users := 0
	for c := range p.Classes {
		for _, stage := range p.Classes[c].Arrival.Stages {
			users = max(users, stage.Users)
		}
	}
	bounded := *o
	bounded.MaxOperations = max(o.MaxOperations, int64(each*users*len(p.Classes))) // they all begin, however short the load is
	times, err = timesOf(p, side, &bounded)
	for err == nil {
		if of, err = shorter(p, times, side, o, bounded.MaxOperations); err != nil || of.done == 1 {
			return of, times, err
		}
		times /= max(least, of.done) * margin
	}
	return nil, 0, err
}

// margin is the part of the operations that a load in less time is to have, since nobody knows
// how many there will be.
const margin = 0.85

// timesOf finds out by what factor a load is to be shorter. The operations of rates are known. How
// many users send depends on the answers: timesOf carries out the load in a small part of its
// time, with the same shape.
func timesOf(p *scenario.Plan, side scenario.Side, o *ScenarioOptions) (float64, error) {
	const short, few, least = 64, 8, 1e-3
	all, hasUsers := 0.0, false
	for c := range p.Classes {
		hasUsers = hasUsers || !p.Classes[c].Arrival.Open()
		all += p.Schedule(c, -p.WarmUp).Expected(0, p.WarmUp+p.Duration())
	}
	if hasUsers {
		cold, most := *o, max(1, o.MaxOperations/few)
		cold.Cold = true
		of, err := shorter(p, short, side, &cold, most)
		if err != nil {
			return 0, err
		}
		all = float64(min(of.count.Load(), most)) / max(least, of.done) * short
	}
	return max(1, all/(margin*float64(o.MaxOperations))), nil
}

// shorter rehearses a side of a load that lasts a part of its time.
func shorter(p *scenario.Plan, times float64, side scenario.Side, o *ScenarioOptions, most int64) (*rehearsal, error) {
	if times > 1 {
		s := p.Scaled(max(time.Millisecond, time.Duration(float64(p.Duration())/times)))
		s.WarmUp = time.Duration(float64(p.WarmUp) / times)
		var err error
		if p, err = s.Plan(); err != nil {
			return nil, fmt.Errorf("shorten scenario %s: %w", p.Name, err)
		}
	}
	return rehearse(&rehearsal{p: p, side: side, o: o, most: most})
}

// month is the measured load as rates.
func (r *rehearsal) month() *Estimate {
	seconds := r.p.Duration().Seconds()
	b := r.measured
	b.of[causeNew], b.of[causeDoubled] = Cost{}, Cost{}
	e := &Estimate{
		Load:   Load{Processes: r.p.Limiters, ItemBytes: r.bytes, Function: r.o.Function},
		Shards: r.shards, Records: b.records / seconds, Invocations: b.batches / seconds, StoredBytes: r.stored,
	}
	// A short load fills no pages.
	pages := pagesOf(r.buckets, (b.operations-b.refused)/seconds/max(1, r.buckets), r.limits, r.bytes)
	b.of[causeUsage] = Cost{Requests: requestsOfPage * pages * seconds, Writes: pages * seconds, Reads: pages * seconds}
	e.StoredBytes += pagesKept(pages, r.o.Retention)
	e.Sum.Name = "sum"
	for _, c := range b.costs() {
		e.add(Part{Name: c.Name, Requests: c.Requests / seconds, Writes: c.Writes / seconds, Reads: c.Reads / seconds})
	}
	return e
}

// finish makes the costs of all sides together.
func (r *Run) finish(registered Cost, setUp, load *book) {
	made := Cost{Name: PartPrimed}
	for _, c := range setUp.costs() {
		made = made.plus(c, 1)
	}
	if r.SetUp = []Cost{registered}; made.Requests > 0 {
		r.SetUp = append(r.SetUp, made)
	}
	r.Load = load.costs()
	for _, c := range slices.Concat(r.SetUp, r.Load) {
		r.Sum = r.Sum.plus(c, 1)
	}
}

// plus adds another cost, so many times.
func (c Cost) plus(other Cost, times float64) Cost {
	c.Requests += times * other.Requests
	c.Writes += times * other.Writes
	c.Reads += times * other.Reads
	return c
}
