// Package otellimit has OpenTelemetry metrics and spans of a limiter. An [Observer]
// observes any number of limiters:
//
//	observer, err := otellimit.New(otellimit.Options{})
//	…
//	limits, err := limiter.New(store, limiter.Options{Observer: observer})
//
// Each call has a span, "acquire" for instance. Below it each operation of the store has
// a span of kind client, by the semantic conventions for databases. It is "UpdateItem
// limits" for a debit from the table limits. docs/metrics.md lists the metrics and the
// attributes.
//
// No metric has an entity, and the values of attributes are bounded as in package
// promlimit. It is a module of its own, so that other users do not depend on
// OpenTelemetry; outside of tests it uses only the API.
package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/metrics/internal/labels"
	"github.com/zeroae/zae-limiter-go/store"
)

// scope is the name of the instrumentation.
const scope = "github.com/zeroae/zae-limiter-go/metrics/otellimit"

// DefaultMaxResources is the default of [Options.MaxResources].
const DefaultMaxResources = labels.DefaultMaxResources // 50

// Options configure an [Observer]. The zero value works.
type Options struct {
	// TracerProvider makes the spans. Default: the global one.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. Default: the global one.
	MeterProvider metric.MeterProvider
	// MaxResources is how many resources have attributes of their own in metrics, besides
	// Resources. At most half of them have no limits of their own, but the system's, an
	// entity's or the request's. Default [DefaultMaxResources].
	MaxResources int
	// Resources always have attributes of their own.
	Resources []string
	// Entities says that spans have the entity. Metrics never have it.
	Entities bool
}

// Attributes of metrics and spans, besides those of the semantic conventions.
const (
	ResourceKey   = attribute.Key("zae_limiter.resource")
	LimitKey      = attribute.Key("zae_limiter.limit")
	EntityKey     = attribute.Key("zae_limiter.entity") // of spans, if Options.Entities
	CallKey       = attribute.Key("zae_limiter.call")
	ResultKey     = attribute.Key("zae_limiter.result")
	WhenKey       = attribute.Key("zae_limiter.when")      // when a lease that was written down was settled: in_time, late
	SourceKey     = attribute.Key("zae_limiter.source")    // what decided: store, memory, shared
	ModeKey       = attribute.Key("zae_limiter.mode")      // of the limit that refused: enforce; or would have: shadow
	BucketKey     = attribute.Key("zae_limiter.bucket")    // whose limit refused: entity, parent
	OperationKey  = attribute.Key("zae_limiter.operation") // of the store: take, refill, …
	KindKey       = attribute.Key("zae_limiter.kind")      // of capacity units: read, write
	LevelKey      = attribute.Key("zae_limiter.level")     // of configuration: resource, system
	RequestsKey   = attribute.Key("zae_limiter.requests")  // round trips
	ReadUnitsKey  = attribute.Key("zae_limiter.read_units")
	WriteUnitsKey = attribute.Key("zae_limiter.write_units")
	ShardKey      = attribute.Key("zae_limiter.shard")
	ShardCountKey = attribute.Key("zae_limiter.shard_count")
	RetryAfterKey = attribute.Key("zae_limiter.retry_after_ms") // absent if no wait helps
)

// An Observer makes spans and metrics. It is safe for concurrent use.
type Observer struct {
	tracer      trace.Tracer
	names       *labels.Names
	entities    bool
	instruments *instruments
	limiters    *labels.Limiters
}

var _ limiter.Observer = (*Observer)(nil)

// New returns an observer. It fails with a [*limiter.ValidationError] if an option is
// invalid, and with the error of the meter provider if that refuses an instrument.
func New(o Options) (*Observer, error) {
	names, err := labels.New(labels.Options{MaxResources: o.MaxResources, Resources: o.Resources})
	if err != nil {
		return nil, err
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	limiters := new(labels.Limiters)
	instruments, err := newInstruments(o.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)), names, limiters)
	if err != nil {
		return nil, err
	}
	tracer := o.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	return &Observer{tracer: tracer, names: names, entities: o.Entities, instruments: instruments, limiters: limiters}, nil
}

// Watch adds the limiters' own counts to the metrics: callers that wait, stamps healed,
// requests braked. No observer is told of these. The metrics have the sums over all limiters
// watched, also after a limiter is closed. Watching a limiter again changes nothing.
func (o *Observer) Watch(limiters ...*limiter.Limiter) { o.limiters.Add(limiters...) }

// spanKey is the key of an observer's own span in a context. Another observer may have put
// a span of its own above it.
type spanKey struct{ of *Observer }

