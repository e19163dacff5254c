//go:build conformance

package otellimit_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/metrics/otellimit"
)

// A real collector receives every metric, and the spans of an acquire with its write.
func TestACollectorReceivesMetricsAndSpans(t *testing.T) {
	t.Parallel()
	collector := peers.OpenTelemetryCollector(t)
	spans, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(collector.Endpoint+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	figures, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(collector.Endpoint+"/v1/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	tracing := trace.NewTracerProvider(trace.WithBatcher(spans))
	metering := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(figures)))
	observer, err := otellimit.New(otellimit.Options{TracerProvider: tracing, MeterProvider: metering})
	if err != nil {
		t.Fatal(err)
	}
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: observer, TokenKeys: [][]byte{make([]byte, limiter.MinTokenKey)}}})
	observer.Watch(w.Limiter)
	w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: testbed.Resource}, []limiter.Limit{limiter.PerDay("rpd", 2)}))
	lease, err := w.Acquire(w.Context(), ask("key", "rpd", 1))
	w.Must(err)
	w.Must(lease.Rollback(w.Context()))
	text, err := w.Lease(w.Limiter, ask("other", "rpd", 1)).Token(w.Context(), time.Minute)
	w.Must(err)
	lease, err = w.Resume(text)
	w.Must(err)
	w.Must(lease.Commit(w.Context()))
	for range 3 {
		w.Take(w.Limiter, ask("key", "rpd", 1))
	}
	w.Must(w.Store.SetSlots(w.Context(), limiter.ConfigKey{Resource: testbed.Resource}, []limiter.SlotLimit{limiter.Slots("inflight", 1)}, ""))
	slot := limiter.Request{Entity: "key", Resource: testbed.Resource, Slots: map[string]int64{"inflight": 1}}
	w.Lease(w.Limiter, slot)
	if _, err := w.Acquire(w.Context(), slot); !errors.Is(err, limiter.ErrSlotsFull) {
		t.Errorf("a slot that is held: %v", err)
	}
	w.Must(tracing.Shutdown(w.Context()))
	w.Must(metering.Shutdown(w.Context()))

	wanted := []string{
		"Name           : acquire", "Name           : rollback", "Name           : UpdateItem " + testbed.Table, "Kind           : Client",
		"-> db.system.name: Str(aws.dynamodb)", "-> db.operation.name: Str(UpdateItem)", "-> db.collection.name: Str(" + testbed.Table + ")",
		"-> zae_limiter.result: Str(refused)", "-> zae_limiter.limit: Str(rpd)", "-> zae_limiter.source: Str(memory)", "InstrumentationScope github.com/zeroae/zae-limiter-go/metrics/otellimit",
	}
	for _, i := range otellimit.Instruments {
		wanted = append(wanted, "-> Name: "+i.Name+"\n", "-> Unit: "+i.Unit+"\n")
	}
	var missing []string
	for range 100 { // the collector writes what it received soon after
		received := collector.Received(t)
		missing = nil
		for _, text := range wanted {
			if !strings.Contains(received, text) {
				missing = append(missing, text)
			}
		}
		if len(missing) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("the collector did not receive %q:\n%s", missing, collector.Received(t))
}
