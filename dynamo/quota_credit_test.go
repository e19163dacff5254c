package dynamo_test

import (
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A credit does not reach the limit of another kind that an operator makes of its own meanwhile,
// although capacity and ValidUntil stay the same, which is the end of an hour of another limit.
func TestACreditMeetsAnotherKindOfLimit(t *testing.T) {
	for _, c := range []struct{ was, is string }{{"", "session 5h"}, {"", "day"}, {"day", "session 5h"}} {
		t.Run(c.was+" to "+c.is, func(t *testing.T) {
			inTownship(t, func(w *township) {
				hourly := limiter.Quota("hourly", 100, session("0 * * * *"))
				limit, quota := limiter.PerHour("a", 10), limiter.Quota("a", 10, session(c.is))
				if c.was != "" {
					limit = limiter.Quota("a", 10, session(c.was))
				}
				fixture.SetLimits(w.T, w.Store, theEntity, []limiter.Limit{limit, hourly})
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
