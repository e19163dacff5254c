// Package promlimit has Prometheus metrics of a limiter. A [Collector] observes any
// number of limiters:
//
//	metrics, err := promlimit.New(promlimit.Options{})
//	…
//	prometheus.MustRegister(metrics)
//	limits, err := limiter.New(store, limiter.Options{Observer: metrics})
//	…
//	metrics.Watch(limits) // what only the limiter counts
//
// docs/metrics.md lists the metrics. The folder grafana has a dashboard, and the file
// alerts.yaml has alert rules.
//
// No label has an entity. The number of series is bounded, whatever requests ask for. At
// most [Options.MaxResources] resources and those of [Options.Resources] have labels of
// their own, and of each at most 64 limits. All others have the label "_other". A
// resource gets its label with the first configuration or decision that shows that it has
// limits, so a failed request gives no label.
package promlimit

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/metrics/internal/labels"
	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultMaxResources is the default of [Options.MaxResources].
const DefaultMaxResources = labels.DefaultMaxResources // 50

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
	names    *labels.Names
	limiters labels.Limiters
	all      []prometheus.Collector

	decisions, refusals, taken, returned, settlements, callErrors *prometheus.CounterVec
	operations, operationErrors, requests, units                  *prometheus.CounterVec
	reserved, reservedSettled, slotRefusals                       *prometheus.CounterVec
	callDuration, shards, operationDuration, usedRatio            *prometheus.HistogramVec
	capacity, rate, waiting, healed, braked                       *prometheus.Desc
	resent, sentOnce, reclaimed                                   *prometheus.Desc
	lostReturned, lostKept, unreserved, takenForLost              *prometheus.Desc
	slotsHeld, slotsWaiting, slotLimits, slotsLost                *prometheus.Desc
	outages, away, degradedSpent                                  *prometheus.Desc
}

var (
	_ prometheus.Collector = (*Collector)(nil)
	_ limiter.Observer     = (*Collector)(nil)
)

// New returns a collector. It fails with a [*limiter.ValidationError] if an option is
// invalid.
func New(o Options) (*Collector, error) {
	names, err := labels.New(labels.Options(o))
	if err != nil {
		return nil, err
	}
	c := &Collector{
		names:     names,
		decisions: decisions.counter(), refusals: refusals.counter(), taken: taken.counter(), returned: returned.counter(),
		reserved: reserved.counter(), reservedSettled: reservedSettled.counter(), usedRatio: usedRatio.histogram(),
		settlements: settlements.counter(), callErrors: callErrors.counter(), callDuration: callDuration.histogram(), shards: shards.histogram(),
		operations: operations.counter(), operationErrors: operationErrors.counter(), operationDuration: operationDuration.histogram(),
		requests: requests.counter(), units: units.counter(), capacity: capacity.desc(), rate: rate.desc(),
		waiting: waiting.desc(), healed: healed.desc(), braked: braked.desc(), slotRefusals: slotRefusals.counter(),
		slotsHeld: slotsHeld.desc(), slotsWaiting: slotsWaiting.desc(), slotLimits: slotLimits.desc(), slotsLost: slotsLost.desc(),
		outages: outages.desc(), away: away.desc(), degradedSpent: degradedSpent.desc(),
		resent: resent.desc(), sentOnce: sentOnce.desc(), reclaimed: reclaimed.desc(),
		lostReturned: lostReturned.desc(), lostKept: lostKept.desc(), unreserved: unreserved.desc(), takenForLost: takenForLost.desc(),
	}
	c.all = []prometheus.Collector{
		c.decisions, c.refusals, c.taken, c.returned, c.reserved, c.reservedSettled, c.usedRatio, c.settlements, c.callErrors, c.callDuration, c.shards,
		c.operations, c.operationErrors, c.operationDuration, c.requests, c.units, c.slotRefusals,
	}
	return c, nil
}

