package dynamo_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/store"
)

// A refill that passes a change of the amount leaves the item in step, so that the next change
// gives its difference, too.
func TestRefillsLeaveAnItemInStep(t *testing.T) {
	inTownship(t, func(w *township) {
		quota := limiter.Quota("a", 100, session("month"))
		half, err := store.ParseSchedule("* 0-11 * * * x0.5", "UTC")
		w.must(err)
		quota.Varies = half
		fixture.SetLimits(w.T, w.Store, theEntity, []limiter.Limit{quota})
		client := w.client(w.api.Table)
		for range 5 {
			lease, err := client.Acquire(w.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"a": 1}})
			w.must(err)
			w.must(lease.Commit(w.Context()))
			images, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
			w.must(err)
			if !images[0].InStep {
				w.Fatal("the item is out of step")
			}
			time.Sleep(12 * time.Hour)
		}
	})
}
