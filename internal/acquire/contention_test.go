package acquire_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A tug is two processes that write to one bucket.
type tug struct {
	*world
	one, other *limiter.Limiter
	meter      *dynamo.Meter // of the first process
}

// inTug lets the first process find out that the other one moves the stamp. The bucket
// has the given limit, rps, and taken tokens are debited from it first.
func inTug(t *testing.T, limit limiter.Limit, taken int64, f func(*tug)) {
	t.Helper()
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limit)
		g := &tug{world: w, meter: dynamo.NewMeter(w.Engine)}
		g.one, g.other = w.NewLimiter(w.OpenOn(faults.Wrap(g.meter)), limiter.Options{InFlight: -1}), // never pauses
			w.NewLimiter(w.Store, limiter.Options{})
		w.Take(g.other, ask("user", "rps", taken))
		w.Take(g.one, ask("user", "rps", 0))
		time.Sleep(10 * time.Millisecond)
		w.Take(g.other, ask("user", "rps", 1))
		if got := g.writes(func() { w.Take(g.one, ask("user", "rps", 1)) }); got != 2 {
			w.Fatalf("%d writes: the stamp did not move under the first", got)
		}
		f(g)
	})
}

// writes returns the number of writes that the first process sends.
func (g *tug) writes(f func()) int64 {
	before := g.meter.Totals()
	f()
	return g.meter.Totals().Sub(before)["UpdateItem"].Requests
}

// image returns the bucket's image and its limit.
func (g *tug) image() (*store.Image, store.LimitState) {
	g.Helper()
	img := g.Images("user")[0]
	s, _ := img.Limit("rps")
	return img, s
}

// isStamped checks that the bucket was refilled just now, and that it holds the given
// tokens.
func (g *tug) isStamped(tokens int64) {
	g.Helper()
	img, s := g.image()
	if img.RefilledAt != time.Now().UnixMilli() || s.Tokens != tokens {
		g.Errorf("%d tokens, stamped %d ms ago", s.Tokens, time.Now().UnixMilli()-img.RefilledAt)
	}
}

// On a shared bucket, tokens earned since the stamp can be debited without moving the
// stamp. The stored balance may go below zero, and the count is exact to the token.
func TestAContendedStampIsLeftAlone(t *testing.T) {
	inTug(t, limiter.PerSecond("rps", 1_000), 1_000, func(g *tug) {
		before, held := g.image()
		for range 5 {
			time.Sleep(20 * time.Millisecond) // earns 20
			if got := g.writes(func() { g.Take(g.one, ask("user", "rps", 19)) }); got != 1 {
				g.Errorf("%v writes", got)
			}
		}
		img, s := g.image()
		if img.RefilledAt != before.RefilledAt || s.Tokens != held.Tokens-5*19_000 {
			g.Errorf("%d tokens at %d, were %d at %d", s.Tokens, img.RefilledAt, held.Tokens, before.RefilledAt)
		}
		left := held.Tokens + 100_000 - 5*19_000
		if got := g.Balance("user", "rps"); got != left/1000 {
			g.Errorf("%d are available of %d millitokens", got, left)
		}
		refused := g.Take(g.one, ask("user", "rps", left/1000+3))
		if refused == nil || refused.RetryAfter() != 3*time.Millisecond {
			g.Errorf("3 tokens too many: %v", refused)
		}
		g.Take(g.other, ask("user", "rps", left/1000)) // the other process knows nothing of the debits
		if _, s := g.image(); s.Tokens < 0 || s.Tokens >= 1000 {
			g.Errorf("%d are left of all", s.Tokens)
		}
	})
}

// A shared bucket that overflows is debited as it was up to 50 ms ago, and no earlier.
func TestAContendedFullBucketIsDebitedLate(t *testing.T) {
	inTug(t, limiter.PerSecond("rps", 1_000_000), 1, func(g *tug) {
		const takes = 20
		var writes int64
		for range takes {
			time.Sleep(10 * time.Millisecond)
			writes += g.writes(func() { g.Take(g.one, ask("user", "rps", 1)) })
			img, s := g.image()
			if age := time.Now().UnixMilli() - img.RefilledAt; age > 50 || s.Tokens > 999_999_000 {
				g.Errorf("%d tokens, stamped %d ms ago", s.Tokens, age)
			}
		}
		if writes > takes+1 { // one write finds that the other process no longer moves the stamp
			g.Errorf("%d writes", writes)
		}
		time.Sleep(60 * time.Millisecond)
		g.Take(g.one, ask("user", "rps", 1))
		g.isStamped(999_999_000)
	})
}

