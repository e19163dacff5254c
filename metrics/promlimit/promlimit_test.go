package promlimit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/metrics/internal/labels"
	"github.com/zeroae/zae-limiter-go/metrics/promlimit"
)

var ask = testbed.Ask

// newCollector returns a registered collector.
func newCollector(t *testing.T, o promlimit.Options) (*promlimit.Collector, *prometheus.Registry) {
	t.Helper()
	c, err := promlimit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	return c, registry
}

// values returns the samples of all series, by name and labels.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var pairs []string
			for _, l := range m.GetLabel() {
				pairs = append(pairs, l.GetName()+"="+l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			samples[strings.TrimPrefix(f.GetName(), "zae_limiter_")+"{"+strings.Join(pairs, " ")+"}"] = value
		}
	}
	return samples
}

// Every figure of a small history is exact.
func TestMetricsOfAHistory(t *testing.T) {
	t.Parallel()
	c, registry := newCollector(t, promlimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: c}})
	w.Entities(limiter.Entity{ID: "project"}, testbed.Child("key", "project"))
	month, err := limiter.ParseRenewal("month", "Europe/Berlin")
	w.Must(err)
	w.System(limiter.PerHour("rph", 1_000_000), limiter.PerHour("tph", 1_000_000), limiter.Quota("tpm", 5_000_000, month))
	w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: testbed.Resource}, []limiter.Limit{limiter.PerHour("rph", 7200), limiter.PerHour("tph", 100)}))
	w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: testbed.Resource}, []limiter.Limit{limiter.PerHour("rph", 2), limiter.PerHour("tph", 1000)}))

	lease, err := w.Acquire(w.Context(), testbed.AskAll("key", testbed.Tokens{"rph": 1, "tph": 60}))
	w.Must(err)
	w.Must(lease.Adjust("tph", -20))
	w.Must(lease.Commit(w.Context()))
	lease, err = w.Acquire(w.Context(), ask("key", "tph", 10))
	w.Must(err)
	w.Must(lease.Adjust("tph", 5))
	w.Must(lease.Commit(w.Context()))
	lease, err = w.Acquire(w.Context(), ask("key", "rph", 1))
	w.Must(err)
	w.Must(lease.Rollback(w.Context()))
	if w.Take(w.Limiter, ask("key", "tph", 90)) == nil || w.Take(w.Limiter, ask("key", "rph", 2)) == nil {
		t.Fatal("admitted")
	}
	if _, err := w.Acquire(w.Context(), ask("key", "nope", 1)); !errors.Is(err, limiter.ErrNotConfigured) {
		t.Fatal(err)
	}
	_, err = w.Available(w.Context(), ask("key", "rph", 1))
	w.Must(err)

	got := values(t, registry)
	for series, want := range map[string]float64{
		"decisions_total{resource=gpt-4 result=admitted source=store}":                      3,
		"decisions_total{resource=gpt-4 result=refused source=memory}":                      2,
		"decisions_total{resource=gpt-4 result=failed source=store}":                        1,
		"refusals_total{bucket=entity limit=tph mode=enforce resource=gpt-4 source=memory}": 1,
		"refusals_total{bucket=parent limit=rph mode=enforce resource=gpt-4 source=memory}": 1,
		"tokens_taken_total{limit=tph resource=gpt-4}":                                      75,
		"tokens_taken_total{limit=rph resource=gpt-4}":                                      2,
		"tokens_returned_total{limit=rph resource=gpt-4}":                                   1,
		"tokens_returned_total{limit=tph resource=gpt-4}":                                   20,
		"settlements_total{call=commit resource=gpt-4 result=completed}":                    2,
		"settlements_total{call=rollback resource=gpt-4 result=completed}":                  1,
		"errors_total{call=acquire kind=not_configured resource=gpt-4}":                     1,
		"call_duration_seconds{call=acquire resource=gpt-4 result=admitted}":                3,
		"call_duration_seconds{call=available resource=gpt-4 result=completed}":             1,
		"limit_capacity_tokens{level=resource limit=rph resource=gpt-4}":                    7200,
		"limit_rate_tokens_per_second{level=resource limit=rph resource=gpt-4}":             2,
		"limit_capacity_tokens{level=system limit=tph resource=}":                           1_000_000,
		"limit_capacity_tokens{level=system limit=tpm resource=}":                           5_000_000,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
		delete(got, series)
	}
	if rate, has := got["limit_rate_tokens_per_second{level=system limit=tpm resource=}"]; has {
		t.Errorf("a quota has the rate %v", rate)
	}
	for series := range got { // what is not listed above
		name, _, _ := strings.Cut(series, "{")
		if slices.Contains([]string{"refusals_total", "errors_total", "decisions_total", "tokens_taken_total", "tokens_returned_total", "settlements_total"}, name) {
			t.Errorf("%s is %v, want none", series, got[series])
		}
	}
	if got["capacity_units_total{kind=read resource=gpt-4}"] == 0 {
		t.Error("no units of reads")
	}
	totals := w.Meter.Totals()
	if got["capacity_units_total{kind=write resource=gpt-4}"] == 0 || got["store_requests_total{operation=adjust resource=gpt-4}"] == 0 || got["bucket_shards{resource=gpt-4}"] == 0 {
		t.Errorf("the rest: %v; the meter has %v", got, totals)
	}
}

