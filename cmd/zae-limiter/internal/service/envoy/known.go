package envoy

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
)

// nearRatio is the part of a limit above which hits are near it, as in envoyproxy/ratelimit.
const nearRatio = 0.8

// Known are the metrics that dashboards know from envoyproxy/ratelimit. Their labels are keys of the
// files, and values that the files have: those of requests are in none, so series are bounded.
type Known struct {
	total, over, near, within, shadow *prometheus.CounterVec
	calls                             prometheus.Counter
	times                             prometheus.Observer
	errors                            prometheus.Counter
}

// NewKnown makes the metrics, and registers them. state is that of the rules.
func NewKnown(state func() hot.State, registry prometheus.Registerer) *Known {
	const service = "ratelimit_service_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: service + name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	hits := func(name, help string) *prometheus.CounterVec {
		return counter("rate_limit_"+name, help, "domain", "key1", "key2")
	}
	loads := func(name, help string, count func(hot.State) int) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: service + "config_load_" + name, Help: help}, func() float64 {
			return float64(count(state()))
		}))
	}
	loads("success", "How often rules came into use.", func(s hot.State) int { return s.Loads })
	loads("error", "How often rules were not valid, or not there.", func(s hot.State) int { return s.Failures })
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: service + "response_time_seconds", Help: "Time to an answer."}, []string{"grpc_method"})
	registry.MustRegister(times)
	return &Known{
		total: hits("total_hits", "Hits of descriptors that have a limit."), over: hits("over_limit", "Hits over the limit."),
		near: hits("near_limit", "Hits within the limit, and above 80 % of it."), within: hits("within_limit", "Hits within the limit."),
		shadow: hits("shadow_mode", "Hits over a limit in shadow_mode."),
		calls:  counter("total_requests", "Calls.", "grpc_method").WithLabelValues("ShouldRateLimit"),
		times:  times.WithLabelValues("ShouldRateLimit"),
		errors: counter("should_rate_limit_error", "Calls that were not decided.", "err_type").WithLabelValues("service_error"),
	}
}

// answered counts a call. A call that was not decided is nil.
func (k *Known) answered(c *call, after time.Duration) {
	if k == nil {
		return
	}
	k.calls.Inc()
	k.times.Observe(after.Seconds())
	if c == nil {
		k.errors.Inc()
		return
	}
	for i := range c.asks {
		if a := &c.asks[i]; a.isMapped && a.Counts && a.Keys != [2]string{} && (a.Mode == mapping.Take || a.Mode == mapping.Shadow) {
			k.count(c.domain, a)
		}
	}
}

// count counts the hits of a descriptor. The bucket fills all the time, so what is used of a limit is
// what is missing now.
func (k *Known) count(domain string, a *ask) {
	var hits, over, near int64
	for _, hits = range a.Amounts {
		break // the files have one limit for each descriptor
	}
	switch s := a.limit(); {
	case s == nil: // a limit of 0, or a shadow that failed
		over = hits
	case s.Exceeded:
		left := max(0, s.Available)
		over = hits - min(hits, left)
		near = min(left, hits, s.Limit.Capacity-nearOf(s.Limit.Capacity))
	default:
		near = min(hits, max(0, s.Limit.Capacity-s.Available-nearOf(s.Limit.Capacity)))
	}
	add := func(to *prometheus.CounterVec, n int64) {
		to.WithLabelValues(domain, a.Keys[0], a.Keys[1]).Add(float64(n))
	}
	add(k.total, hits)
	add(k.over, over)
	add(k.near, near)
	if over == 0 {
		add(k.within, hits)
	}
	if a.Mode == mapping.Shadow {
		add(k.shadow, over)
	}
}

// nearOf is how much of a capacity is used where hits begin to be near it.
func nearOf(capacity int64) int64 { return int64(math.Floor(float64(capacity) * nearRatio)) }
