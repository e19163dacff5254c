package aggregator_test

import (
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// Usage is exact even if the item's own count does not fit 64 bits. That of an hour must.
func TestUsageBeyond64Bits(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 1000} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.System(limiter.PerHour("bytes", limiter.MaxTokens))
			for range 25 {
				w.Take(w.Limiter, ask("user", "bytes", limiter.MaxTokens))
				time.Sleep(time.Hour)
			}
			w.drop("user")
			records := w.drain()
			for range 2 {
				for i := 0; i < len(records); i += size {
					w.process(records[i:min(len(records), i+size)])
				}
			}
			for _, window := range []usage.Window{usage.Hourly, usage.Daily, usage.Monthly} {
				if got := w.total(w.Store, usage.Query{Entity: "user", Window: window}); got != "25 map[bytes:25000000000000000000]" {
					w.Errorf("in batches of %d records, window %d: %s", size, window, got)
				}
			}
		})
	}
}
