// Package promlimit has Prometheus metrics of a limiter. A [Collector] observes any
// number of limiters:
//
//	metrics, err := promlimit.New(promlimit.Options{})
//	…
//	prometheus.MustRegister(metrics)
//	limits, err := limiter.New(store, limiter.Options{Observer: metrics})
//
// docs/metrics.md lists the metrics. The folder grafana has a dashboard, and the file
// alerts.yaml has alert rules.
//
// No label has an entity. The number of series is bounded, whatever requests ask for: at
// most [Options.MaxResources] resources and those of [Options.Resources] have labels of
// their own, and of each at most 64 limits. All others have the label "_other". A
// resource gets its label with the first configuration or decision that shows that it has
// limits, so a failed request gives no label.
package promlimit

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultMaxResources is the default of [Options.MaxResources].
const DefaultMaxResources = 50

// Options configure a [Collector]. The zero value works.
type Options struct {
	// MaxResources is how many resources have labels of their own, besides Resources. At
	// most half of them have no limits of their own, but the system's, an entity's or the
	// request's. Default [DefaultMaxResources].
	MaxResources int
	// Resources always have labels of their own.
	Resources []string
}

// A Collector observes limiters, and collects what Prometheus scrapes. It is safe for
// concurrent use.
type Collector struct {
	names *names
	all   []prometheus.Collector

	decisions, refusals, taken, returned, settlements, errors *prometheus.CounterVec
	operations, operationErrors, requests, units              *prometheus.CounterVec
	callDuration, shards, operationDuration                   *prometheus.HistogramVec
	capacity, rate                                            *prometheus.GaugeVec

	mu     sync.Mutex
	levels map[string][]limiter.Limit // by resource, "" for the system: the configuration last seen
}

var (
	_ prometheus.Collector = (*Collector)(nil)
	_ limiter.Observer     = (*Collector)(nil)
)

// New returns a collector. It fails with a [*limiter.ValidationError] if an option is
// invalid.
func New(o Options) (*Collector, error) {
	if err := store.CheckNotNegative("MaxResources", o.MaxResources); err != nil {
		return nil, err
	}
	for _, name := range o.Resources {
		if err := store.CheckResource(name); err != nil {
			return nil, fmt.Errorf("option Resources: %w", err)
		}
	}
	if o.MaxResources == 0 {
		o.MaxResources = DefaultMaxResources
	}
	c := &Collector{
		names:     newNames(o.MaxResources, o.Resources),
		decisions: decisions.counter(), refusals: refusals.counter(), taken: taken.counter(), returned: returned.counter(),
		settlements: settlements.counter(), errors: callErrors.counter(), callDuration: callDuration.histogram(), shards: shards.histogram(),
		operations: operations.counter(), operationErrors: operationErrors.counter(), operationDuration: operationDuration.histogram(),
		requests: requests.counter(), units: units.counter(), capacity: capacity.gauge(), rate: rate.gauge(),
		levels: map[string][]limiter.Limit{},
	}
	c.all = []prometheus.Collector{
		c.decisions, c.refusals, c.taken, c.returned, c.settlements, c.errors, c.callDuration, c.shards,
		c.operations, c.operationErrors, c.operationDuration, c.requests, c.units, c.capacity, c.rate,
	}
	return c, nil
}

// Describe sends the descriptions of the metrics.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, each := range c.all {
		each.Describe(to)
	}
}

// Collect sends the metrics.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, each := range c.all {
		each.Collect(to)
	}
}

// BeginCall returns the context as it is.
func (c *Collector) BeginCall(ctx context.Context, _ limiter.Call) context.Context { return ctx }

// BeginOperation returns the context as it is.
func (c *Collector) BeginOperation(ctx context.Context, _ limiter.Operation) context.Context {
	return ctx
}

