package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// A sink is a writer that costs nothing.
type sink struct{ h http.Header }

func (s sink) Header() http.Header         { return s.h }
func (s sink) Write(p []byte) (int, error) { return len(p), nil }
func (s sink) WriteHeader(int)             {}

// A comparison has three things to do: to acquire and commit for real, on the engine in
// memory; to serve a request with a lease that was acquired before; and to serve it behind
// the middleware, header fields included. The last two differ by the middleware alone.
type comparison struct{ acquire, alone, behind func() }

func compare(tb testing.TB) comparison {
	tb.Helper()
	limits := limitertest.New(tb, limiter.PerMinute("rpm", 1_000_000_000), limiter.PerMinute("tpm", 1_000_000_000_000))
	req := limiter.Request{Entity: "key-1", Resource: httplimit.DefaultResource, Consume: map[string]int64{"rpm": 1, "tpm": 100}}
	lease, err := limits.Acquire(tb.Context(), req)
	if err != nil {
		tb.Fatal(err)
	}
	same := httplimit.AcquirerFunc(func(context.Context, limiter.Request) (*limiter.Lease, error) { return lease, nil })
	m, err := httplimit.New(same, httplimit.Options{Entity: httplimit.Header("Key"), Consume: req.Consume})
	if err != nil {
		tb.Fatal(err)
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	w, r := sink{http.Header{}}, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Key", "key-1")
	serve := func(h http.Handler) func() {
		return func() {
			clear(w.h)
			h.ServeHTTP(w, r)
		}
	}
	through := func(limits httplimit.Acquirer, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lease, err := limits.Acquire(r.Context(), req)
			if err != nil {
				tb.Fatal(err)
			}
			next.ServeHTTP(w, r)
			if err := lease.Commit(r.Context()); err != nil {
				tb.Fatal(err)
			}
		})
	}
	return comparison{serve(through(direct(tb), next)), serve(through(same, next)), serve(m.Handler(next))}
}

// direct is a limiter whose engine answers at once, as a program's own would be.
func direct(tb testing.TB) httplimit.Acquirer {
	tb.Helper()
	limits := limitertest.New(tb, limiter.PerMinute("rpm", 1_000_000_000), limiter.PerMinute("tpm", 1_000_000_000_000))
	l, err := limiter.New(limits.Store, limiter.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
	})
	return l
}

// BenchmarkMiddleware measures what the middleware adds to a request with two limits, in
// short slices in turn. It reports the median: in nanoseconds, and as a share of the time of
// an acquire on the engine in memory, the fastest that there is.
func BenchmarkMiddleware(b *testing.B) {
	const size = 200
	c := compare(b)
	slice := func(f func()) float64 {
		begin := time.Now()
		for range size {
			f()
		}
		return float64(time.Since(begin).Nanoseconds()) / size
	}
	var added, share []float64
	for b.Loop() {
		acquire, alone, behind := slice(c.acquire), slice(c.alone), slice(c.behind)
		added = append(added, behind-alone)
		share = append(share, (behind-alone)/acquire)
	}
	slices.Sort(added)
	slices.Sort(share)
	b.ReportMetric(added[len(added)/2], "added-ns")
	b.ReportMetric(share[len(share)/2], "added/acquire")
	b.ReportMetric(testing.AllocsPerRun(100, c.behind)-testing.AllocsPerRun(100, c.alone), "added-allocs")
	b.ReportMetric(0, "ns/op") // of three slices
}

// maxAllocations is the budget for one request on top of the acquire, header fields of two
// limits included.
const maxAllocations = 12

func TestTheMiddlewaresAllocationBudget(t *testing.T) {
	c := compare(t)
	if added := testing.AllocsPerRun(1000, c.behind) - testing.AllocsPerRun(1000, c.alone); added > maxAllocations {
		t.Errorf("the middleware adds %v allocations, %d are the most", added, maxAllocations)
	}
}
