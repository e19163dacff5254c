package httpapi_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// BenchmarkBatch decides batches of 100 calls on an engine in memory: of as many entities, or all of one.
func BenchmarkBatch(b *testing.B) {
	for _, entities := range []int{1000, 1} {
		b.Run(fmt.Sprintf("entities=%d", entities), func(b *testing.B) {
			limits := limitertest.New(b, limiter.PerMinute("rpm", 1_000_000_000))
			s, err := dynamo.Open(b.Context(), dynamo.Options{API: limits.Engine, Table: testbed.Table}) // answers at once
			if err != nil {
				b.Fatal(err)
			}
			l, err := limiter.New(s, limiter.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			h := handlerOf(l, decide.Policy{})
			bodies := make([]string, 64)
			for i := range bodies {
				calls := make([]string, 100)
				for j := range calls {
					calls[j] = fmt.Sprintf(`{"entity_id":"key-%d","resource":"api","consume":{"rpm":1}}`, rand.IntN(entities)) //nolint:gosec // a load
				}
				bodies[i] = `{"calls":[` + strings.Join(calls, ",") + "]}"
			}
			call := func(body string) {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/batch", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if n := strings.Count(w.Body.String(), `"http_status":200`); n != 100 {
					b.Fatalf("%d of 100 calls: %.300s", n, w.Body)
				}
			}
			for _, body := range bodies {
				call(body)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call(bodies[rand.IntN(len(bodies))]) //nolint:gosec // a load
				}
			})
		})
	}
}
