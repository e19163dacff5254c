package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A shard that a peer gave the share of fewer shards gets as much more of a top-up.
func TestATopUpIsDividedByShares(t *testing.T) {
	t.Parallel()
	month, err := store.ParseRenewal("month", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	const now = 1_700_000_000_000
	images := make([]*store.Image, 2)
	for i := range images {
		images[i] = &store.Image{
			Bucket: store.Bucket{Entity: "user", Resource: "gpt-4", Shard: i}, ShardCount: 2, RefilledAt: now, Writes: store.LimitState{Params: new(plan.WriteParams)},
			Limits: []store.LimitState{{Name: "rpm", Params: &store.Params{Capacity: 100 * store.Milli, Period: 1000, Renewal: month}}},
		}
	}
	images[0].Limits[0].SetExtra(store.Extra{Granted: store.Granted{Shards: 1}})
	g := plan.Amendment{Amounts: []store.Amount{{Limit: "rpm", Milli: 301 * store.Milli}}}
	refills, given, err := g.Over(images, nil, now+1, 7)
	if err != nil {
		t.Fatal(err)
	}
	got := []int64{refills[0].Changes[0].TopUp / store.Milli, refills[1].Changes[0].TopUp / store.Milli, given[0]}
	if diff := cmp.Diff([]int64{201, 100, 301}, got); diff != "" {
		t.Errorf("shard 0, shard 1, together (-want +got):\n%s", diff)
	}
}