// A process forgets contention that is over, and its decisions are exact again.
func TestContentionIsForgotten(t *testing.T) {
	inTug(t, limiter.PerSecond("rps", 1_000), 1_000, func(g *tug) {
		time.Sleep(4100 * time.Millisecond)
		g.Take(g.one, ask("user", "rps", 1_000))
		time.Sleep(20 * time.Millisecond)
		g.Take(g.one, ask("user", "rps", 20))
		g.isStamped(0)
	})
}

// A split of a bucket whose balances are negative at their stamps loses no tokens.
func TestASplitOfNegativeBalancesLosesNothing(t *testing.T) {
	inTug(t, limiter.PerSecond("rps", 1_000), 1_000, func(g *tug) {
		time.Sleep(100 * time.Millisecond)
		g.Take(g.one, ask("user", "rps", 80))
		if _, s := g.image(); s.Tokens >= 0 {
			g.Fatalf("%d are stored", s.Tokens)
		}
		before := g.Balance("user", "rps")
		driverOf(g.one).DoubleNow(g.Context(), "user", "gpt-4")
		if got := g.Balance("user", "rps"); got != before || g.count() != 2 {
			g.Errorf("%d on %d shards, were %d", got, g.count(), before)
		}
		for _, img := range g.Images("user") {
			s, _ := img.Limit("rps")
			if b := s.Tokens + (time.Now().UnixMilli()-img.RefilledAt)*500; b < 0 {
				g.Errorf("shard %d owes %d", img.Shard, -b)
			}
		}
	})
}

// A gather for a request above any shard's balance also leaves the stamps of shared
// shards alone.
func TestAGatherLeavesContendedStampsAlone(t *testing.T) {
	inTug(t, limiter.PerSecond("rps", 1_000), 1_000, func(g *tug) {
		driverOf(g.one).DoubleNow(g.Context(), "user", "gpt-4")
		before := g.Images("user")
		time.Sleep(100 * time.Millisecond)
		g.Take(g.one, ask("user", "rps", 80))
		for i, img := range g.Images("user") {
			was, _ := before[i].Limit("rps")
			if s, _ := img.Limit("rps"); img.RefilledAt != before[i].RefilledAt || s.Tokens >= was.Tokens {
				g.Errorf("shard %d holds %d at %d, held %d at %d", i, s.Tokens, img.RefilledAt, was.Tokens, before[i].RefilledAt)
			}
		}
	})
}

// The client sends no requests to a shard that its sibling cannot create yet.
func TestShardsThatAreNotBornYetAreLeftAlone(t *testing.T) {
	tapped(t, limiter.Options{}, func(w *world, api *faults.Tap) {
		for _, i := range [...]struct{ shard, count int }{{0, 2}, {1, 4}, {3, 4}} {
			w.plantShard("user", hourly, i.shard, i.count, 500_000)
		}
		api.Set(fullShards(func(shard int) error {
			if shard == 2 {
				return faults.HotPartition()
			}
			return nil
		}))
		w.Take(w.Limiter, ask("user", "rph", 1)) // finds out
		driverOf(w.Limiter).Settle()
		bucketRequests(api)
		const n = 100
		for range n {
			w.Take(w.Limiter, ask("user", "rph", 1))
			time.Sleep(5 * time.Millisecond)
		}
		driverOf(w.Limiter).Settle()
		asked := slices.DeleteFunc(bucketRequests(api), func(s faults.Request) bool { return s.Op == "UpdateItem" })
		if len(asked) > n/10 { // a repair in the background is one of them
			w.Errorf("%d requests that are no debits, for %d requests: %v", len(asked), n, asked[0])
		}
	})
}

// Others that write to one of several shards are forgotten after a second. The only item of a
// bucket has no other shard to go to, and others are remembered there for longer.
func TestOthersAreRememberedForLongerOnTheOnlyItem(t *testing.T) {
	for shards, remembered := range map[int]time.Duration{1: 2 * memory.LongestAhead, 2: time.Second, 4: time.Second} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.plant("user", hourly, shards, each(shards, 10_000)...)
				w.System(hourly)
				w.survey(w.Limiter, "user", hourly)
				driverOf(w.Limiter).Share(theBucket, 1)

				time.Sleep(remembered)
				if !driverOf(w.Limiter).IsShared(theBucket) {
					w.Errorf("others are forgotten within %v", remembered)
				}
				time.Sleep(time.Nanosecond)
				if driverOf(w.Limiter).IsShared(theBucket) {
					w.Errorf("others are remembered after %v", remembered)
				}
			})
		})
	}
}
