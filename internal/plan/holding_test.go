package plan_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/plan"
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