// Leases that are written down count once, whoever settles them how often; what a later settlement did
// not do, it does not count.
func TestMetricsOfReservations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, registry := newCollector(t, promlimit.Options{})
		w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: c, TokenKeys: [][]byte{make([]byte, limiter.MinTokenKey)}}})
		w.System(limiter.PerDay("tpd", 1000))
		for range 2 {
			text, err := w.Lease(w.Limiter, ask("key", "tpd", 100)).Token(w.Context(), time.Minute)
			w.Must(err)
			for range 2 {
				lease, err := w.Resume(text)
				w.Must(err)
				text, err = lease.Token(w.Context(), time.Hour)
				w.Must(err)
			}
			for _, used := range []int64{40, 40, 50} {
				lease, err := w.Resume(text)
				w.Must(err)
				w.Must(lease.Settle("tpd", used))
				if err := lease.Commit(w.Context()); err != nil && !errors.Is(err, limiter.ErrSettled) {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Hour)
		}
		text, err := w.Lease(w.Limiter, ask("key", "tpd", 30)).Token(w.Context(), time.Minute)
		w.Must(err)
		_, err = w.Lease(w.Limiter, ask("key", "tpd", 7)).Token(w.Context(), time.Minute) // it is lost
		w.Must(err)
		time.Sleep(time.Minute + time.Second)
		late, err := w.Resume(text)
		w.Must(err)
		w.Must(late.Commit(w.Context()))
		got := values(t, registry)
		for series, want := range map[string]float64{
			"tokens_taken_total{limit=tpd resource=gpt-4}":                         237,
			"tokens_returned_total{limit=tpd resource=gpt-4}":                      120,
			"tokens_reserved_total{limit=tpd resource=gpt-4}":                      237,
			"tokens_reserved_settled_total{limit=tpd resource=gpt-4 when=in_time}": 200,
			"tokens_reserved_settled_total{limit=tpd resource=gpt-4 when=late}":    30,
			"reservation_used_ratio{limit=tpd resource=gpt-4}":                     3,
			"settlements_total{call=commit resource=gpt-4 result=completed}":       5,
			"errors_total{call=commit kind=settled resource=gpt-4}":                2,
			"call_duration_seconds{call=token resource=gpt-4 result=completed}":    8,
		} {
			if got[series] != want {
				t.Errorf("%s is %v, want %v", series, got[series], want)
			}
		}
	})
}

