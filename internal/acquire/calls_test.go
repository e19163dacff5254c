package acquire_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

type traceKey struct{}

// The limiter gives up a store that hangs in time, whether or not the caller has a
// deadline. The store can read from the context for which caller it was asked.
func TestAStoreThatHangsIsGivenUp(t *testing.T) {
	const timeout = 4 * time.Second
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		w.Take(w.Limiter, ask("user", "rph", 1))
		var mu sync.Mutex
		seen := make(map[any]bool) // the traces of the callers
		api := faults.Wrap(w.Engine, faults.On(func(ctx context.Context, c *faults.Call, next faults.Next) error {
			mu.Lock()
			seen[ctx.Value(traceKey{})] = true
			mu.Unlock()
			return faults.Hang(ctx, c, next)
		}, faults.UpdateItem))
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{Timeout: timeout, InFlight: -1})
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				ctx := context.WithValue(w.Context(), traceKey{}, i)
				limit := timeout
				if i%2 == 0 {
					limit = time.Duration(i) * 100 * time.Millisecond
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
				}
				start := time.Now()
				_, err := l.Acquire(ctx, ask("user", "rph", 1))
				if took := time.Since(start); !errors.Is(err, limiter.ErrUnavailable) && i > 0 || took > limit || i%2 == 1 && took < timeout*7/8 {
					w.Errorf("call %d: %v after %v", i, err, took)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		calls.Wait()
		driverOf(l).Settle()
		if len(seen) != 19 { // the first had no time at all
			w.Errorf("asked on behalf of %v", seen)
		}
	})
}
