package dynamo_test

import (
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A credit of a rate does not reach the quota that an operator makes of it meanwhile, although
// capacity and ValidUntil stay the same, which is the end of an hour of another limit.
func TestACreditOfARateMeetsAQuota(t *testing.T) {
	for _, words := range []string{"session 5h", "day"} {
		t.Run(words, func(t *testing.T) {
			inTownship(t, func(w *township) {
				hourly := limiter.Quota("hourly", 100, session("0 * * * *"))
				rate, quota := limiter.PerHour("a", 10), limiter.Quota("a", 10, session(words))
				fixture.SetLimits(w.T, w.Store, theEntity, []limiter.Limit{rate, hourly})
				slow := faults.NewTap(w.api.Table)
				lease, err := w.client(slow).Acquire(w.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"a": 4}})
				w.must(err)
				slow.Set(once(is("UpdateItem"), func() { fixture.SetLimits(w.T, w.Store, theEntity, []limiter.Limit{quota, hourly}) }))
				w.must(lease.Rollback(w.Context()))
				images, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
				w.must(err)
				if s, _ := images[0].Limit("a"); s.Renewal != quota.Renews || s.Tokens != 6000 || s.Consumed != 0 {
					w.Errorf("the quota is %+v", s)
				}
			})
		})
	}
}
