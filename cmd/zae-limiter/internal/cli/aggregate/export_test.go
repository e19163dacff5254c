package aggregate

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go/aggregator"
)

// NewHealth is the health of a follower whose progress a test reports.
func NewHealth(now func() time.Time, poll time.Duration) (check http.Handler, progress func(shard string, ended bool)) {
	h := newHealthCheck(now, poll)
	return h, h.progress
}

// Measure returns the metrics after some results.
func Measure(results ...aggregator.Result) prometheus.Gatherer {
	m := newMeasures()
	for i := range results {
		m.observe(results[i])
	}
	return m.registry
}
