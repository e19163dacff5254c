package acquire_test

import (
	"fmt"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A process that serves any number of entities once remembers the buckets that it serves again
// and again: each acquire of theirs is one write. Its memory stays within its bounds.
func TestStrangersDoNotDriveOutWarmBuckets(t *testing.T) {
	const size, warm = 1600, 100
	inWorld(t, limiter.Options{Memory: size}, func(w *world) {
		w.System(limiter.PerHour("rph", 1_000_000))
		stranger := 0
		for round, strangers := range []int{600, 3 * size, 3 * size, 0} {
			for i := range warm {
				before := w.Meter.Totals().Sum()
				w.Serve(w.Limiter, ask(fmt.Sprint("warm-", i), "rph", 1))
				if n := w.Meter.Totals().Sum().Requests - before.Requests; n != 1 && round > 0 {
					w.Fatalf("round %d, bucket %d: %d requests", round, i, n)
				}
			}
			for range strangers {
				l := w.Lease(w.Limiter, ask(fmt.Sprint("stranger-", stranger), "rph", 2))
				w.Must(l.Adjust("rph", -1))
				w.Must(l.Commit(w.Context()))
				stranger++
			}
			time.Sleep(time.Second)
		}
		if s := w.Stats(); s.Buckets != size || s.Config.Size > size {
			w.Errorf("%d buckets and %d levels are remembered", s.Buckets, s.Config.Size)
		}
	})
}