// The histogram of shards has the number of shards of the buckets in use.
func TestShardsAreMeasured(t *testing.T) {
	t.Parallel()
	c, registry := newCollector(t, promlimit.Options{})
	for _, n := range []int{1, 4, 0} { // 0: the call did not see the bucket
		c.EndCall(t.Context(), limiter.CallResult{
			Call: limiter.Call{Kind: limiter.CallAcquire, Entity: "key", Resource: testbed.Resource}, Result: limiter.Admitted, Shards: n,
		})
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "zae_limiter_bucket_shards" {
			if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() != 1+4 {
				t.Errorf("%d samples, whose sum is %v", h.GetSampleCount(), h.GetSampleSum())
			}
			return
		}
	}
	t.Error("no histogram")
}

// The gauges of limits follow the configuration, also when it is removed.
func TestConfiguredLimitsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	c, registry := newCollector(t, promlimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: c, ConfigTTL: -1}})
	w.System(limiter.PerHour("rph", 100))
	key := limiter.ConfigKey{Resource: testbed.Resource}
	const series = "limit_capacity_tokens{level=resource limit=rph resource=gpt-4}"
	for i, limits := range [][]limiter.Limit{{limiter.PerHour("rph", 10)}, {limiter.PerHour("rph", 20)}, nil} {
		if limits != nil {
			w.Must(w.Store.SetLimits(w.Context(), key, limits))
		} else {
			w.Must(w.Store.DeleteLimits(w.Context(), key))
		}
		w.Take(w.Limiter, ask(fmt.Sprint("key-", i), "rph", 1))
		got, there := values(t, registry)[series]
		if limits == nil && there || limits != nil && got != float64(limits[0].Capacity) {
			t.Errorf("step %d: %v, %v", i, got, there)
		}
	}
}

// Requests for invented resources cannot make series without bound, and leave room for
// the configured ones.
func TestInventedResourcesDoNotMakeSeries(t *testing.T) {
	t.Parallel()
	c, registry := newCollector(t, promlimit.Options{MaxResources: 10, Resources: []string{"named"}})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: c}})
	w.System(limiter.PerHour("rph", 1_000_000))
	use := func(resource string) {
		req := ask("key", "rph", 1)
		req.Resource = resource
		w.Take(w.Limiter, req)
		bad := ask("key", "nope", 1)
		bad.Resource = resource + "-failed"
		_, _ = w.Acquire(w.Context(), bad)
		bad.Resource = "\xff" + resource
		_, _ = w.Acquire(w.Context(), bad)
	}
	for i := range 200 {
		use(fmt.Sprint("invented-", i))
	}
	for i := range 20 {
		name := fmt.Sprint("real-", i)
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: name}, []limiter.Limit{limiter.PerHour("rph", 10)}))
		use(name)
	}
	use("named")
	counts := map[string]int{}
	for _, l := range distinct(t, registry, "resource") {
		kind, _, _ := strings.Cut(l, "-")
		counts[kind]++
	}
	if counts["invented"] != 5 || counts["real"] != 5 || counts["named"] != 1 || counts[labels.Other] != 1 || len(counts) != 5 { // and "" of the system
		t.Errorf("labels of resources: %v", counts)
	}
	if n := len(values(t, registry)); n > 12*40 {
		t.Errorf("%d series", n)
	}
}

// distinct returns the distinct values of a label.
func distinct(t *testing.T, registry *prometheus.Registry, name string) (all []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == name && !slices.Contains(all, l.GetValue()) {
					all = append(all, l.GetValue())
				}
			}
		}
	}
	return all
}

// Limits beyond the most of a resource share a label.
func TestInventedLimitsDoNotMakeSeries(t *testing.T) {
	t.Parallel()
	c, registry := newCollector(t, promlimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: c}})
	for i := range 300 {
		req := ask(fmt.Sprint("key-", i), fmt.Sprint("limit-", i), 1)
		req.Fallback = []limiter.Limit{limiter.PerHour(fmt.Sprint("limit-", i), 10)}
		w.Take(w.Limiter, req)
	}
	if got := distinct(t, registry, "limit"); len(got) != 65 || !slices.Contains(got, labels.Other) {
		t.Errorf("%d labels of limits", len(got))
	}
}

