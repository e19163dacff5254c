package otellimit_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/metrics/internal/labels"
	"github.com/zeroae/zae-limiter-go/metrics/otellimit"
	"github.com/zeroae/zae-limiter-go/store"
)

var ask = testbed.Ask

// A recording is an observer with an SDK that keeps spans and metrics.
type recording struct {
	*otellimit.Observer
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
	reader *metric.ManualReader
}

func record(t *testing.T, o otellimit.Options) *recording {
	t.Helper()
	r := &recording{spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	r.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(r.spans))
	o.TracerProvider, o.MeterProvider = r.tracer, metric.NewMeterProvider(metric.WithReader(r.reader))
	var err error
	if r.Observer, err = otellimit.New(o); err != nil {
		t.Fatal(err)
	}
	return r
}

// ended returns the spans that have ended since the last reset, and forgets them.
func (r *recording) ended() []trace.ReadOnlySpan {
	defer r.spans.Reset()
	return r.spans.Ended()
}

// values returns the data points of all metrics, by name and attributes. That of a
// histogram is its count.
func (r *recording) values(t *testing.T) map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	points := map[string]float64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			note := func(set attribute.Set, value float64) {
				var pairs []string
				for _, kv := range set.ToSlice() {
					pairs = append(pairs, strings.TrimPrefix(string(kv.Key), "zae_limiter.")+"="+kv.Value.String())
				}
				points[m.Name+"{"+strings.Join(pairs, " ")+"}"] = value
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					note(p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					note(p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					note(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					note(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					note(p.Attributes, float64(p.Count))
				}
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					note(p.Attributes, float64(p.Count))
				}
			default:
				t.Errorf("%s has data of type %T", m.Name, d)
			}
		}
	}
	return points
}

// attributesOf returns the attributes of a span by key.
func attributesOf(span trace.ReadOnlySpan) map[attribute.Key]string {
	all := map[attribute.Key]string{}
	for _, kv := range span.Attributes() {
		all[kv.Key] = kv.Value.String()
	}
	return all
}

// A warm acquire is one span below the caller's, and its write one below that, with the
// names of the semantic conventions.
func TestSpansOfAnAcquire(t *testing.T) {
	t.Parallel()
	r := record(t, otellimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: r}})
	w.System(limiter.PerHour("rph", 10))
	w.Take(w.Limiter, ask("key", "rph", 1))
	r.ended()

	ctx, mine := r.tracer.Tracer("the program").Start(w.Context(), "request")
	if _, err := w.Acquire(ctx, ask("key", "rph", 2)); err != nil {
		t.Fatal(err)
	}
	mine.End()
	spans := r.ended()
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	write, acquire := spans[0], spans[1]
	if acquire.Name() != "acquire" || acquire.Parent().SpanID() != mine.SpanContext().SpanID() || acquire.SpanKind() != api.SpanKindInternal || acquire.Status().Code != codes.Unset {
		t.Errorf("the acquire is %v", acquire)
	}
	if write.Name() != "UpdateItem "+testbed.Table || write.Parent().SpanID() != acquire.SpanContext().SpanID() || write.SpanKind() != api.SpanKindClient {
		t.Errorf("the write is %v", write)
	}
	for _, check := range []struct {
		of   trace.ReadOnlySpan
		key  attribute.Key
		want string
	}{
		{acquire, otellimit.ResourceKey, testbed.Resource},
		{acquire, otellimit.ResultKey, "admitted"},
		{acquire, otellimit.SourceKey, "store"},
		{acquire, otellimit.RequestsKey, "1"},
		{acquire, otellimit.WriteUnitsKey, "1"},
		{acquire, otellimit.EntityKey, ""},
		{write, "db.system.name", "aws.dynamodb"},
		{write, "db.operation.name", "UpdateItem"},
		{write, "db.collection.name", testbed.Table},
		{write, "aws.dynamodb.table_names", `["` + testbed.Table + `"]`},
		{write, otellimit.OperationKey, "take"},
		{write, otellimit.ResultKey, "done"},
		{write, otellimit.ShardCountKey, "1"},
		{write, otellimit.EntityKey, ""},
	} {
		if got := attributesOf(check.of)[check.key]; got != check.want {
			t.Errorf("%s of %s is %q, want %q", check.key, check.of.Name(), got, check.want)
		}
	}
}