// EndCall counts a call.
func (c *Collector) EndCall(_ context.Context, r limiter.CallResult) {
	of := c.names.known(r.Resource)
	if r.Result == limiter.Admitted || r.Result == limiter.Refused {
		of = c.names.claim(r.Resource, false)
	}
	c.callDuration.WithLabelValues(of.label, string(r.Kind), string(r.Result)).Observe(r.Latency.Seconds())
	if kind := limiter.ErrorKind(r.Err); kind != "" && r.Result != limiter.Refused {
		c.errors.WithLabelValues(of.label, string(r.Kind), kind).Inc()
	}
	switch r.Kind {
	case limiter.CallAcquire:
		c.decided(of, &r)
	case limiter.CallCommit, limiter.CallRollback:
		c.settled(of, &r)
	case limiter.CallAvailable:
	}
}

// decided counts an acquire.
func (c *Collector) decided(of *resource, r *limiter.CallResult) {
	source := "store"
	switch {
	case r.FromMemory:
		source = "memory"
	case r.Carried:
		source = "shared"
	}
	c.decisions.WithLabelValues(of.label, string(r.Result), source).Inc()
	if r.Shards > 0 {
		c.shards.WithLabelValues(of.label).Observe(float64(r.Shards))
	}
	if r.Result == limiter.Admitted {
		for name, tokens := range r.Consume {
			c.taken.WithLabelValues(of.label, of.limit(name)).Add(float64(tokens))
		}
	}
	for i := range r.Statuses {
		if s := &r.Statuses[i]; s.Exceeded {
			bucket := "entity"
			if s.Entity != r.Entity {
				bucket = "parent"
			}
			c.refusals.WithLabelValues(of.label, of.limit(s.Limit.Name), bucket, source).Inc()
		}
	}
}

// settled counts a commit or rollback.
func (c *Collector) settled(of *resource, r *limiter.CallResult) {
	c.settlements.WithLabelValues(of.label, string(r.Kind), string(r.Result)).Inc()
	for _, a := range r.Settled {
		limit := of.limit(a.Limit)
		if a.Milli > 0 {
			c.taken.WithLabelValues(of.label, limit).Add(float64(a.Milli) / store.Milli)
		} else {
			c.returned.WithLabelValues(of.label, limit).Add(float64(-a.Milli) / store.Milli)
		}
	}
}

// EndOperation counts an operation, and notes the configuration that it has read.
func (c *Collector) EndOperation(_ context.Context, r limiter.OperationResult) {
	for i, k := range r.Keys {
		if k.Entity == "" {
			c.configured(k.Resource, r.Configs[i])
		}
	}
	of, kind := c.names.known(r.Resource).label, string(r.Kind)
	result := "done"
	switch {
	case r.Err != nil:
		result = "failed"
		c.operationErrors.WithLabelValues(of, kind, limiter.ErrorKind(r.Err)).Inc()
	case r.Refused:
		result = "refused"
	}
	c.operations.WithLabelValues(of, kind, result).Inc()
	c.operationDuration.WithLabelValues(kind).Observe(r.Latency.Seconds())
	c.requests.WithLabelValues(of, kind).Add(float64(r.Cost.Requests))
	c.units.WithLabelValues(of, "read").Add(r.Cost.ReadUnits)
	c.units.WithLabelValues(of, "write").Add(r.Cost.WriteUnits)
}

// configured sets the gauges of the limits of a level, a resource's or the system's.
func (c *Collector) configured(name string, config *limiter.Config) {
	var limits []limiter.Limit
	if config != nil {
		limits = config.Limits
	}
	level, of := "system", &resource{}
	if name != "" {
		level, of = "resource", c.names.known(name)
		if len(limits) > 0 {
			of = c.names.claim(name, true)
		}
		if of.label != name {
			return // no room
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if was, ok := c.levels[name]; ok && slices.Equal(was, limits) {
		return
	}
	c.levels[name] = limits
	gone := prometheus.Labels{"level": level, "resource": of.label}
	c.capacity.DeletePartialMatch(gone)
	c.rate.DeletePartialMatch(gone)
	for _, l := range limits {
		c.capacity.WithLabelValues(level, of.label, l.Name).Set(float64(l.Capacity))
		c.rate.WithLabelValues(level, of.label, l.Name).Set(float64(l.Amount) / l.Period.Seconds())
	}
}