// Describe sends the descriptions of the metrics.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, each := range c.all {
		each.Describe(to)
	}
	for _, each := range []*prometheus.Desc{c.capacity, c.rate, c.waiting, c.healed, c.braked, c.slotsHeld, c.slotsWaiting, c.slotLimits, c.slotsLost, c.outages, c.away, c.degradedSpent, c.resent, c.sentOnce, c.reclaimed, c.lostReturned, c.lostKept, c.unreserved, c.takenForLost} {
		to <- each
	}
}

// Watch adds the limiters' own counts to the metrics: callers that wait, stamps healed,
// requests braked, slots held, waited for and lost, outages, lost answers, and what lost processes took. No observer is told of these. The metrics have the sums over all limiters
// watched, also after a limiter is closed. Watching a limiter again changes nothing.
func (c *Collector) Watch(limiters ...*limiter.Limiter) { c.limiters.Add(limiters...) }

// Collect sends the metrics.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, each := range c.all {
		each.Collect(to)
	}
	for _, level := range c.names.Levels() {
		for _, l := range level.Slots {
			to <- prometheus.MustNewConstMetric(c.slotLimits, prometheus.GaugeValue, float64(l.Slots), level.Name, level.Resource, l.Name)
		}
		for _, l := range level.Limits {
			to <- prometheus.MustNewConstMetric(c.capacity, prometheus.GaugeValue, float64(l.Capacity), level.Name, level.Resource, l.Name)
			if l.Renews != nil {
				continue // a quota earns nothing from second to second
			}
			to <- prometheus.MustNewConstMetric(c.rate, prometheus.GaugeValue, float64(l.Amount)/l.Period.Seconds(), level.Name, level.Resource, l.Name)
		}
	}
	for _, s := range c.limiters.Slots(c.names) {
		to <- prometheus.MustNewConstMetric(c.slotsHeld, prometheus.GaugeValue, float64(s.Held), s.Resource, s.Limit)
		to <- prometheus.MustNewConstMetric(c.slotsWaiting, prometheus.GaugeValue, float64(s.Waiting), s.Resource, s.Limit)
	}
	if sum, ok := c.limiters.Sum(); ok {
		to <- prometheus.MustNewConstMetric(c.slotsLost, prometheus.CounterValue, float64(sum.SlotsLost))
		to <- prometheus.MustNewConstMetric(c.outages, prometheus.CounterValue, float64(sum.Outages))
		to <- prometheus.MustNewConstMetric(c.away, prometheus.GaugeValue, float64(sum.Away))
		to <- prometheus.MustNewConstMetric(c.degradedSpent, prometheus.CounterValue, float64(sum.DegradedSpent))
		to <- prometheus.MustNewConstMetric(c.resent, prometheus.CounterValue, float64(sum.Resent))
		to <- prometheus.MustNewConstMetric(c.sentOnce, prometheus.CounterValue, float64(sum.SentOnce))
		to <- prometheus.MustNewConstMetric(c.reclaimed, prometheus.CounterValue, float64(sum.Reclaimed))
		to <- prometheus.MustNewConstMetric(c.lostReturned, prometheus.CounterValue, float64(sum.LostReturned))
		to <- prometheus.MustNewConstMetric(c.lostKept, prometheus.CounterValue, float64(sum.LostKept))
		to <- prometheus.MustNewConstMetric(c.unreserved, prometheus.CounterValue, float64(sum.Unreserved))
		to <- prometheus.MustNewConstMetric(c.takenForLost, prometheus.CounterValue, float64(sum.TakenForLost))
		to <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(sum.Waiting))
		to <- prometheus.MustNewConstMetric(c.healed, prometheus.CounterValue, float64(sum.Healed))
		to <- prometheus.MustNewConstMetric(c.braked, prometheus.CounterValue, float64(sum.Braked))
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
	of := c.names.Of(&r, r.Resource)
	c.callDuration.WithLabelValues(of.Label, string(r.Kind), string(r.Result)).Observe(r.Latency.Seconds())
	if kind := limiter.ErrorKind(r.Err); kind != "" && r.Result != limiter.Refused {
		c.callErrors.WithLabelValues(of.Label, string(r.Kind), kind).Inc()
	}
	switch {
	case r.Kind.IsDecision():
		c.decided(of, &r)
	case r.Kind.IsSettlement():
		c.settled(of, &r)
	}
	for p := range r.Parts() {
		c.reservations(c.names.Of(&r, p.Resource), &r, &p)
	}
}

