package estimate

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
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
	// Windows is the number of usage windows that an aggregator counts; 0 is no aggregator.
	Windows int
	// Retention is how long usage is kept; default 90 days.
	Retention time.Duration
	// Function are the assumptions on the aggregator's function.
	Function Function
	// MaxOperations bounds the operations that are worked out one by one, for each side;
	// default 2,000,000. A load of more is worked out in less time with the same shape, and
	// multiplied.
	MaxOperations int64
}

// FromMemory is how long an operation that needs no request is assumed to take.
const FromMemory = 20 * time.Microsecond

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

// Scenario works out what a run of a scenario costs. It carries out the load in virtual
// time on a model of the limiter and its table: about a million operations a second of
// processor time. It fails with a [store.ValidationError] that names the option that is out
// of bounds.
func Scenario(p *scenario.Plan, o ScenarioOptions) (*Run, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	r := &Run{Scenario: p.Name, Simulated: 1, Sum: Cost{Name: "sum"}}
	var setUp, load book
	registered := Cost{Name: PartSetUp}
	for _, side := range p.Sides {
		of := newRehearsal(p, side, &o)
		if err := of.run(); err != nil {
			return nil, err
		}
		setUp.plus(&of.setUp)
		load.plus(&of.load)
		r.Seconds += (p.WarmUp + p.Duration()).Seconds()
		r.Operations += of.operations
		r.Refused += of.refused
		r.Shards = max(r.Shards, of.shards)
		r.Simulated = min(r.Simulated, 1/of.times)
		registered = registered.plus(registration(p, side))
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
		Rate: 1, Latency: o.Latency, ConfigTTL: o.ConfigTTL, Windows: o.Windows, Retention: o.Retention, Function: o.Function,
	}
	l.fill()
	if err := l.validate(); err != nil {
		return err
	}
	const operations = 1_000_000
	if o.MaxOperations = or(o.MaxOperations, operations); o.MaxOperations < 1 {
		return invalid("max operations", float64(o.MaxOperations), "give 1 or more")
	}
	o.Latency, o.ConfigTTL, o.Retention, o.Function = l.Latency, l.ConfigTTL, l.Retention, l.Function
	return nil
}

// A rehearsal works out one side.
type rehearsal struct {
	p    *scenario.Plan
	side scenario.Side
	o    *ScenarioOptions

	s                     *simulation // the last one, which carried out the whole load
	setUp, load, measured book
	took                  time.Duration // of the simulated measurement
	times                 float64       // that the load lasts, compared with what was simulated
	operations, refused   float64
	shards                int
}

func newRehearsal(p *scenario.Plan, side scenario.Side, o *ScenarioOptions) *rehearsal {
	return &rehearsal{p: p, side: side, o: o, times: 1}
}

// run simulates the load, in less time if it has too many operations.
func (r *rehearsal) run() error {
	const margin = 0.9
	p := r.p
	for {
		s := newSimulation(p, r.side, r.o)
		var done float64
		r.setUp, r.load, r.measured, done = s.drive()
		if done == 1 {
			r.end(s)
			return nil
		}
		r.times /= done * margin
		shorter := r.p.Scaled(max(time.Millisecond, time.Duration(float64(r.p.Duration())/r.times)))
		shorter.WarmUp = time.Duration(float64(r.p.WarmUp) / r.times)
		next, err := shorter.Plan()
		if err != nil {
			return fmt.Errorf("shorten scenario %s: %w", r.p.Name, err)
		}
		p = next
	}
}

func (r *rehearsal) end(s *simulation) {
	r.s, r.took, r.shards = s, s.p.Duration(), 1
	r.operations, r.refused = float64(s.operations)*r.times, float64(s.refused)*r.times
	r.load.last(r.times)
	for _, it := range s.buckets {
		r.shards = max(r.shards, len(it.shards))
	}
}

