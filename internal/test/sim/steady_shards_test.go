package sim_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

var shardedDemands = []demand{
	{
		"on four shards", []limiter.Limit{
			limiter.PerSecond("rps", 1, limiter.Burst(10)), limiter.PerDay("daily", 10), limiter.Custom("odd", 7, 13*time.Second, limiter.Burst(20)),
		}, 45 * time.Minute, 4, false, 0,
	},
	{
		"on sixteen shards, a minute's limit", []limiter.Limit{limiter.PerMinute("rpm", 20, limiter.Burst(30))}, 90 * time.Minute, 16, false, 0,
	},
	{
		"on thirty-two shards, a capacity of one", []limiter.Limit{limiter.Custom("one", 1, 10*time.Second)}, 30 * time.Minute, 32, true, 0,
	},
}

// TestLongNeverStarvedOnShards is promise P2 for a bucket with shards: together they admit what
// the whole limit earns.
func TestLongNeverStarvedOnShards(t *testing.T) {
	t.Parallel()
	for i, d := range shardedDemands {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for _, off := range d.starved(d.admit(t, uint64(i+1), breakage{})) {
				t.Error("P2:", off)
			}
		})
	}
}