// begin starts a span.
func (o *Observer) begin(ctx context.Context, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) context.Context {
	ctx, span := o.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
	return context.WithValue(ctx, spanKey{o}, span)
}

// span returns the span that begin has put in a context.
func (o *Observer) span(ctx context.Context) trace.Span {
	span, ok := ctx.Value(spanKey{o}).(trace.Span)
	if !ok {
		return noop.Span{}
	}
	return span
}

// about returns the attributes of a span that say whom it is for.
func (o *Observer) about(entity, resource string) []attribute.KeyValue {
	attributes := []attribute.KeyValue{ResourceKey.String(resource)}
	if o.entities {
		attributes = append(attributes, EntityKey.String(entity))
	}
	return attributes
}

// BeginCall starts the span of a call.
func (o *Observer) BeginCall(ctx context.Context, c limiter.Call) context.Context {
	return o.begin(ctx, string(c.Kind), trace.SpanKindInternal, append(o.about(c.Entity, c.Resource), CallKey.String(string(c.Kind)))...)
}

// EndCall ends the span of a call, and counts the call.
func (o *Observer) EndCall(ctx context.Context, r limiter.CallResult) {
	o.instruments.called(ctx, o.names, &r)
	span := o.span(ctx)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(ResultKey.String(string(r.Result)), RequestsKey.Int(r.Cost.Requests),
		ReadUnitsKey.Float64(r.Cost.ReadUnits), WriteUnitsKey.Float64(r.Cost.WriteUnits))
	if r.Kind.IsDecision() {
		span.SetAttributes(SourceKey.String(labels.Source(&r)))
	}
	if r.Shards > 0 {
		span.SetAttributes(ShardCountKey.Int(r.Shards))
	}
	if refused, ok := errors.AsType[*limiter.ExceededError](r.Err); ok {
		var limits []string
		for i := range refused.Statuses {
			if s := &refused.Statuses[i]; s.Exceeded {
				limits = append(limits, s.Limit.Name)
			}
		}
		span.SetAttributes(LimitKey.StringSlice(limits))
		if wait := refused.RetryAfter(); wait != limiter.Never {
			span.SetAttributes(RetryAfterKey.Int64(wait.Milliseconds()))
		}
		return
	}
	o.failed(span, r.Err, r.Result == limiter.Failed)
}

// failed notes an error on a span. isFailure says that the span failed because of it.
func (o *Observer) failed(span trace.Span, err error, isFailure bool) {
	if err == nil {
		return
	}
	span.SetAttributes(semconv.ErrorTypeKey.String(limiter.ErrorKind(err)))
	if isFailure {
		description := limiter.ErrorKind(err)
		if o.entities { // the text may name the entity
			description = err.Error()
		}
		span.SetStatus(codes.Error, description)
	}
}

// BeginOperation starts the span of an operation of the store.
func (o *Observer) BeginOperation(ctx context.Context, op limiter.Operation) context.Context {
	attributes := append(o.about(op.Entity, op.Resource), semconv.DBSystemNameAWSDynamoDB, OperationKey.String(string(op.Kind)))
	if op.Kind.IsWrite() {
		attributes = append(attributes, ShardKey.Int(op.Shard))
	}
	if op.Items > 1 {
		attributes = append(attributes, semconv.DBOperationBatchSize(op.Items))
	}
	return o.begin(ctx, string(op.Kind), trace.SpanKindClient, attributes...)
}

// EndOperation ends the span of an operation, and counts the operation. The store's own
// name of the operation is known only now.
func (o *Observer) EndOperation(ctx context.Context, r limiter.OperationResult) {
	o.names.Note(&r)
	o.instruments.operated(ctx, o.names.Known(r.Resource), &r)
	span := o.span(ctx)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if name, table := r.Cost.Name, r.Cost.Table; name != "" {
		span.SetName(name + " " + table)
		span.SetAttributes(semconv.DBOperationName(name), semconv.DBCollectionName(table), semconv.AWSDynamoDBTableNames(table))
	}
	span.SetAttributes(ResultKey.String(labels.Outcome(&r)), RequestsKey.Int(r.Cost.Requests),
		ReadUnitsKey.Float64(r.Cost.ReadUnits), WriteUnitsKey.Float64(r.Cost.WriteUnits))
	if r.ShardCount > 0 {
		span.SetAttributes(ShardCountKey.Int(r.ShardCount))
	}
	o.failed(span, r.Err, true)
}

// tokens is an amount in tokens.
func tokens(a store.Amount) float64 { return float64(a.Milli) / store.Milli }
