package aggregate

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go/aggregator"
)

// NewHealth is the health of a follower whose progress a test reports.
func NewHealth(now func() time.Time, poll time.Duration) (check http.Handler, progress func(shard string, ended bool)) {
	h := newHealthCheck(now, poll)
	return h, h.progress
}

// Totals is what the command prints after some results.
func Totals(results ...aggregator.Result) string {
	m := newMeasures()
	for i := range results {
		m.observe(results[i])
	}
	var w strings.Builder
	t := m.totals()
	t.write(&w)
	return w.String()
}

// Measure returns the metrics after some results.
func Measure(results ...aggregator.Result) prometheus.Gatherer {
	m := newMeasures()
	for i := range results {
		m.observe(results[i])
	}
	return m.registry
}

// GatherTraffic returns the metrics of the traffic.
func GatherTraffic(last func() aggregator.Traffic, now func() time.Time) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(newTraffic(last, now))
	return r
}
