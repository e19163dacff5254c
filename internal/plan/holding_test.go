package plan_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Shards together are waited for as long as a duration can say, or never.
func TestAWaitForSeveralShardsHasAnEnd(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for years, want := range map[int64]time.Duration{1: year, 100: 100 * year, 200: 200 * year, 300: plan.Never, 1_000_000: plan.Never} {
		start := 50 * year.Milliseconds() // where the grid of such a limit begins a period
		part := plan.Holding{Limit: bucket.Limit{Capacity: 1 << 40, Amount: 1, Period: year.Milliseconds()}, At: start}
		if got := plan.WaitFor([]plan.Holding{part, part}, start, 2*years); got != want {
			t.Errorf("%d years: the wait is %v, want %v", years, got, want)
		}
	}
}

// A grant ends when the quota renews. From then on, a request for more than the shards hold without it is never
// admitted, however long a schedule takes turns.
func TestAWaitDoesNotCountAGrantThatEnds(t *testing.T) {
	t.Parallel()
	half, err := store.ParseSchedule("* 0-12 * * * x0.5", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	p := store.Limit{Name: "day", Capacity: 100, Renews: renewingBy(t, "day"), Varies: half}.Params()
	shard := func(i, granted int) *store.Image {
		s := store.LimitState{Name: "day", Tokens: 20_000, Params: &p}
		s.SetExtra(store.Extra{Granted: store.Granted{Shards: granted}})
		img, _ := noonImage(i, 2, s)
		return img
	}
	_, noon := noonImage(0, 2)
	var terms plan.Terms
	_, parts := terms.Holdings(nil, "day", []*store.Image{shard(0, 1), shard(1, 0)}, noon)
	const halfADay = 12 * time.Hour
	for need, want := range map[int64]time.Duration{30_000: 0, 45_000: halfADay, 55_000: halfADay + 13*time.Hour, 130_000: plan.Never} {
		if got := plan.WaitFor(parts, noon, need); got != want {
			t.Errorf("%d: wait %v, want %v", need, got, want)
		}
	}
}

// Shards that are out of step hold their balances again once lower amounts have ended.
func TestAWaitOfShardsThatAreOutOfStep(t *testing.T) {
	t.Parallel()
	less, err := store.ParseSchedule("* 12 * * * x0.5; * 13 * * * x0.25", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	p := store.Limit{Name: "day", Capacity: 100, Renews: renewingBy(t, "day"), Varies: less}.Params()
	var shards []*store.Image
	_, noon := noonImage(0, 2)
	for i := range 2 {
		img, _ := noonImage(i, 2, store.LimitState{Name: "day", Tokens: 40_000, Params: &p})
		img.RefilledAt = noon - 1
		shards = append(shards, img)
	}
	var terms plan.Terms
	_, parts := terms.Holdings(nil, "day", shards, noon)
	for need, want := range map[int64]time.Duration{50_000: 0, 70_000: 2 * time.Hour, 90_000: 12 * time.Hour} {
		if got := plan.WaitFor(parts, noon, need); got != want {
			t.Errorf("%d: wait %v, want %v", need, got, want)
		}
	}
}
