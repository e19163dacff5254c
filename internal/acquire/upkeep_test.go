package acquire_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// tended returns a call's answer and the number of requests it sent.
func (w *world) tended(call func() (bool, error)) (done bool, requests int64) {
	w.Helper()
	before := w.Meter.Totals()
	done, err := call()
	w.Must(err)
	return done, w.Meter.Totals().Sub(before).Sum().Requests
}

// A doubling ahead waits for the effect of the last one. An image from before the last
// doubling starts no new one.
func TestDoubleOnceUntilItHasItsEffect(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 96_000))
		w.Take(w.Limiter, ask("user", "rph", 1))
		double := func(img *store.Image) (bool, int64) {
			w.Helper()
			return w.tended(func() (bool, error) {
				return driverOf(w.Limiter).Double(w.Context(), img, time.UnixMilli(img.RefilledAt))
			})
		}
		if done, n := double(w.Images("user")[0]); done || n != 0 {
			t.Errorf("doubled at leisure: %v, %d requests", done, n)
		}
		w.exhaust("user", 100_000)
		old := w.Images("user")[0]
		if done, _ := double(old); !done || w.count() != 2 {
			t.Fatalf("not doubled: %d shards", w.count())
		}
		w.exhaust("user", 100_000)
		for _, img := range []*store.Image{old, w.Images("user")[0], w.Images("user")[1]} {
			if done, n := double(img); done || n != 0 {
				t.Errorf("doubled again at once, by shard %d of %d: %v, %d requests", img.Shard, img.ShardCount, done, n)
			}
		}
		time.Sleep(2 * time.Second)
		if done, n := double(old); done || n != 0 {
			t.Errorf("doubled by an image from before: %v, %d requests", done, n)
		}
		if done, _ := double(w.Images("user")[1]); !done || w.count() != 4 {
			t.Errorf("not doubled once more: %d shards", w.count())
		}
	})
}

// A peer gives shard 0 a larger shard count and leaves the birth of its sibling to
// others. The sibling is born before the bucket is doubled again. Otherwise the
// sibling's tokens that shard 0 still holds would be trimmed.
func TestADoublingLosesNothingOfAPeers(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 4, 2_000_000, 1_000_000, missing, 1_000_000)
		w.exhaust("user", 100_000)
		double := func() (done bool) {
			img := w.Images("user")[1]
			done, _ = w.tended(func() (bool, error) {
				return driverOf(w.Limiter).Double(w.Context(), img, time.UnixMilli(img.RefilledAt))
			})
			return done
		}
		double()
		if got, n := w.total(), len(w.Images("user")); got != 4_000_000 || n != 4 {
			t.Errorf("%d shards hold %d, want 4 that hold 4000000", n, got)
		}
		time.Sleep(2 * time.Second)
		w.exhaust("user", 100_000)
		if !double() || w.count() != 8 {
			t.Errorf("not doubled once more: %d shards", w.count())
		}
	})
}

// A refill ahead is one conditional write, so of two refills from one image only the
// first is applied.
func TestReplenishUnderTheLockOfTheStamp(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerSecond("rps", 100), limiter.PerHour("rph", 3_600))
		w.Take(w.Limiter, askAll("user", tokens{"rps": 90, "rph": 100}))
		img := w.Images("user")[0]
		next := []store.Amount{{Limit: "rps", Milli: 50_000}, {Limit: "gone", Milli: 1}}
		replenish := func() (bool, int64) {
			w.Helper()
			return w.tended(func() (bool, error) { return driverOf(w.Limiter).Replenish(w.Context(), img, next, 1) })
		}
		time.Sleep(10 * time.Millisecond)
		if done, n := replenish(); done || n != 0 {
			t.Errorf("a millitoken was worth a write: %v, %d requests", done, n)
		}
		time.Sleep(490 * time.Millisecond)
		if done, n := replenish(); !done || n != 1 {
			t.Errorf("not refilled: %v, %d requests", done, n)
		}
		if done, n := replenish(); done || n != 1 {
			t.Errorf("refilled twice: %v, %d requests", done, n)
		}
		img = w.Images("user")[0]
		rps, _ := img.Limit("rps")
		rph, _ := img.Limit("rph")
		if rps.Tokens != 60_000 || rph.Tokens != 3_500_500 || rps.Consumed != 90_000 {
			t.Errorf("rps %+v, rph %+v", rps, rph)
		}
	})
}
