package limiter_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/limitertest"
)

// A waited is what became of one call of Wait.
type waited struct {
	lease *limiter.Lease
	err   error
	took  time.Duration
	order int // among all that returned
}

// waits begins to wait for requests, one after the other in time, and returns what became
// of them once all have returned.
func (w *world) waits(l *limiter.Limiter, ctx context.Context, reqs ...limiter.Request) []waited {
	w.Helper()
	all := make([]waited, len(reqs))
	var wg sync.WaitGroup
	var mu sync.Mutex
	returned := 0
	for i, req := range reqs {
		wg.Go(func() {
			begun := time.Now()
			lease, err := l.Wait(ctx, req)
			mu.Lock()
			defer mu.Unlock()
			all[i] = waited{lease, err, time.Since(begun), returned}
			returned++
		})
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	return all
}

func TestWaitAdmitsInTheOrderOfArrival(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("tpm", 60))
		w.Take(w.Limiter, ask("user", "tpm", 60))
		got := w.waits(w.Limiter, w.Context(), ask("user", "tpm", 30), ask("user", "tpm", 1), ask("user", "tpm", 1), ask("user", "tpm", 20), ask("user", "tpm", 2))
		for i, c := range got {
			w.Must(c.err)
			if c.order != i {
				w.Errorf("caller %d returned as number %d", i, c.order)
			}
		}
		if last := got[4].took.Round(time.Second); last != 54*time.Second {
			w.Errorf("the last caller waited %v, want 54 s for 54 tokens at 1 a second", got[4].took)
		}
	})
}

// Workers in one process that are limited to 200 a second try 1.2 times for each
// admission, and the slowest waits at most twice the median.
func TestAHundredWorkersWaitWithFewTries(t *testing.T) {
	for name, latency := range map[string]time.Duration{"at once": 0, "5 ms": 5 * time.Millisecond, "20 ms": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, limitertest.Options{Remote: true}, func(w *world) {
				l := w.NewLimiter(w.OpenOn(newWire(w.Meter, latency).api), limiter.Options{})
				w.System(limiter.PerSecond("rps", 200))
				w.Take(l, ask("user", "rps", 200))
				before, refused := w.Meter.Totals()["UpdateItem"].Requests, l.Stats().LocallyRefused
				end := time.Now().Add(20 * time.Second)
				var mu sync.Mutex
				var took []time.Duration
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() {
						for time.Now().Before(end) {
							begun := time.Now()
							lease, err := l.Wait(w.Context(), ask("user", "rps", 1))
							if err != nil {
								w.Error(err)
								return
							}
							mu.Lock()
							took = append(took, time.Since(begun))
							mu.Unlock()
							w.Check(lease.Commit(w.Context()))
						}
					})
				}
				all.Wait()
				tries := int(w.Meter.Totals()["UpdateItem"].Requests-before) + int(l.Stats().LocallyRefused-refused)
				slices.Sort(took)
				median, slowest := took[len(took)/2], took[len(took)-1]
				w.Logf("%d admitted, %d tries, median %v, slowest %v", len(took), tries, median, slowest)
				if per := float64(tries) / float64(len(took)); per > 1.2 {
					w.Errorf("%.2f tries for each admission", per)
				}
				if slowest > 2*median {
					w.Errorf("the slowest waited %v, the median is %v", slowest, median)
				}
				if len(took) < 200*19 {
					w.Errorf("%d were admitted in 20 s, of 200 a second", len(took))
				}
			})
		})
	}
}
