package aggregate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zeroae/zae-limiter-go/aggregator"
)

// totals count the work since the start.
type totals struct {
	Batches   int `json:"batches"` // batches of records
	Records   int `json:"records"`
	Pages     int `json:"usage_pages"`       // deleted buckets whose usage was saved
	Hours     int `json:"hours_closed"`      // hours of buckets, closed for clients of the Python package
	Days      int `json:"days_copied"`       // days of usage, copied for readers of the Python package
	PeerUsage int `json:"peer_usage_writes"` // writes of the Python package's aggregator, which is to be switched off
	Refills   int `json:"refills"`           // buckets refilled ahead of clients
	Doublings int `json:"doublings"`         // buckets whose shards were doubled
	Mends     int `json:"mends"`             // buckets repaired
	Merges    int `json:"merges"`            // buckets whose shards were merged
	Archived  int `json:"archived_events"`
	Bytes     int `json:"archived_bytes"` // size of the archived objects
	Failed    int `json:"failed_records"`
	Poisoned  int `json:"poisoned_records"`
	Errors    int `json:"errors"`      // buckets that could not be tended
	Gaps      int `json:"stream_gaps"` // how often the stream had dropped records before they were read
}

// measures hold the totals, and the same figures for Prometheus.
type measures struct {
	registry *prometheus.Registry
	batch    prometheus.Histogram
	lag      prometheus.Gauge
	done     *prometheus.CounterVec
	wrong    *prometheus.CounterVec
	archived prometheus.Counter
	bytes    prometheus.Counter
	gaps     prometheus.Counter
	healed   prometheus.Counter
	braked   prometheus.Counter

	mu  sync.Mutex
	sum totals
}

func newMeasures() *measures {
	m := &measures{
		registry: prometheus.NewRegistry(),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "zae_limiter_aggregator_batch_records", Help: "Records of a batch.", Buckets: prometheus.ExponentialBuckets(1, 4, 6),
		}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "zae_limiter_aggregator_lag_seconds", Help: "Age of the oldest record of the last batch.",
		}),
		done: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "zae_limiter_aggregator_writes_total", Help: "Writes by kind: pages of usage of deleted buckets, hours closed and days copied for the Python package, refills, doublings, mends, merges.",
		}, []string{"kind"}),
		wrong: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "zae_limiter_aggregator_errors_total", Help: "Errors by kind: records failed, records that cannot be read, buckets not tended.",
		}, []string{"kind"}),
		archived: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "zae_limiter_aggregator_archived_events_total", Help: "Expired audit events that were stored.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "zae_limiter_aggregator_archived_bytes_total", Help: "Bytes of the objects that archived events were stored in.",
		}),
		gaps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "zae_limiter_aggregator_stream_gaps_total", Help: "How often the stream had dropped records before they were read.",
		}),
		healed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "zae_limiter_aggregator_stamps_healed_total", Help: "Stamps of items that lay ahead of any honest clock and were moved back.",
		}),
		braked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "zae_limiter_aggregator_refills_braked_total", Help: "Refills that were not sent because the table had just throttled the item.",
		}),
	}
	m.registry.MustRegister(m.batch, m.lag, m.done, m.wrong, m.archived, m.bytes, m.gaps, m.healed, m.braked)
	for _, kind := range []string{"page", "hour", "day", "refill", "doubling", "mend", "merge"} {
		m.done.WithLabelValues(kind) // creates the series before the first write of its kind
	}
	for _, kind := range []string{"failed", "poisoned", "tending"} {
		m.wrong.WithLabelValues(kind)
	}
	return m
}

// observe adds a result.
func (m *measures) observe(r aggregator.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.sum
	if r.Records > 0 {
		m.batch.Observe(float64(r.Records))
		m.lag.Set(r.Lag.Seconds())
		s.Batches++
	}
	m.done.WithLabelValues("page").Add(float64(r.Pages))
	m.done.WithLabelValues("hour").Add(float64(r.Hours))
	m.done.WithLabelValues("day").Add(float64(r.Days))
	m.done.WithLabelValues("refill").Add(float64(r.Refills))
	m.done.WithLabelValues("doubling").Add(float64(r.Doublings))
	m.done.WithLabelValues("mend").Add(float64(r.Mends))
	m.done.WithLabelValues("merge").Add(float64(r.Merges))
	m.archived.Add(float64(r.Archived))
	m.bytes.Add(float64(r.ArchivedBytes))
	m.healed.Add(float64(r.Healed))
	m.braked.Add(float64(r.Braked))
	m.wrong.WithLabelValues("failed").Add(float64(len(r.Failed)))
	m.wrong.WithLabelValues("poisoned").Add(float64(len(r.Poisoned)))
	m.wrong.WithLabelValues("tending").Add(float64(r.Errors))
	s.Records += r.Records
	s.Pages += r.Pages
	s.Hours += r.Hours
	s.Days += r.Days
	s.PeerUsage += r.PeerUsage
	s.Refills += r.Refills
	s.Doublings += r.Doublings
	s.Mends += r.Mends
	s.Merges += r.Merges
	s.Archived += r.Archived
	s.Bytes += r.ArchivedBytes
	s.Failed += len(r.Failed)
	s.Poisoned += len(r.Poisoned)
	s.Errors += r.Errors
}

// lost counts a gap in the stream.
func (m *measures) lost(string) {
	m.gaps.Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.Gaps++
}

func (m *measures) totals() totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sum
}

// serve serves the metrics and the health until stop is called.
func (m *measures) serve(ctx context.Context, addr string, health http.Handler, log *slog.Logger) (stop func(), err error) {
	const slow = 5 * time.Second
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.Handle("/healthz", health)
	mux.HandleFunc("/livez", alive)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: slow}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "metrics server failed", "error", err)
		}
	}()
	log.InfoContext(ctx, "serving metrics", "url", "http://"+listener.Addr().String()+"/metrics")
	return func() {
		_ = server.Close() // a scrape in progress is cut off
		<-ended
	}, nil
}
