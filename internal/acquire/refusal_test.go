package acquire_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// CONTRIBUTING.md shows this test: it is what a test of the public API looks like.
func TestARefusalSaysWhen(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		w.Take(w.Limiter, ask("key", "rph", 10))
		refused := w.Take(w.Limiter, ask("key", "rph", 1))
		if refused == nil {
			w.Fatal("admitted the 11th request of 10")
		}
		time.Sleep(refused.RetryAfter())
		if w.Take(w.Limiter, ask("key", "rph", 1)) != nil {
			w.Error("refused after the wait")
		}
	})
}
