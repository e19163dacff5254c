package envoy_test

import (
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/metrics/promlimit"
)

// served is a service as the command serve makes it, without a network: on an engine in memory, or in a directory. It
// has a file of envoyproxy/ratelimit.
func served(tb testing.TB, dir string) *envoy.Service {
	tb.Helper()
	engine, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = engine.Close() })
	if err := dynamo.CreateTable(tb.Context(), engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		tb.Fatal(err)
	}
	s, err := dynamo.Open(tb.Context(), dynamo.Options{API: engine, Table: "limits"})
	if err != nil {
		tb.Fatal(err)
	}
	metrics, err := promlimit.New(promlimit.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	refused := refusals.New(time.Now)
	l, err := limiter.New(s, limiter.Options{Observer: limiter.Observers{metrics, refused}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	rules, err := mapping.ParseReference(hot.Files{"limits.yaml": []byte(`domain: gateway
descriptors:
  - key: tenant
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
  - key: empty
    rate_limit: {unit: day, requests_per_unit: 1}
`)})
	if err != nil {
		tb.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	return envoy.New(envoy.Options{
		Limiter: l, Rules: func() *mapping.Rules { return rules }, Refusals: refused, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Known: envoy.NewKnown(func() hot.State { return hot.State{} }, registry),
	}, registry)
}

// A call makes few allocations, the limiter's and the engine's included: they are the part of its cost that does not
// depend on the machine. Not parallel: those of other tests would be counted.
func TestAllocationsOfACall(t *testing.T) {
	s := served(t, "")
	for key, most := range map[string]float64{"tenant": 115, "empty": 40} {
		in := &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{descriptor(key, "acme")}}
		n := testing.AllocsPerRun(500, func() {
			if _, err := s.ShouldRateLimit(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		})
		if n > most {
			t.Errorf("%s: %v allocations, want %v at most", key, n, most)
		}
	}
}

// BenchmarkCall answers calls without a network, by many clients at once: of 1,000 tenants with room, or one without.
func BenchmarkCall(b *testing.B) {
	for _, where := range []string{"memory", "disk"} {
		for key, tenants := range map[string]int{"tenant": 1000, "empty": 1} {
			b.Run(where+"/"+key, func(b *testing.B) {
				dir := ""
				if where == "disk" {
					dir = b.TempDir()
				}
				s := served(b, dir)
				calls := make([]*rls.RateLimitRequest, tenants)
				for i := range calls {
					calls[i] = &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{descriptor(key, strconv.Itoa(i))}}
				}
				for range 2 {
					for _, in := range calls {
						if _, err := s.ShouldRateLimit(b.Context(), in); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportAllocs()
				b.SetParallelism(32)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for n := rand.IntN(tenants); pb.Next(); n++ { //nolint:gosec // a load
						if _, err := s.ShouldRateLimit(b.Context(), calls[n%tenants]); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}
