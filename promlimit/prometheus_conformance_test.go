//go:build conformance

package promlimit_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/limitertest"
	"github.com/zeroae/zae-limiter-go/internal/peers"
	"github.com/zeroae/zae-limiter-go/promlimit"
)

// promtool accepts the alert rules, and their unit tests pass.
func TestPromtoolAcceptsTheAlerts(t *testing.T) {
	t.Parallel()
	peers.Promtool(t, ".", "check", "rules", "alerts.yaml")
	peers.Promtool(t, ".", "test", "rules", "alerts_test.yaml")
}

// A real Prometheus scrapes the collector, answers queries with what the limiter did,
// evaluates the alert rules, and every query of the dashboard.
func TestPrometheusScrapesAndQueries(t *testing.T) {
	t.Parallel()
	c, registry := newCollector(t, promlimit.Options{})
	w := limitertest.New(t, limitertest.Options{Limiter: limiter.Options{Observer: c}})
	w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: limitertest.Resource}, []limiter.Limit{limiter.PerDay("rpd", 40)}))
	serving := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	defer serving.Close()
	server := peers.ScrapeWithPrometheus(t, strings.TrimPrefix(serving.URL, "http://"), "alerts.yaml")

	for range 50 { // 40 are admitted; the others last longer than several scrapes
		w.Take(w.Limiter, ask("key", "rpd", 1))
		time.Sleep(20 * time.Millisecond)
	}
	for query, want := range map[string]float64{
		`zae_limiter_decisions_total{resource="gpt-4",result="admitted"}`:                      40,
		`sum(zae_limiter_refusals_total{resource="gpt-4",limit="rpd"})`:                        10,
		`zae_limiter_tokens_taken_total{limit="rpd"}`:                                          40,
		`zae_limiter_limit_capacity_tokens{level="resource",limit="rpd"}`:                      40,
		`histogram_count(zae_limiter_call_duration_seconds{call="acquire",result="admitted"})`: 40, // the native histogram
		`histogram_quantile(1, zae_limiter_bucket_shards) <= bool 1.1`:                         1,
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
	for title, query := range dashboardQueries(t) {
		if _, err := server.Query(t.Context(), query); err != nil {
			t.Errorf("%s: %v", title, err)
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
