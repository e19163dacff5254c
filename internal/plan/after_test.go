package plan_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// The item that a refill leaves has no validity that has lapsed, and keeps another one.
func TestAfterARefillNoLapsedValidityIsLeft(t *testing.T) {
	t.Parallel()
	for _, lapse := range []bool{true, false} {
		seen := item(10_000, now, func(img *store.Image) { img.HasValidUntil, img.ValidUntil = true, now })

		after := plan.AfterRefill(&store.Refill{Seen: seen, RefilledAt: now + 1, Validity: store.Validity{Change: lapse}})

		if after.HasValidUntil == lapse || (after.ValidUntil == 0) != lapse {
			t.Errorf("lapse %t: valid until %d, %t", lapse, after.ValidUntil, after.HasValidUntil)
		}
		if !seen.HasValidUntil || seen.ValidUntil != now {
			t.Error("the image that was seen has changed")
		}
	}
}
