package acquire_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
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
				inBubble(t, testbed.Options{Remote: true}, func(w *world) {
					w.System(daily)
					other := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
					w.takesOne(w.Limiter, "rpd")
					taken := w.Lease(other, ask("user", "rpd", 4))
					for range 2 { // each process learns that the other one writes, too
						w.takesOne(w.Limiter, "rpd")
						w.takesOne(other, "rpd")
					}
					w.Take(w.Limiter, ask("user", "rpd", 5)) // refused
					if othersWrite = othersWrite && driverOf(w.Limiter).IsShared(theBucket); !othersWrite {
						time.Sleep(10 * time.Second) // until the process presumes that it is alone
					}
					if driverOf(w.Limiter).IsShared(theBucket) != (who == "others write") {
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

// A waiter whose parent lacks tokens notices within two minutes that it has another one.
func TestAWaiterNoticesAnotherParent(t *testing.T) {
	for name, othersWrite := range map[string]bool{"nobody writes": false, "others write": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, testbed.Options{Remote: true}, func(w *world) {
				w.System(limiter.PerDay("rpd", 24, limiter.Burst(10)))
				belongsTo := func(parent string) {
					w.Entities(child("user", parent))
				}
				w.Entities(limiter.Entity{ID: "project"}, limiter.Entity{ID: "other"})
				belongsTo("project")
				other := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
				for range 2 { // each process learns that the other one writes, too
					w.takesOne(w.Limiter, "rpd")
					w.takesOne(other, "rpd")
				}
				w.Take(other, ask("project", "rpd", 5))
				result := make(chan error, 1)
				go func() {
					_, err := w.Wait(w.Context(), ask("user", "rpd", 5))
					result <- err
				}()
				time.Sleep(10 * time.Second)
				begun := time.Now()
				w.Must(errOf(w.Store.DeleteEntity(w.Context(), "user")))
				belongsTo("other")
				if othersWrite {
					w.takesOne(other, "rpd")
				}
				w.Must(<-result)
				if took := time.Since(begun); took > 125*time.Second {
					w.Errorf("the waiter noticed after %v", took)
				}
			})
		})
	}
}

// Other processes that write to a bucket do not make a waiter wait for longer than its exact
// wait, by more than a tenth of it and by more than a second, if they take nothing meanwhile.
// Beyond that there is only the pause between two writes to a shared item.
func TestAnExactWaitIsNotSpreadForLong(t *testing.T) {
	const pause = 360 * time.Millisecond // the longest, with its jitter
	for _, tt := range []struct {
		limit  limiter.Limit
		amount int64
	}{
		{limiter.PerDay("r", 24, limiter.Burst(10)), 10},
		{limiter.PerMinute("r", 10), 10},
		{limiter.PerSecond("r", 1, limiter.Burst(10)), 4},
		{limiter.PerSecond("r", 1, limiter.Burst(10)), 2},
		{limiter.PerSecond("r", 5, limiter.Burst(10)), 10},
	} {
		limit := tt.limit
		t.Run(fmt.Sprint(tt.amount, " of ", limit.Amount, " in ", limit.Period), func(t *testing.T) {
			t.Parallel()
			inBubble(t, testbed.Options{Remote: true}, func(w *world) {
				w.System(limit)
				other := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
				req := ask("user", "r", tt.amount)
				fill := time.Duration(float64(limit.Period) / float64(limit.Amount) * float64(limit.Capacity))
				for range 20 {
					for range limit.Capacity / 2 { // each process learns that the other one writes, too
						w.takesOne(w.Limiter, "r")
						w.takesOne(other, "r")
					}
					exact, err := other.TimeUntilAvailable(w.Context(), req)
					w.Must(err)
					if !driverOf(w.Limiter).IsShared(theBucket) || exact == 0 {
						w.Fatalf("the bucket is shared: %v, and the wait is %v", driverOf(w.Limiter).IsShared(theBucket), exact)
					}
					begun := time.Now()
					lease, err := w.Wait(w.Context(), req)
					w.Must(err)
					if took := time.Since(begun); took > exact+min(time.Second, exact/10)+pause {
						w.Errorf("waited for %v, and the exact wait was %v", took, exact)
					}
					w.Must(lease.Rollback(w.Context()))
					time.Sleep(fill)
				}
			})
		})
	}
}

// takesOne takes a token that the bucket has.
func (w *world) takesOne(l *limiter.Limiter, limit string) {
	w.Helper()
	w.Serve(l, ask("user", limit, 1))
}
