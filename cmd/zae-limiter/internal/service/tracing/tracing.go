// Package tracing makes the spans of the service: one for each call over HTTP and gRPC, in the trace
// of its caller, and below it those of the limiter and of the store's round trips, which package
// otellimit makes. An allowlist says which attributes leave the process (ADR 072).
package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/metrics/otellimit"
)

// serviceName is the name of the service in its spans, unless $OTEL_SERVICE_NAME or
// $OTEL_RESOURCE_ATTRIBUTES gives another one.
const serviceName = "zae-limiter"

// Spans makes spans. Nil makes none, and costs nothing.
type Spans struct {
	provider *sdk.TracerProvider
	// Observer makes the spans of a limiter.
	Observer *otellimit.Observer
}

// New makes spans and exports them in the background, in batches. The variables of OpenTelemetry
// say how, and which ones: $OTEL_TRACES_SAMPLER and $OTEL_BSP_….
func New(ctx context.Context, to sdk.SpanExporter) (*Spans, error) {
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(semconv.ServiceName(serviceName)), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	s := &Spans{provider: sdk.NewTracerProvider(sdk.WithBatcher(allowlist{to}), sdk.WithResource(about))}
	s.Observer, err = otellimit.New(otellimit.Options{TracerProvider: s.provider, MeterProvider: metricnoop.NewMeterProvider()})
	return s, err
}

// Close exports what was not exported yet.
func (s *Spans) Close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.provider.Shutdown(ctx)
}

// callers reads the context of a caller from the field traceparent of W3C.
var callers propagation.TraceContext

// HTTP makes a span for each request to a handler. Its name is that of the route of the request, of
// which there must be few.
func (s *Spans) HTTP(route func(*http.Request) string, next http.Handler) http.Handler {
	if s == nil {
		return next
	}
	routed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trace.SpanFromContext(r.Context()).SetAttributes(semconv.HTTPRoute(route(r)))
		next.ServeHTTP(w, r)
	})
	return otelhttp.NewHandler(routed, "", otelhttp.WithTracerProvider(s.provider), otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(callers), otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return route(r) }))
}

// GRPC makes a span for each call of a method that is known.
func (s *Spans) GRPC(isKnown func(method string) bool) []grpc.ServerOption {
	if s == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(s.provider), otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()), otelgrpc.WithPropagators(callers),
		otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool { return isKnown(call.FullMethodName) }),
	))}
}

// An Answer knows what was decided, and the names of the limits that refused.
type Answer interface {
	Outcome() (result limiter.Result, refusing []string)
}

// Decided notes the answer to a call on its span, if it has one.
func Decided(ctx context.Context, a Answer) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	result, refusing := a.Outcome()
	span.SetAttributes(otellimit.ResultKey.String(string(result)))
	if len(refusing) > 0 {
		span.SetAttributes(otellimit.LimitKey.StringSlice(refusing))
	}
}
