package limiter_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/limitertest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A waiter for ten hours notices within two minutes what happens to its limit: it looks
// after one minute, and again when it may read the configuration anew. It makes no
// difference whether other processes write to the bucket.
func TestAWaiterLooksWithinTwoMinutes(t *testing.T) {
	daily := limiter.PerDay("rpd", 24, limiter.Burst(10))
	for name, change := range map[string]struct {
		make func(w *world, taken *limiter.Lease)
		want error
	}{
		"lowered": {func(w *world, _ *limiter.Lease) { w.System(limiter.PerDay("rpd", 24, limiter.Burst(4))) }, limiter.ErrExceeded},
		"raised":  {func(w *world, _ *limiter.Lease) { w.System(limiter.PerSecond("rpd", 100)) }, nil},
		"deleted": {func(w *world, _ *limiter.Lease) { w.Must(w.Store.DeleteLimits(w.Context(), store.ConfigKey{})) }, limiter.ErrNotConfigured},
		"tokens returned elsewhere": {func(w *world, taken *limiter.Lease) {
			w.Must(taken.Rollback(w.Context()))
		}, nil},
		"closed": {func(w *world, _ *limiter.Lease) { w.Must(w.Close()) }, limiter.ErrClosed},
	} {
		for _, othersWrite := range []bool{false, true} {
			who := "nobody writes"
			if othersWrite {
				who = "others write"
			}
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel()
				inBubble(t, limitertest.Options{Remote: true}, func(w *world) {
					w.System(daily)
					w.Take(w.Limiter, ask("user", "rpd", 0))
					other := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
					taken, err := other.Acquire(w.Context(), ask("user", "rpd", 9))
					w.Must(err)
					if othersWrite {
						w.Take(w.Limiter, ask("user", "rpd", 0))
						w.Take(other, ask("user", "rpd", 1))
					}
					result := make(chan error, 1)
					go func() {
						_, err := w.Wait(w.Context(), ask("user", "rpd", 5))
						result <- err
					}()
					time.Sleep(10 * time.Second)
					begun := time.Now()
					change.make(w, taken)
					if err := <-result; !errors.Is(err, change.want) {
						w.Errorf("the waiter got %v", err)
					}
					if took := time.Since(begun); took > 125*time.Second {
						w.Errorf("the waiter noticed after %v", took)
					}
				})
			})
		}
	}
}

// Other processes that write to a bucket do not make a waiter wait for longer than its exact
// wait, by more than a tenth of it and by more than a second, if they take nothing meanwhile.
// Beyond that there is only the pause between two writes to a shared item.
func TestAnExactWaitIsNotSpreadForLong(t *testing.T) {
	for _, limit := range []limiter.Limit{
		limiter.PerDay("r", 24, limiter.Burst(10)), limiter.PerHour("r", 60, limiter.Burst(1)), limiter.PerMinute("r", 10, limiter.Burst(1)), limiter.PerSecond("r", 1),
	} {
		t.Run(fmt.Sprint(limit.Amount, " in ", limit.Period), func(t *testing.T) {
			t.Parallel()
			inBubble(t, limitertest.Options{Remote: true}, func(w *world) {
				w.System(limit)
				other := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
				for range 20 {
					w.Take(w.Limiter, ask("user", "r", 0))
					w.Take(other, ask("user", "r", 1))
					wait, err := w.TimeUntilAvailable(w.Context(), ask("user", "r", limit.Capacity))
					w.Must(err)
					begun := time.Now()
					_, err = w.Wait(w.Context(), ask("user", "r", limit.Capacity))
					w.Must(err)
					if took, most := time.Since(begun), wait+min(time.Second, wait/10)+360*time.Millisecond; took > most {
						w.Errorf("waited for %v, and the exact wait was %v", took, wait)
					}
					time.Sleep(time.Duration(float64(limit.Period) / float64(limit.Amount) * 3))
				}
			})
		})
	}
}
