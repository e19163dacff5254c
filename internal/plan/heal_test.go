package plan_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A balance that lies above its ceiling, because a reset and a late return came together, stays as
// it is when the stamp is moved back within the period. Only a change of a schedule cuts it.
func TestHealingWithinAPeriodLeavesTheBalance(t *testing.T) {
	t.Parallel()
	day, err := store.ParseRenewal("day", "")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2040, 3, 2, 10, 0, 0, 0, time.UTC).UnixMilli()
	limit := store.Limit{Name: "rpd", Capacity: 1, Renews: day}
	img := &store.Image{ShardCount: 1, RefilledAt: now + 60_000_000, Limits: []store.LimitState{{Name: "rpd", Tokens: 1001, Params: new(limit.Params())}}}
	img.ValidUntil, img.HasValidUntil = day.Next(now), true
	img.RefilledAt = min(img.RefilledAt, img.ValidUntil-1)
	if r := plan.Healed(img, now, 7); r.Changes[0].Earned != 0 {
		t.Errorf("it is given %d", r.Changes[0].Earned)
	}
}
