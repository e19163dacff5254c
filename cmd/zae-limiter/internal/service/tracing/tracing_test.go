package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/tracing"
)

// The variables of OpenTelemetry say whether spans are exported. Without any, none are; one that is not valid
// is an error with its name and what to do.
func TestRead(t *testing.T) {
	t.Parallel()
	const endpoint, traces, exporter, protocol = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL"
	for _, c := range []struct {
		env     map[string]string
		exports bool
		invalid string
	}{
		{env: nil},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318/v1/metrics", "OTEL_SERVICE_NAME": "limits"}},
		{env: map[string]string{endpoint: "http://collector:4318"}, exports: true},
		{env: map[string]string{traces: "https://collector/v1/traces"}, exports: true},
		{env: map[string]string{exporter: "otlp"}, exports: true},
		{env: map[string]string{exporter: "none", endpoint: "http://collector:4318"}},
		{env: map[string]string{"OTEL_SDK_DISABLED": "TRUE", endpoint: "http://collector:4318"}},
		{env: map[string]string{endpoint: "http://collector:4317", protocol: "grpc"}, exports: true},
		{env: map[string]string{endpoint: "http://c", protocol: "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, exports: true},
		{env: map[string]string{endpoint: "http://c", protocol: "http/json"}, invalid: protocol},
		{env: map[string]string{endpoint: "collector:4318"}, invalid: endpoint},
		{env: map[string]string{traces: "http://"}, invalid: traces},
		{env: map[string]string{exporter: "zipkin"}, invalid: exporter},
	} {
		got, err := tracing.Read(func(name string) string { return c.env[name] })
		invalid := (*tracing.VariableError)(nil)
		switch {
		case c.invalid != "":
			if !errors.As(err, &invalid) || invalid.Name != c.invalid || invalid.Value != c.env[c.invalid] || invalid.Remedy == "" {
				t.Errorf("%v: %v, want an error about %s", c.env, err, c.invalid)
			}
		case err != nil || (got != nil) != c.exports:
			t.Errorf("%v: %v %v, want exports %v", c.env, got, err, c.exports)
		}
	}
}

// An answer is one that must not be asked for what it was if nobody makes spans.
type answer struct{ n int }

func (a *answer) Outcome() (limiter.Result, []string) {
	a.n++
	return limiter.Refused, []string{strconv.Itoa(a.n)}
}

// Without spans, a handler is as it was, a server has no options more, and nothing is allocated.
func TestNoSpansCostNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	off, err := (*tracing.Settings)(nil).Open(t.Context(), nil)
	if off != nil || err != nil {
		t.Fatal(off, err)
	}
	h := new(http.ServeMux)
	if got := off.HTTP(nil, h); got != http.Handler(h) {
		t.Errorf("another handler: %T", got)
	}
	if got := off.GRPC(nil); got != nil {
		t.Errorf("%d options", len(got))
	}
	a, ctx := &answer{}, t.Context()
	if n := testing.AllocsPerRun(100, func() { tracing.Decided(ctx, a) }); n != 0 || a.n != 0 {
		t.Errorf("%v allocations, and asked %d times", n, a.n)
	}
	if err := off.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The cost of a span for each call.
func BenchmarkHTTP(b *testing.B) {
	for name, on := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			var spans *tracing.Spans
			if on {
				var err error
				if spans, err = tracing.New(b.Context(), tracetest.NewNoopExporter()); err != nil {
					b.Fatal(err)
				}
				defer spans.Close(context.WithoutCancel(b.Context()))
			}
			a := &answer{}
			h := spans.HTTP(func(*http.Request) string { return "/v1/acquire" }, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { tracing.Decided(r.Context(), a) }))
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/acquire", http.NoBody)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
