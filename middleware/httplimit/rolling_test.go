package httplimit_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// An upstream permits 60 requests in any 60 seconds. A bucket lets its capacity through, and what
// it earns in 60 seconds. With the default capacity that is nearly twice as much.
func TestABucketBeforeARollingWindow(t *testing.T) {
	t.Parallel()
	const permitted, window = 60, time.Minute
	for name, c := range map[string]struct {
		limit limiter.Limit
		most  int
	}{
		"the rate of the window": {limiter.PerMinute("requests", permitted), 2 * permitted},
		"a small burst":          {smallBurst, permitted},
		"half the rate":          {halfTheRate, permitted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sent []time.Time
				base := roundTripper(func(*http.Request) (*http.Response, error) {
					sent = append(sent, time.Now())
					return answer(http.StatusOK, ""), nil
				})
				limits := limitertest.New(t, c.limit)
				client := &http.Client{Transport: transport(t, httplimit.AcquirerFunc(limits.Wait), httplimit.TransportOptions{Base: base})}
				ctx, cancel := context.WithTimeout(t.Context(), 3*window)
				defer cancel()
				for ctx.Err() == nil { // as fast as the limiter permits
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example/", http.NoBody)
					if err != nil {
						t.Fatal(err)
					}
					if res, err := client.Do(r); err == nil {
						_ = res.Body.Close()
					}
				}
				most, first := 0, 0
				for last := range sent {
					for sent[last].Sub(sent[first]) >= window {
						first++
					}
					most = max(most, last-first+1)
				}
				if most > c.most || most < c.most-2 {
					t.Errorf("%d requests in 60 seconds, want %d", most, c.most)
				}
			})
		})
	}
}

// The limits that docs/http.md shows.
var (
	smallBurst  = limiter.PerMinute("requests", 54, limiter.Burst(6)) // 54 + 6 in any minute
	halfTheRate = limiter.PerMinute("requests", 30)                   // 30 + 30 in any minute
)