// A refusal is no error, and names the limits. A failure has the type of its error, and
// the entity only if that is asked for.
func TestSpansOfRefusalsAndFailures(t *testing.T) {
	t.Parallel()
	for _, entities := range []bool{false, true} {
		r := record(t, otellimit.Options{Entities: entities})
		w := testbed.New(t, testbed.Options{})
		w.System(limiter.PerHour("rph", 10))
		var outage faults.Slot
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, outage.Apply)), limiter.Options{Observer: r})
		w.Take(l, ask("secret", "rph", 10))
		r.ended()
		w.Take(l, ask("secret", "rph", 1))
		span := r.ended()[0]
		if a := attributesOf(span); span.Status().Code != codes.Unset || a[otellimit.LimitKey] != `["rph"]` || a[otellimit.RetryAfterKey] == "" || a[otellimit.SourceKey] != "memory" {
			t.Errorf("the refusal is %v, %v", span.Status(), a)
		}
		outage.Set(faults.Fail(errors.New("no route")))
		if _, err := l.Acquire(w.Context(), ask("secret-2", "rph", 1)); !errors.Is(err, limiter.ErrUnavailable) {
			t.Fatal(err)
		}
		spans := r.ended()
		if len(spans) < 2 {
			t.Fatalf("%d spans", len(spans))
		}
		for _, span := range spans {
			a := attributesOf(span)
			if span.Status().Code != codes.Error || a["error.type"] != "unavailable" {
				t.Errorf("%s is %v, %v", span.Name(), span.Status(), a)
			}
			if text := fmt.Sprint(a, span.Status(), span.Name()); strings.Contains(text, "secret") != entities {
				t.Errorf("entities %t: the span says %s", entities, text)
			}
		}
	}
}

// Every figure of a small history is exact.
func TestMetricsOfAHistory(t *testing.T) {
	t.Parallel()
	r := record(t, otellimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: r}})
	month, err := limiter.ParseRenewal("month", "Europe/Berlin")
	w.Must(err)
	w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: testbed.Resource}, []limiter.Limit{limiter.PerHour("rph", 7200), limiter.PerHour("tph", 100), limiter.Quota("tpm", 5000, month)}))
	lease, err := w.Acquire(w.Context(), testbed.AskAll("key", testbed.Tokens{"rph": 1, "tph": 60}))
	w.Must(err)
	w.Must(lease.Adjust("tph", -20))
	w.Must(lease.Commit(w.Context()))
	if w.Take(w.Limiter, ask("key", "tph", 90)) == nil {
		t.Fatal("admitted")
	}
	_, _ = w.Acquire(w.Context(), ask("key", "nope", 1))
	got := r.values(t)
	if rate, has := got["zae_limiter.limit.rate{level=resource limit=tpm resource=gpt-4}"]; has {
		t.Errorf("a quota has the rate %v", rate)
	}
	for point, want := range map[string]float64{
		"zae_limiter.decisions{resource=gpt-4 result=admitted source=store}":                                                                         1,
		"zae_limiter.decisions{resource=gpt-4 result=refused source=memory}":                                                                         1,
		"zae_limiter.refusals{bucket=entity limit=tph mode=enforce resource=gpt-4 source=memory}":                                                    1,
		"zae_limiter.tokens.taken{limit=tph resource=gpt-4}":                                                                                         60,
		"zae_limiter.tokens.returned{limit=tph resource=gpt-4}":                                                                                      20,
		"zae_limiter.call.duration{error.type=not_configured call=acquire resource=gpt-4 result=failed}":                                             1,
		"zae_limiter.call.duration{call=commit resource=gpt-4 result=completed}":                                                                     1,
		"zae_limiter.bucket.shards{resource=gpt-4}":                                                                                                  1,
		"zae_limiter.limit.capacity{level=resource limit=rph resource=gpt-4}":                                                                        7200,
		"zae_limiter.limit.rate{level=resource limit=rph resource=gpt-4}":                                                                            2,
		"zae_limiter.limit.capacity{level=resource limit=tpm resource=gpt-4}":                                                                        5000,
		"db.client.operation.duration{db.collection.name=limits db.operation.name=PutItem db.system.name=aws.dynamodb operation=create result=done}": 1,
		"zae_limiter.store.requests{operation=create resource=gpt-4}":                                                                                1,
	} {
		if got[point] != want {
			t.Errorf("%s is %v, want %v", point, got[point], want)
		}
	}
	if got["zae_limiter.capacity_units{kind=write resource=gpt-4}"] < 2 {
		t.Errorf("units: %v", got)
	}
	for name := range got {
		name, _, _ = strings.Cut(name, "{")
		if !slices.ContainsFunc(otellimit.Instruments, func(i *otellimit.Instrument) bool { return i.Name == name }) {
			t.Errorf("%s is not documented", name)
		}
	}
}

// What a request of several resources took, returned and was refused for counts for each.
func TestMetricsOfSeveralResources(t *testing.T) {
	t.Parallel()
	r := record(t, otellimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: r}})
	w.UseTwoResources()
	got := r.values(t)
	for point, want := range map[string]float64{
		"zae_limiter.decisions{resource=gpt-4 result=admitted source=store}":                       1,
		"zae_limiter.decisions{resource=images result=admitted source=store}":                      0,
		"zae_limiter.tokens.taken{limit=rpd resource=gpt-4}":                                       65,
		"zae_limiter.tokens.taken{limit=rpd resource=images}":                                      30,
		"zae_limiter.tokens.returned{limit=rpd resource=images}":                                   10,
		"zae_limiter.refusals{bucket=entity limit=rpd mode=enforce resource=images source=memory}": 1,
	} {
		if got[point] != want {
			t.Errorf("%s is %v, want %v", point, got[point], want)
		}
	}
}