// An outage shows as errors, failed operations and degraded decisions.
func TestMetricsOfAnOutage(t *testing.T) {
	t.Parallel()
	c, registry := newCollector(t, promlimit.Options{Resources: []string{testbed.Resource}})
	w := testbed.New(t, testbed.Options{})
	var outage faults.Slot
	l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, outage.Apply)), limiter.Options{Observer: c, Timeout: time.Minute})
	outage.Set(faults.Fail(errors.New("no route")))
	req := ask("key", "rph", 1)
	if _, err := l.Acquire(w.Context(), req); !errors.Is(err, limiter.ErrUnavailable) {
		t.Fatal(err)
	}
	req.OnUnavailable = limiter.Allow
	_, err := l.Acquire(w.Context(), req)
	w.Must(err)
	got := values(t, registry)
	for series, want := range map[string]float64{
		"decisions_total{resource=gpt-4 result=failed source=store}":          1,
		"decisions_total{resource=gpt-4 result=degraded source=store}":        1,
		"errors_total{call=acquire kind=unavailable resource=gpt-4}":          2,
		"store_errors_total{kind=unavailable operation=load resource=gpt-4}":  2,
		"store_operations_total{operation=load resource=gpt-4 result=failed}": 2,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v: %v", series, got[series], want, got)
		}
	}
	for series := range got {
		if strings.HasPrefix(series, "tokens_") {
			t.Errorf("%s is %v, and nothing was metered", series, got[series])
		}
	}
}

// Invalid options are refused.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []promlimit.Options{{MaxResources: -1}, {Resources: []string{"a b"}}} {
		if _, err := promlimit.New(o); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Names, units and help of all metrics follow Prometheus's conventions.
func TestMetricsPassTheLinter(t *testing.T) {
	t.Parallel()
	c, registry := newCollector(t, promlimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: c}})
	w.System(limiter.PerHour("rph", 1))
	w.Take(w.Limiter, ask("key", "rph", 1))
	families, err := registry.Gather()
	w.Must(err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// BenchmarkCollector measures what the collector adds to a refusal from memory, and to a
// warm acquire on an engine in the same process.
func BenchmarkCollector(b *testing.B) {
	for _, attached := range []bool{false, true} {
		var o limiter.Options
		if attached {
			c, err := promlimit.New(promlimit.Options{})
			if err != nil {
				b.Fatal(err)
			}
			o.Observer = c
		}
		w := testbed.New(b, testbed.Options{Limiter: o})
		w.System(limiter.PerHour("rph", limiter.MaxTokens), limiter.PerDay("tpd", 1))
		b.Run(fmt.Sprintf("acquire/attached=%t", attached), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.Take(w.Limiter, ask("key", "rph", 1))
			}
		})
		w.Take(w.Limiter, ask("key", "tpd", 1))
		b.Run(fmt.Sprintf("refusal/attached=%t", attached), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = w.Acquire(b.Context(), ask("key", "tpd", 1))
			}
		})
	}
}

// A request of several resources is one decision, of its first resource. What it took,
// returned and was refused for counts for each.
func TestMetricsOfSeveralResources(t *testing.T) {
	t.Parallel()
	c, registry := newCollector(t, promlimit.Options{})
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: c}})
	w.UseTwoResources()
	got := values(t, registry)
	for series, want := range map[string]float64{
		"decisions_total{resource=gpt-4 result=admitted source=store}":                       1,
		"decisions_total{resource=gpt-4 result=refused source=memory}":                       1,
		"settlements_total{call=commit resource=gpt-4 result=completed}":                     1,
		"tokens_taken_total{limit=rpd resource=gpt-4}":                                       65,
		"tokens_taken_total{limit=rpd resource=images}":                                      30,
		"tokens_returned_total{limit=rpd resource=images}":                                   10,
		"refusals_total{bucket=entity limit=rpd mode=enforce resource=images source=memory}": 1,
		"refusals_total{bucket=entity limit=rpd mode=enforce resource=gpt-4 source=memory}":  0,
		"decisions_total{resource=images result=admitted source=store}":                      0,
		"settlements_total{call=commit resource=images result=completed}":                    0,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
}
