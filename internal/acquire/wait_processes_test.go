package acquire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A process whose caller has a deadline tries before it, however far processes spread their
// tries.
func TestSharingProcessesTryBeforeTheDeadline(t *testing.T) {
	inEachWorld(t, limiter.Options{Rand: func(n int64) int64 { return n - 1 }}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 60))
		other := w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{})
		for range 3 { // each process learns that the other one writes, too
			w.Take(w.Limiter, ask("user", "rpm", 10))
			w.Take(other, ask("user", "rpm", 10))
		}
		for _, left := range []time.Duration{11 * time.Second, 12 * time.Second, 40 * time.Second} {
			w.Take(w.Limiter, ask("user", "rpm", w.Balance("user", "rpm")))
			ctx, cancel := context.WithTimeout(w.Context(), left)
			begun := time.Now()
			_, err := w.Wait(ctx, ask("user", "rpm", 10))
			if cancel(); errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("a wait of 10 s with a deadline in %v: %v after %v", left, err, time.Since(begun))
			}
		}
	})
}

// Processes that wait for the same instant look at different times after it. A caller that has
// less time than that gets its answer within its deadline.
func TestALookEndsBeforeTheDeadline(t *testing.T) {
	inEachWorld(t, limiter.Options{Rand: func(n int64) int64 { return n - 1 }}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 60))
		other := w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{})
		for range 3 { // each process learns that the other one writes, too
			w.Take(w.Limiter, ask("user", "rpm", 10))
			w.Take(other, ask("user", "rpm", 10))
		}
		for _, left := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second} {
			w.Take(w.Limiter, ask("user", "rpm", w.Balance("user", "rpm")))
			time.Sleep(10 * time.Second) // now both may take what the bucket has earned
			ctx, cancel := context.WithTimeout(w.Context(), left)
			_, err := w.Acquire(ctx, ask("user", "rpm", 10))
			if cancel(); err != nil {
				w.Errorf("an acquire with a deadline in %v: %v", left, err)
			}
		}
	})
}
