package plan_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A credit finds room in the share of a quota, whatever others write meanwhile. Room that a top-up made, or a
// division among fewer shards, ends with a reset: a credit that needs it requires the balance seen.
func TestACreditNeedsRoomThatAResetLeaves(t *testing.T) {
	t.Parallel()
	quota := store.Limit{Name: "day", Capacity: 100, Renews: renewingBy(t, "day")}.Params()
	for name, c := range map[string]struct {
		granted store.Granted
		holds   int64
		most    int64 // of the balance before
		pinned  bool
	}{
		"a share":                        {store.Granted{}, 30_000, 40_000, false},
		"a top-up that is not needed":    {store.Granted{TopUp: 20_000}, 30_000, 40_000, false},
		"a top-up that is needed":        {store.Granted{TopUp: 20_000}, 45_000, 45_000, true},
		"fewer shards that do not help":  {store.Granted{Shards: 1}, 30_000, 40_000, false},
		"fewer shards that are needed":   {store.Granted{Shards: 1}, 60_000, 60_000, true},
		"more shards, and what is seen":  {store.Granted{Shards: 4}, 10_000, 15_000, false},
		"a share that the credit fills":  {store.Granted{}, 40_000, 40_000, false},
		"a share that it would overflow": {store.Granted{}, 45_000, 45_000, true},
	} {
		s := store.LimitState{Name: "day", Tokens: c.holds, Params: &quota}
		s.SetExtra(store.Extra{Granted: c.granted})
		img, noon := noonImage(0, 2, s)
		img.RefilledAt = noon + 1
		d := &plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: []store.Amount{{Limit: "day", Milli: -10_000, Until: plan.PeriodEnd(img, "day")}}}
		delta := d.Adjustment(img, img.RefilledAt).Deltas[0]
		if delta.Pinned != c.pinned || delta.AtMost != c.most {
			t.Errorf("%s: %+v, want at most %d, as seen %t", name, delta, c.most, c.pinned)
		}
	}
}
