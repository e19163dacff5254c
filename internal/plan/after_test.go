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

// What is left of removed limits is not known after a write that adds or removes one: the next
// turn reads it. A diary that still had a limit as removed would take its count from it.
func TestTheDiaryIsUnreadAfterLimitsChange(t *testing.T) {
	t.Parallel()
	seen := item(10_000, now, func(img *store.Image) {
		img.Diary = &store.Diary{Removed: []store.RemovedLimit{{Name: "tpm", IsOpen: true}}}
	})
	for kind, unread := range map[store.ChangeKind]bool{store.KeepParams: false, store.SetParams: false, store.AddLimit: true, store.RemoveLimit: true} {
		changes := []store.Change{{Limit: "rpm", Kind: kind}}
		if kind == store.AddLimit {
			changes[0].Limit = "tpm"
		}
		if after := plan.AfterRefill(&store.Refill{Seen: seen, RefilledAt: now, Changes: changes}); after.Diary.Unread != unread {
			t.Errorf("after %v the diary is %+v", kind, after.Diary)
		}
	}
}