// reservations counts what a call wrote down of a resource, or settled.
func (c *Collector) reservations(of *labels.Resource, r *limiter.CallResult, p *limiter.PartResult) {
	for name, tokens := range p.Reserved {
		limit := of.Limit(name)
		if r.Kind == limiter.CallToken {
			c.reserved.WithLabelValues(of.Label, limit).Add(float64(tokens))
			continue
		}
		c.reservedSettled.WithLabelValues(of.Label, limit, labels.When(r)).Add(float64(tokens))
		if ratio, ok := labels.UsedRatio(p, name); ok {
			c.usedRatio.WithLabelValues(of.Label, limit).Observe(ratio)
		}
	}
}

// decided counts an acquire.
func (c *Collector) decided(of *labels.Resource, r *limiter.CallResult) {
	source := labels.Source(r)
	c.decisions.WithLabelValues(of.Label, string(r.Result), source).Inc()
	if r.Shards > 0 {
		c.shards.WithLabelValues(of.Label).Observe(float64(r.Shards))
	}
	if r.Result == limiter.Admitted {
		for p := range r.Parts() {
			of := c.names.Of(r, p.Resource)
			for name, tokens := range p.Consume {
				c.taken.WithLabelValues(of.Label, of.Limit(name)).Add(float64(tokens))
			}
		}
	}
	if full, ok := errors.AsType[*limiter.SlotsError](r.Err); ok {
		of := c.names.Of(r, full.Resource)
		c.slotRefusals.WithLabelValues(of.Label, of.Limit(full.Limit), labels.BucketOf(r, full.Entity)).Inc()
	}
	for i := range r.Statuses {
		if s := &r.Statuses[i]; s.Exceeded {
			of := c.names.Of(r, s.Resource)
			c.refusals.WithLabelValues(of.Label, of.Limit(s.Limit.Name), labels.Bucket(r, s), source, limiter.Enforce.String()).Inc()
		}
	}
	for i := range r.Shadowed {
		s := &r.Shadowed[i]
		of := c.names.Of(r, s.Resource)
		c.refusals.WithLabelValues(of.Label, of.Limit(s.Limit.Name), labels.Bucket(r, s), source, limiter.Shadow.String()).Inc()
	}
}

// settled counts a commit or rollback.
func (c *Collector) settled(of *labels.Resource, r *limiter.CallResult) {
	c.settlements.WithLabelValues(of.Label, string(r.Kind), string(r.Result)).Inc()
	for p := range r.Parts() {
		of := c.names.Of(r, p.Resource)
		for _, a := range p.Settled {
			limit := of.Limit(a.Limit)
			if a.Milli > 0 {
				c.taken.WithLabelValues(of.Label, limit).Add(float64(a.Milli) / store.Milli)
			} else {
				c.returned.WithLabelValues(of.Label, limit).Add(float64(-a.Milli) / store.Milli)
			}
		}
	}
}

// EndOperation counts an operation, and notes the configuration that it has read.
func (c *Collector) EndOperation(_ context.Context, r limiter.OperationResult) {
	c.names.Note(&r)
	of, kind := c.names.Known(r.Resource).Label, string(r.Kind)
	if r.Err != nil {
		c.operationErrors.WithLabelValues(of, kind, limiter.ErrorKind(r.Err)).Inc()
	}
	c.operations.WithLabelValues(of, kind, labels.Outcome(&r)).Inc()
	c.operationDuration.WithLabelValues(kind).Observe(r.Latency.Seconds())
	c.requests.WithLabelValues(of, kind).Add(float64(r.Cost.Requests))
	c.units.WithLabelValues(of, "read").Add(r.Cost.ReadUnits)
	c.units.WithLabelValues(of, "write").Add(r.Cost.WriteUnits)
}
