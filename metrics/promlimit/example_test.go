package promlimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/metrics/promlimit"
)

// A program registers the collector, gives it to its limiter, and serves /metrics.
func Example() {
	ctx := context.Background()
	db := dynamolite.New(dynamolite.Options{})
	defer db.Close()
	if err := dynamo.CreateTable(ctx, db, dynamo.TableOptions{Name: "limits"}); err != nil {
		log.Fatal(err)
	}
	table, err := dynamo.Open(ctx, dynamo.Options{API: db, Table: "limits"})
	if err != nil {
		log.Fatal(err)
	}

	metrics, err := promlimit.New(promlimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	limits, err := limiter.New(table, limiter.Options{Observer: metrics})
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()

	for range 2 {
		_, _ = limits.Acquire(ctx, limiter.Request{
			Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 60},
			Fallback: []limiter.Limit{limiter.PerMinute("rpm", 100)},
		})
	}

	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "zae_limiter_refusals_total") || strings.HasPrefix(line, "zae_limiter_tokens_taken_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// zae_limiter_refusals_total{bucket="entity",limit="rpm",mode="enforce",resource="gpt-4",source="memory"} 1
	// zae_limiter_tokens_taken_total{limit="rpm",resource="gpt-4"} 60
}
