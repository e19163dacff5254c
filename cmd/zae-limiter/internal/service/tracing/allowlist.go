package tracing

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/zeroae/zae-limiter-go/metrics/otellimit"
)

// mayExport are the attributes that no caller can put a text of its own in. Libraries add others: paths,
// hosts, addresses and names of programs of callers.
var mayExport = []attribute.Key{
	semconv.HTTPRequestMethodKey, semconv.HTTPRouteKey, semconv.HTTPResponseStatusCodeKey, semconv.HTTPRequestBodySizeKey, semconv.HTTPResponseBodySizeKey,
	semconv.URLSchemeKey, semconv.NetworkProtocolVersionKey, semconv.RPCSystemNameKey, semconv.RPCMethodKey, semconv.RPCResponseStatusCodeKey, semconv.ErrorTypeKey,
	semconv.DBSystemNameKey, semconv.DBOperationNameKey, semconv.DBCollectionNameKey, semconv.DBOperationBatchSizeKey, semconv.AWSDynamoDBTableNamesKey,
	otellimit.ResourceKey, otellimit.LimitKey, otellimit.CallKey, otellimit.ResultKey, otellimit.SourceKey, otellimit.OperationKey,
	otellimit.RequestsKey, otellimit.ReadUnitsKey, otellimit.WriteUnitsKey, otellimit.ShardKey, otellimit.ShardCountKey, otellimit.RetryAfterKey,
}

// An allowlist exports of spans what it knows, as the log does.
type allowlist struct{ sdk.SpanExporter }

// ExportSpans exports spans.
func (a allowlist) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	known := make([]sdk.ReadOnlySpan, len(spans))
	for i, span := range spans {
		known[i] = bare{span}
	}
	return a.SpanExporter.ExportSpans(ctx, known)
}

// A bare span has no texts of others.
type bare struct{ sdk.ReadOnlySpan }

// Attributes are those that may be exported.
func (b bare) Attributes() []attribute.KeyValue {
	return slices.DeleteFunc(slices.Clone(b.ReadOnlySpan.Attributes()), func(a attribute.KeyValue) bool { return !slices.Contains(mayExport, a.Key) })
}

// Events are none: those of libraries have texts of errors.
func (bare) Events() []sdk.Event { return nil }

// Links are none: they have attributes.
func (bare) Links() []sdk.Link { return nil }

// Status has no description: that of gRPC is what the caller is told.
func (b bare) Status() sdk.Status { return sdk.Status{Code: b.ReadOnlySpan.Status().Code} }

// SpanContext has no tracestate, which is a text of the caller.
func (b bare) SpanContext() trace.SpanContext {
	return b.ReadOnlySpan.SpanContext().WithTraceState(trace.TraceState{})
}

// Parent has none, either.
func (b bare) Parent() trace.SpanContext {
	return b.ReadOnlySpan.Parent().WithTraceState(trace.TraceState{})
}