// A lease that is written down counts as reserved, and as settled once somebody has settled it.
func TestMetricsOfReservations(t *testing.T) {
	t.Parallel()
	r := record(t, otellimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: r, TokenKeys: [][]byte{make([]byte, limiter.MinTokenKey)}}})
	w.System(limiter.PerHour("tph", 100))
	text, err := w.Lease(w.Limiter, ask("key", "tph", 60)).Token(w.Context(), time.Minute)
	w.Must(err)
	lease, err := w.Resume(text)
	w.Must(err)
	w.Must(lease.Settle("tph", 15))
	w.Must(lease.Commit(w.Context()))
	got := r.values(t)
	for point, want := range map[string]float64{
		"zae_limiter.tokens.reserved{limit=tph resource=gpt-4}":                      60,
		"zae_limiter.tokens.reserved.settled{limit=tph resource=gpt-4 when=in_time}": 60,
		"zae_limiter.tokens.returned{limit=tph resource=gpt-4}":                      45,
		"zae_limiter.reservation.used_ratio{limit=tph resource=gpt-4}":               1,
	} {
		if got[point] != want {
			t.Errorf("%s is %v, want %v, of %v", point, got[point], want, got)
		}
	}
}

// What only limiters count are metrics, of the limiters that the observer watches.
func TestWatchedLimitersCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := record(t, otellimit.Options{})
		var busy faults.Slot
		w := testbed.New(t, testbed.Options{})
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, busy.Apply)), limiter.Options{})
		if _, there := r.values(t)["zae_limiter.waiting{}"]; there {
			t.Error("nothing is watched, and something counted")
		}
		r.Watch(l, w.Limiter)
		w.System(limiter.PerHour("rph", 10))
		w.Take(l, ask("key", "rph", 10))
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := l.Wait(ctx, ask("key", "rph", 1))
			left <- err
		}()
		synctest.Wait()
		w.Take(l, ask("other", "rph", 1))
		busy.Set(faults.Throttle(func(store.Bucket) error { return faults.BusyTable() }))
		for range 5 {
			_, _ = l.Acquire(t.Context(), ask("other", "rph", 1))
		}
		got, stats := r.values(t), l.Stats()
		if stats.Braked == 0 || got["zae_limiter.requests.braked{}"] != float64(stats.Braked) ||
			got["zae_limiter.waiting{}"] != 1 || got["zae_limiter.stamps.healed{}"] != 0 {
			t.Errorf("the limiter counts %+v, the metrics are %v", stats, got)
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Requests for invented resources cannot make attributes without bound.
func TestInventedResourcesDoNotMakeAttributes(t *testing.T) {
	t.Parallel()
	r := record(t, otellimit.Options{MaxResources: 10})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: r}})
	w.System(limiter.PerHour("rph", 1000))
	for i := range 100 {
		req := ask("key", "rph", 1)
		req.Resource = fmt.Sprint("invented-", i)
		w.Take(w.Limiter, req)
	}
	n := 0
	for point := range r.values(t) {
		if strings.HasPrefix(point, "zae_limiter.decisions") {
			n++
		}
	}
	if n != 6 || r.values(t)["zae_limiter.decisions{resource="+labels.Other+" result=admitted source=store}"] != 95 {
		t.Errorf("%d series of decisions: %v", n, r.values(t))
	}
}

// Two observers have spans of their own, one below the other.
func TestTwoObservers(t *testing.T) {
	t.Parallel()
	a, b := record(t, otellimit.Options{}), record(t, otellimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: limiter.Observers{a, b}}})
	w.System(limiter.PerHour("rph", 10))
	w.Take(w.Limiter, ask("key", "rph", 1))
	for _, r := range []*recording{a, b} {
		for _, span := range r.ended() {
			if !span.EndTime().After(span.StartTime().Add(-time.Nanosecond)) || attributesOf(span)[otellimit.ResultKey] == "" {
				t.Errorf("%s has not ended properly", span.Name())
			}
		}
		if n := len(r.spans.Started()); n != 0 {
			t.Errorf("%d spans were not ended", n)
		}
	}
}

// Invalid options are refused.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []otellimit.Options{{MaxResources: -1}, {Resources: []string{"a b"}}} {
		if _, err := otellimit.New(o); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

const documented = "../../docs/metrics.md"

var update = flag.Bool("update", false, "write the table of metrics to docs/metrics.md")

// The document's table has every metric as it is.
func TestTheMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- otel metrics -->\n", "<!-- end of otel metrics -->\n"
	var table strings.Builder
	table.WriteString("| metric | type | attributes | unit | meaning |\n|---|---|---|---|---|\n")
	for _, i := range otellimit.Instruments {
		var keys []string
		for _, k := range i.Attributes {
			keys = append(keys, "`"+string(k)+"`")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | `%s` | %s |\n", i.Name, i.Kind, strings.Join(keys, ", "), i.Unit, i.Help)
	}
	text, err := os.ReadFile(documented)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	was, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", documented)
	}
	if *update {
		if err := os.WriteFile(documented, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != table.String() {
		t.Errorf("%s differs; run go test -C otellimit -run Documented . -update", documented)
	}
}
