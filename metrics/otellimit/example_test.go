package otellimit_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/metrics/otellimit"
)

// A program gives the observer its providers, and the limiter the observer.
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

	spans := tracetest.NewInMemoryExporter() // a program has one for OTLP
	tracing := trace.NewTracerProvider(trace.WithSyncer(spans))
	observer, err := otellimit.New(otellimit.Options{TracerProvider: tracing})
	if err != nil {
		log.Fatal(err)
	}
	limits, err := limiter.New(table, limiter.Options{Observer: observer})
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()

	request := limiter.Request{
		Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1},
		Fallback: []limiter.Limit{limiter.PerMinute("rpm", 100)},
	}
	for range 2 {
		spans.Reset()
		if _, err := limits.Acquire(ctx, request); err != nil {
			log.Fatal(err)
		}
	}
	for _, span := range spans.GetSpans() { // those of the second acquire
		fmt.Println(span.SpanKind, span.Name)
	}
	// Output:
	// client UpdateItem limits
	// internal acquire
}
