package acquire_test

import (
	"errors"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A process whose writes are all refused is noticed by the others. They learn of it
// from the item's count of writes, and leave it some tokens from then on.
func TestAProcessThatIsAlwaysRefusedIsHeard(t *testing.T) {
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.System(limiter.PerSecond("rps", 1, limiter.Burst(10)))
		w.Take(w.Limiter, ask("user", "rps", 1))
		heard, b := false, limiter.Bucket{Entity: "user", Resource: "gpt-4"}
		// The item's tokens are taken just before each write of the other process.
		theft := faults.Before(func(*faults.Call) error {
			for !heard && w.Take(w.Limiter, ask("user", "rps", 1)) == nil {
				heard = driverOf(w.Limiter).IsShared(b)
			}
			return nil
		})
		api := faults.Wrap(w.Engine, faults.On(faults.Chain(theft, faults.Delay(0, 5*time.Millisecond)), faults.UpdateItem))
		unlucky := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		for start := time.Now(); !heard && time.Since(start) < time.Minute; {
			_, err := unlucky.Acquire(w.Context(), ask("user", "rps", 1))
			refused, ok := errors.AsType[*limiter.ExceededError](err)
			if !ok {
				break
			}
			time.Sleep(refused.RetryAfter())
		}
		if !heard {
			w.Error("nobody knows of the unlucky process, or it was lucky")
		}
	})
}
