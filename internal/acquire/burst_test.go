package acquire_test

import (
	"fmt"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A bucket that was idle grants at most its capacity, for any idle time and any number
// of clients. Tokens that overflowed before a take do not refill the bucket after it.
func TestIdleTimeIsNotSpentTwice(t *testing.T) {
	for _, idle := range []time.Duration{500 * time.Millisecond, 990 * time.Millisecond, 3 * time.Second, time.Hour} {
		for clients := 1; clients <= 3; clients++ {
			t.Run(fmt.Sprintf("%v, %d clients", idle, clients), func(t *testing.T) {
				inWorld(t, limiter.Options{}, func(w *world) {
					w.System(limiter.PerSecond("rps", 10), limiter.PerDay("rpd", 1_000_000))
					var ls []*limiter.Limiter
					for range clients {
						ls = append(ls, w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{}))
					}
					for round := range 5 {
						for _, l := range ls {
							w.Take(l, ask("user", "rps", 1))
						}
						time.Sleep(idle)
						before := min(10, w.Balance("user", "rps"))
						got := int64(0)
						for i := range 40 {
							if w.Take(ls[i%clients], ask("user", "rps", 1)) == nil {
								got++
							}
						}
						if got != before {
							w.Errorf("round %d: %d at once, of %d held", round, got, before)
						}
						time.Sleep(time.Duration(round) * 700 * time.Millisecond)
					}
				})
			})
		}
	}
}

// An adjustment is debited from the balance that the bucket held when the adjustment
// was made.
func TestAnAdjustmentIsNotForgivenByIdleTime(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("tpm", 600), limiter.PerMinute("rpm", 60))
		lease := w.Lease(w.Limiter, askAll("user", tokens{"tpm": 0, "rpm": 1}))
		time.Sleep(20 * time.Second)
		w.Must(lease.Adjust("tpm", 500))
		w.Must(lease.Commit(w.Context()))
		w.holds("user", "tpm", 100, "user", "rpm", 60)
		time.Sleep(time.Second)
		w.holds("user", "tpm", 110)
	})
}

// Clients that share a bucket and use it less than allowed do not make each other's
// images useless.
func TestClientsSharingAFullBucketDoNotCollide(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 100_000))
		var ls []*limiter.Limiter
		for range 4 {
			l := w.NewLimiter(w.Store, limiter.Options{})
			w.Take(l, askAll("user", tokens{"rpm": 1, "tpm": 500}))
			ls = append(ls, l)
		}
		before := w.Meter.Totals()
		const n = 200
		for i := range n {
			time.Sleep(3 * time.Second)
			w.Take(ls[i%len(ls)], askAll("user", tokens{"rpm": 1, "tpm": int64(400 + i)}))
		}
		for _, l := range ls {
			driverOf(l).Settle()
		}
		if got := w.Meter.Totals().Sub(before)["UpdateItem"].Requests; got > n*11/10 {
			w.Errorf("%d writes for %d requests", got, n)
		}
	})
}
