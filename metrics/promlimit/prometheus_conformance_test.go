//go:build conformance

package promlimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/metrics/promlimit"
	"github.com/zeroae/zae-limiter-go/store"
)

// promtool accepts the alert rules, and their unit tests pass.
func TestPromtoolAcceptsTheAlerts(t *testing.T) {
	t.Parallel()
	peers.Promtool(t, ".", "check", "rules", "alerts.yaml")
	peers.Promtool(t, ".", "test", "rules", "alerts_test.yaml")
}

// A real Prometheus scrapes the collector, answers queries with what the limiter did, and
// evaluates the alert rules. Every query of the dashboard answers with a number, from classic
// buckets and from native histograms.
func TestPrometheusScrapesAndQueries(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"classic": nil, "native": {peers.NativeHistograms}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, registry := newCollector(t, promlimit.Options{})
			w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: c}})
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: testbed.Resource}, []limiter.Limit{limiter.PerDay("rpd", 40)}))
			c.Watch(w.Limiter)
			more := otherWork(w, c)
			serving := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
			defer serving.Close()
			server := peers.ScrapeWithPrometheus(t, strings.TrimPrefix(serving.URL, "http://"), "alerts.yaml", flags...)

			for range 50 { // 40 are admitted
				w.Take(w.Limiter, ask("key", "rpd", 1))
			}
			var work sync.WaitGroup
			defer work.Wait()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			work.Go(func() { // Prometheus begins to scrape after some seconds, and rates are of changes
				for ctx.Err() == nil {
					more()
					time.Sleep(20 * time.Millisecond)
				}
			})
			for title, query := range dashboardQueries(t) {
				wait(t, title+" has a number", func(ctx context.Context) (numbers float64, err error) {
					samples, err := server.Query(ctx, query)
					for _, s := range samples {
						if text, _ := s.Value[1].(string); text != "NaN" {
							numbers = 1
						}
					}
					return numbers, err
				}, 1)
			}
			counted := `zae_limiter_call_duration_seconds_count{resource="gpt-4",call="acquire",result="admitted"}`
			if len(flags) > 0 {
				counted = `histogram_count(zae_limiter_call_duration_seconds{resource="gpt-4",call="acquire",result="admitted"})`
			}
			for query, want := range map[string]float64{
				`zae_limiter_decisions_total{resource="gpt-4",result="admitted"}`: 40,
				`sum(zae_limiter_refusals_total{resource="gpt-4",limit="rpd"})`:   10,
				`zae_limiter_tokens_taken_total{limit="rpd"}`:                     40,
				`zae_limiter_limit_capacity_tokens{level="resource",limit="rpd"}`: 40,
				counted: 40,
			} {
				wait(t, query, func(ctx context.Context) (float64, error) {
					samples, err := server.Query(ctx, query)
					if err != nil || len(samples) != 1 || len(samples[0].Value) != 2 {
						return -1, err
					}
					text, _ := samples[0].Value[1].(string)
					return strconv.ParseFloat(text, 64)
				}, want)
			}
			wait(t, "healthy rules", func(ctx context.Context) (healthy float64, err error) {
				rules, err := server.Rules(ctx)
				for name, health := range rules {
					if health == "err" {
						t.Errorf("the rule %s fails", name)
					}
					if health == "ok" {
						healthy++
					}
				}
				return healthy, err
			}, 10)
		})
	}
}

// otherWork returns work on another resource that, together with the limiter's own, makes
// series of every metric: errors, throttled writes, settlements, tokens that come back, leases
// that are written down, a slot that is held and refused, and what a limit in shadow would refuse.
func otherWork(w *testbed.World, c *promlimit.Collector) (more func()) {
	own := w.NewLimiter(w.Store, limiter.Options{Observer: c, TokenKeys: [][]byte{make([]byte, limiter.MinTokenKey)}})
	c.Watch(own)
	w.Must(w.Store.SetSlots(w.Context(), limiter.ConfigKey{Resource: "other"}, []limiter.SlotLimit{limiter.Slots("inflight", 1)}, ""))
	slot := limiter.Request{Entity: "key", Resource: "other", Slots: map[string]int64{"inflight": 1}}
	w.Lease(own, slot)
	var busy faults.Slot
	l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, busy.Apply)), limiter.Options{Observer: c})
	w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: "other"}, []limiter.Limit{
		limiter.PerDay("tpd", 1_000_000), limiter.PerDay("tried", 1, limiter.InShadow(0)),
	}))
	req := ask("key", "tpd", 10)
	req.Consume["tried"] = 2 // of 1
	req.Resource = "other"
	return func() {
		if _, err := own.Acquire(w.Context(), slot); !errors.Is(err, limiter.ErrSlotsFull) {
			w.Errorf("a slot that is held: %v", err)
		}
		lease, err := own.Acquire(w.Context(), req)
		w.Check(err)
		text, err := lease.Token(w.Context(), time.Minute)
		w.Check(err)
		lease, err = own.Resume(text)
		w.Check(err)
		w.Check(lease.Settle("tpd", 4))
		w.Check(lease.Commit(w.Context()))
		busy.Set(nil)
		w.Check(l.Do(w.Context(), req, func(_ context.Context, lease *limiter.Lease) error { return lease.Settle("tpd", 4) }))
		busy.Set(faults.Throttle(func(store.Bucket) error { return faults.BusyTable() }))
		if _, err := l.Acquire(w.Context(), req); !errors.Is(err, limiter.ErrThrottled) {
			w.Errorf("acquired from a busy table: %v", err)
		}
	}
}

// wait waits until get returns a value.
func wait(t *testing.T, what string, get func(context.Context) (float64, error), want float64) {
	t.Helper()
	var got float64
	var err error
	for range 100 {
		if got, err = get(t.Context()); err == nil && got == want {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s is %v, %v; want %v", what, got, err, want)
}

var variable = regexp.MustCompile(`"\$(job|resource)"`)

// dashboardQueries returns the queries of the dashboard by panel, with values in the place
// of variables.
func dashboardQueries(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("grafana/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	queries := map[string]string{}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			queries[p.Title+" "+q.RefID] = strings.ReplaceAll(variable.ReplaceAllString(q.Expr, `".*"`), "$__rate_interval", "1m")
		}
	}
	if len(queries) < 10 {
		t.Fatalf("%d queries", len(queries))
	}
	return queries
}