// Units of what sets a load up, by TestCosts of package dynamo.
const (
	namespaceWrites                          = 12
	openReads                                = 2
	resourceLimitsWrites, resourceLimitReads = 10, 1
	entityWrites, childWrites                = 8, 12
	// childReads find out if an entity that is to cascade has children that cascade to it.
	childReads                            = 0.5
	entityLimitsWrites, entityLimitsReads = 12, 2
	// retentionReads find out how long audit events are kept, before the first change.
	retentionReads = 1
	// registryWrites are those of the first limits of a resource, and of an entity, in a
	// namespace: they begin a list.
	registryWrites = 2
)

// splitWrites are the write units of a split of a shard whose item costs so many. It is a
// transaction of two items, and one of them is new in three indexes.
func splitWrites(units float64) float64 {
	const indexes, transaction = 3, 2
	return transaction * (2*units + indexes)
}

// registration is what a side costs before its buckets: its namespace, its stores, and the
// entities and limits of a limiter.
func registration(p *scenario.Plan, side scenario.Side) Cost {
	r := Cost{Name: PartSetUp, Requests: 2, Writes: namespaceWrites, Reads: openReads}
	if side == scenario.Bare {
		return r
	}
	add := func(n int, requests, writes, reads float64) {
		r.Requests += float64(n) * requests
		r.Writes += float64(n) * writes
		r.Reads += float64(n) * reads
	}
	crews, shared := 0, 0
	for i := range p.Classes {
		if p.Classes[i].Apart && side == scenario.Limiter {
			crews++
		} else {
			shared = 1
		}
	}
	add((crews+shared)*p.Limiters, 1, 0, openReads)
	add(len(p.Resources), 2, resourceLimitsWrites, resourceLimitReads)
	add(1, 1, registryWrites, retentionReads)
	limited := 0
	for i := range p.Entities {
		e := &p.Entities[i]
		switch {
		case e.IsParent:
			add(1, 1, entityWrites, 0)
		case e.Parent >= 0:
			add(1, 2, childWrites, childReads)
		}
		if e.Limits != nil {
			const requests = 4
			add(1, requests, entityLimitsWrites, entityLimitsReads)
			limited++
		}
	}
	if limited > 0 {
		r.Writes += registryWrites
	}
	return r
}

// month is the measured load as rates.
func (r *rehearsal) month() *Estimate {
	seconds := r.took.Seconds()
	b := r.measured
	b.of[causeNew], b.of[causeDoubled] = cost{}, cost{}
	e := &Estimate{
		Load:   Load{Processes: r.p.Limiters, Function: r.o.Function},
		Shards: r.shards, Records: b.records / seconds, Invocations: b.batches / seconds,
	}
	// A short load begins the windows of all its buckets; a month begins each once.
	for i := range r.o.Windows {
		const begun = 2
		active := float64(len(r.s.stream.opened[i]))
		b.of[causeUsage].writes += begun * (active*seconds/max(windows[i].Seconds(), seconds) - b.opened[i])
		kept := r.o.Retention.Seconds()/windows[i].Seconds() + 1
		e.StoredBytes += active * kept * (usageItem + overhead)
	}
	e.Sum.Name = "sum"
	for _, c := range b.costs() {
		e.add(Part{Name: c.Name, Requests: c.Requests / seconds, Writes: c.Writes / seconds, Reads: c.Reads / seconds})
	}
	for _, it := range r.s.buckets {
		if it.exists {
			bytes := r.s.size(it)
			e.Load.ItemBytes = max(e.Load.ItemBytes, bytes)
			e.StoredBytes += float64(len(it.shards) * (bytes + overhead))
		}
	}
	return e
}

// finish makes the costs of all sides together.
func (r *Run) finish(registered Cost, setUp, load *book) {
	made := Cost{Name: PartPrimed}
	for _, c := range setUp.costs() {
		made = made.plus(c)
	}
	if r.SetUp = []Cost{registered}; made.Requests > 0 {
		r.SetUp = append(r.SetUp, made)
	}
	r.Load = load.costs()
	for _, c := range slices.Concat(r.SetUp, r.Load) {
		r.Sum = r.Sum.plus(c)
	}
}

func (c Cost) plus(other Cost) Cost {
	c.Requests += other.Requests
	c.Writes += other.Writes
	c.Reads += other.Reads
	return c
}
