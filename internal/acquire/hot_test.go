package acquire_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// Sixty-four callers of four processes contend for one entity. The admitted count is
// exact, and every answer is an admission or a refusal.
func TestManyCallersOfOneEntity(t *testing.T) {
	inBothWorlds(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerSecond("rps", 50), limiter.PerMinute("rpm", 2000))
		const processes, callers, seconds = 4, 16, 4
		start := time.Now()
		var admitted atomic.Int64
		var all sync.WaitGroup
		for range processes {
			l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, latency(4*time.Millisecond))), limiter.Options{})
			for range callers {
				all.Go(func() {
					for time.Since(start) < seconds*time.Second {
						lease, err := l.Acquire(w.Context(), askAll("key", tokens{"rps": 1, "rpm": 1}))
						var refused *limiter.ExceededError
						switch {
						case errors.As(err, &refused):
							time.Sleep(refused.RetryAfter())
						case err != nil:
							w.Error(err)
							return
						default:
							admitted.Add(1)
							w.Must(lease.Commit(w.Context()))
						}
					}
				})
			}
		}
		all.Wait()
		elapsed := time.Since(start).Milliseconds()
		got, most := admitted.Load(), 50+50*elapsed/1000
		if got > most || got < (50+50*seconds)*95/100 {
			w.Errorf("admitted %d in %d ms, at most %d may be", got, elapsed, most)
		}
	})
}
