package aggregator_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// Usage is exact even if the item's own count does not fit 64 bits. That of an hour must.
func TestUsageBeyond64Bits(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 1000} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.System(limiter.PerHour("bytes", limiter.MaxTokens))
			for range 25 {
				w.Take(w.Limiter, ask("user", "bytes", limiter.MaxTokens))
				time.Sleep(time.Hour)
			}
			w.drop("user")
			records := w.drain()
			for range 2 {
				for i := 0; i < len(records); i += size {
					w.process(records[i:min(len(records), i+size)])
				}
			}
			for _, window := range []usage.Window{usage.Hourly, usage.Daily, usage.Monthly} {
				if got := w.total(w.Store, usage.Query{Entity: "user", Window: window}); got != "25 map[bytes:25000000000000000000]" {
					w.Errorf("in batches of %d records, window %d: %s", size, window, got)
				}
			}
		})
	}
}

// Counts pass the largest numbers of 64 bits in the middle of an hour, or are far beyond.
var largeCounts = []string{
	"9223372036854774807", "-3000", "18446744073709550615", "-9223372036854777808", "-18446744073709553616",
	"10000000000000000000000000000000000000", "-10000000000000000000000000000000000000",
}

// startAt sets the count of a limit of user's bucket, as if it had counted so much before the open hour.
func (w *world) startAt(limit, count string) {
	w.Helper()
	w.peerWrites(w.peerKey(0), "SET b_"+limit+"_tc = :n, do_"+limit+" = :n", schema.Item{":n": &types.AttributeValueMemberN{Value: count}})
	w.drain()
}

func TestUsageOfLargeCounts(t *testing.T) {
	t.Parallel()
	for _, count := range largeCounts {
		t.Run(count, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.System(limiter.PerHour("rpd", 1000))
				w.Serve(w.Limiter, ask("user", "rpd", 1))
				w.startAt("rpd", count) // and what was taken is not counted
				for range 40 {
					w.Serve(w.Limiter, ask("user", "rpd", 2))
					w.Serve(w.Limiter, ask("user", "rpd", 2))
					time.Sleep(time.Hour)
				}
				want := "81 map[rpd:160000]"
				if got := w.total(w.Store, usage.Query{Entity: "user", Now: true}); got != want {
					w.Errorf("in use: %s, want %s", got, want)
				}
				w.drop("user")
				w.process(w.drain())
				if got := w.total(w.Store, usage.Query{Entity: "user", Now: true}); got != want {
					w.Errorf("gone: %s, want %s", got, want)
				}
			})
		})
	}
}

// A peer writes no diary: the aggregator turns, with the counts before the first write of an hour.
// The store refuses them for a count below the range of 64 bits. Then that write belongs to
// the hour before.
func TestHoursOfAPeerOfLargeCounts(t *testing.T) {
	for _, count := range largeCounts {
		isFarBelow := strings.HasPrefix(count, "-") && count != "-3000"
		t.Run(count, func(t *testing.T) {
			inPeersWorld(t, func(w *world) {
				w.peerMakes(0, 0)
				w.peerTakes(0, 1)
				w.process(w.drain())
				w.startAt("rpd", count)
				for range 2 {
					time.Sleep(time.Hour)
					w.peerTakes(0, 2)
					w.peerTakes(0, 2)
					w.process(w.drain())
				}
				if got, want := w.hours(), "1 11h rpd:4000, 1 12h rpd:4000"; got != want && !isFarBelow {
					w.Errorf("%s, want %s", got, want)
				}
				if got, want := w.total(w.Store, usage.Query{Entity: "user", Now: true}), "0 map[rpd:8000]"; got != want {
					w.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
}
