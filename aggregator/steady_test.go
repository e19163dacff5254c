package aggregator_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

type callKey struct{}

// countWrites counts the updates of a call in the counter that the call's context has.
func countWrites(ctx context.Context, _ *faults.Call, next faults.Next) error {
	if n, ok := ctx.Value(callKey{}).(*atomic.Int64); ok {
		n.Add(1)
	}
	return next(ctx)
}

// steady is a load on one bucket, and its result.
type steady struct {
	name      string
	limit     limiter.Limit
	processes int
	amount    int64
	drained   int64 // tokens taken before the load begins
	inFlight  int
	least     float64 // the minimum share with an aggregator
}

// run sends 200 requests a second for a minute and returns the share of acquires that took
// one round trip.
func (s steady) run(t *testing.T, aggregated bool) (share float64, refills int) {
	t.Helper()
	const rate, lasts = 200, time.Minute
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(s.limit)
		w.Take(w.Limiter, ask("user", s.limit.Name, s.amount+s.drained))
		var clients []*limiter.Limiter
		for range s.processes {
			api := faults.Wrap(w.API, faults.On(countWrites, faults.UpdateItem), faults.On(faults.Latency(5*time.Millisecond), faults.UpdateItem))
			l := w.NewLimiter(w.OpenOn(api), limiter.Options{InFlight: s.inFlight})
			w.Take(l, ask("user", s.limit.Name, s.amount))
			clients = append(clients, l)
		}
		w.drain()
		var once, all, refused atomic.Int64
		var callers sync.WaitGroup
		done := make(chan struct{})
		if aggregated {
			callers.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(time.Second):
						refills += w.process(w.drain()).Refills
					}
				}
			})
		}
		start := time.Now()
		var acquires sync.WaitGroup
		for i := range rate * int(lasts.Seconds()) {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / rate)))
			acquires.Go(func() {
				var trips atomic.Int64
				ctx := context.WithValue(t.Context(), callKey{}, &trips)
				lease, err := clients[i%len(clients)].Acquire(ctx, ask("user", s.limit.Name, s.amount))
				if err != nil {
					refused.Add(1)
					return
				}
				w.Check(lease.Commit(t.Context()))
				all.Add(1)
				if trips.Load() <= 1 {
					once.Add(1)
				}
			})
		}
		acquires.Wait()
		close(done)
		callers.Wait()
		if aggregated {
			refills += w.process(w.drain()).Refills
			want := 1000 * (s.drained + (1+int64(s.processes)+all.Load())*s.amount)
			if got := w.counted("user")[s.limit.Name]; got != want {
				t.Errorf("counted are %d, consumed were %d", got, want)
			}
		}
		share = float64(once.Load()) / float64(all.Load())
		if refused.Load() > 0 {
			t.Errorf("%d acquires failed", refused.Load())
		}
	})
	return share, refills
}

// A bucket with 200 requests a second stays on the path of one round trip: its users find
// enough tokens, and nobody moves the stamp while they write.
//
// A bucket whose limits earn more than the load is full, and overflows between any two
// requests. Each request has to cut the overflow (ADR 006), or leave it to the request that
// finds the stamp too old (ADR 017). An aggregator can do nothing ahead for such a bucket.
// For a bucket that fills hardly faster than its load, from many users that each come
// seldom, the test only reports the share.
func TestLongSteadyLoadStaysOnTheOneRoundTripPath(t *testing.T) {
	t.Parallel()
	const held = 0.999
	for _, s := range []steady{
		{"one process", limiter.PerMinute("rpm", 12_000), 1, 1, 6_000, 0, held},
		{"one process, every caller for itself", limiter.PerMinute("rpm", 12_000), 1, 1, 6_000, -1, held},
		{"four processes", limiter.PerMinute("rpm", 12_000), 4, 1, 6_000, 0, held},
		{"four processes, every caller for itself", limiter.PerMinute("rpm", 12_000), 4, 1, 6_000, -1, held},
		{"nearly exhausted", limiter.PerMinute("rpm", 12_000), 4, 1, 11_000, 0, held},
		{"filling up", limiter.PerMinute("rpm", 15_000), 4, 1, 7_000, 0, held},
		{"tokens", limiter.PerMinute("tpm", 2_000_000), 4, 150, 1_000_000, 0, held},
		{"full", limiter.PerMinute("rpm", 15_000), 4, 1, 0, 0, held},
		{"full, sixteen processes", limiter.PerMinute("rpm", 15_000), 16, 1, 0, 0, 0},
		{"full, sixteen processes, far above the load", limiter.PerMinute("rpm", 1_500_000), 16, 1, 0, 0, held},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			with, refills := s.run(t, true)
			t.Logf("%.3f %% of acquires took one round trip with an aggregator, which refilled %d times", 100*with, refills)
			if testing.Verbose() { // for comparison alone
				without, _ := s.run(t, false)
				t.Logf("%.3f %% took one round trip without", 100*without)
			}
			if with < s.least {
				t.Errorf("%.3f %% took one round trip, want %.1f %%", 100*with, 100*s.least)
			}
		})
	}
}
