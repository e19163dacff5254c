package limiter_test

import (
	"errors"
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
					other := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
					w.takesOne(w.Limiter)
					taken, err := other.Acquire(w.Context(), ask("user", "rpd", 4))
					w.Must(err)
					for range 2 { // each process learns that the other one writes, too
						w.takesOne(w.Limiter)
						w.takesOne(other)
					}
					w.Take(w.Limiter, ask("user", "rpd", 5)) // refused
					if othersWrite = othersWrite && w.IsShared(theBucket); !othersWrite {
						time.Sleep(10 * time.Second) // until the process presumes that it is alone
					}
					if w.IsShared(theBucket) != (who == "others write") {
						w.Fatal("the process does not know who writes")
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

// takesOne takes one of the day's tokens, which the bucket has.
func (w *world) takesOne(l *limiter.Limiter) {
	w.Helper()
	if refused := w.Take(l, ask("user", "rpd", 1)); refused != nil {
		w.Fatal(refused)
	}
}
