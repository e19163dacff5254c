package acquire_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// Sixty-four callers of four processes contend for one entity. The admitted count is
// exact, and every answer is an admission or a refusal.
func TestManyCallersOfOneEntity(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
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

// One process sends a bucket five times what a partition takes. Its doublings would then be
// throttled for as long as its own claims are: they hold back while it tries.
func TestADoublingHasRoomInAThrottlingPartition(t *testing.T) {
	inEngine(t, awsEngine(), dynamo.TableOptions{}, func(w *world) {
		const rate, within = 5_000, time.Second
		w.System(limiter.PerSecond("rps", 1_000_000))
		var splits, throttled atomic.Int64
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, faults.On(faults.After(func(_ *faults.Call, err error) error {
			splits.Add(1)
			if isThrottled(err) {
				throttled.Add(1)
			}
			return err
		}), faults.TransactWriteItems))), limiter.Options{InFlight: -1})
		var calls sync.WaitGroup
		steady(&calls, rate, within, func() {
			if err := errOf(l.Acquire(w.Context(), ask("attacker", "rps", 1))); err != nil && !errors.Is(err, limiter.ErrThrottled) {
				w.Error(err)
			}
		})
		calls.Wait()
		if shards := len(w.Images("attacker")); shards != 8 {
			w.Errorf("there are %d shards after %v, want 8", shards, within)
		}
		// A claim that was under way when the others began to hold back may still take the room.
		if throttled.Load() > 1 {
			w.Errorf("%d of %d splits were throttled, want at most one", throttled.Load(), splits.Load())
		}
	})
}
