package dynamo_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/plan"
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

// A take that is worked out on an item whose parameters have lapsed does not reach a limit that got a
// schedule meanwhile: the balance may be above its new capacity, and is cut by a refill first.
func TestALapsedImageMeetsANewSchedule(t *testing.T) {
	inTownship(t, func(w *township) {
		half, err := store.ParseSchedule("30-59 * * * * x0.5", "UTC")
		w.must(err)
		change := time.Now().Truncate(time.Hour).Add(90 * time.Minute)
		time.Sleep(time.Until(change.Add(-100 * time.Millisecond)))
		varies, plain := limiter.PerHour("a", 10), limiter.PerHour("b", 10)
		varies.Varies = half
		fixture.SetLimits(w.T, w.Store, theEntity, []limiter.Limit{varies, plain})
		lease, err := w.client(w.api.Table).Acquire(w.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"a": 1}})
		w.must(err)
		w.must(lease.Commit(w.Context()))
		seen, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
		w.must(err)
		time.Sleep(200 * time.Millisecond)
		plain.Varies = half
		fixture.SetLimits(w.T, w.Store, theEntity, []limiter.Limit{varies, plain})
		take := (&plan.Debit{Bucket: seen[0].Bucket, Amounts: []store.Amount{{Limit: "b", Milli: 2000}}}).Take(seen[0], time.Now().UnixMilli())
		if out, err := w.Take(w.Context(), take); err != nil || out.Applied {
			t.Errorf("%v, %v: the item is %+v", out.Applied, err, out.Image)
		}
	})
}
