package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/limitertest"
)

// contend has ten callers in each of several processes wait for requests of an amount, for
// as long as the limit earns tokens for a number of them. It returns how many each process
// was admitted, and the writes for each admission.
func (w *world) contend(limit *limiter.Limit, processes int, amount, requests int64) (admitted []int, sum int, writes float64) {
	const workers = 10
	w.System(*limit)
	w.Take(w.Limiter, ask("user", limit.Name, limit.Capacity))
	end := time.Now().Add(time.Duration(float64(limit.Period) / float64(limit.Amount) * float64(amount*requests)))
	before := w.Meter.Totals()["UpdateItem"].Requests
	admitted = make([]int, processes)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range processes {
		l := w.NewLimiter(w.OpenOn(newWire(w.Meter, 5*time.Millisecond).api), limiter.Options{})
		for range workers {
			all.Go(func() {
				for {
					ctx, cancel := context.WithDeadline(w.Context(), end)
					_, err := l.Wait(ctx, ask("user", limit.Name, amount))
					if cancel(); err != nil {
						return
					}
					mu.Lock()
					admitted[i]++
					sum++
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	writes = float64(w.Meter.Totals()["UpdateItem"].Requests-before) / float64(sum)
	w.Logf("%v admitted, %d of %d, %.2f writes for each", admitted, sum, requests, writes)
	return admitted, sum, writes
}

// Processes that wait for one bucket get about equal shares, in their own order, and do
// not try all at once.
func TestWaitingProcessesShareWithoutAHerd(t *testing.T) {
	for name, tt := range map[string]struct {
		limit limiter.Limit
		most  float64 // writes for each admission
	}{
		"a hundred a second": {limiter.PerSecond("rps", 100), 2},
		// At such a rate, the stamp that a process remembers is mostly out of date. So an
		// admission takes a second write.
		"one a second": {limiter.PerMinute("rps", 60), 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, limitertest.Options{Remote: true}, func(w *world) {
				const processes, requests = 8, 1600
				admitted, sum, writes := w.contend(&tt.limit, processes, 1, requests)
				if writes > tt.most {
					w.Errorf("%.2f writes for each admission", writes)
				}
				if sum < requests*9/10 {
					w.Errorf("%d were admitted, of %d", sum, requests)
				}
				if slices.Min(admitted) < sum/processes*7/10 || slices.Max(admitted) > sum/processes*13/10 {
					w.Errorf("the shares are %v", admitted)
				}
			})
		})
	}
}

// A bucket that holds few requests, or one, is full soon. Processes that wait for it do not
// wait so long for each other that most of what it earns is lost.
func TestWaitingProcessesUseASmallBucket(t *testing.T) {
	for _, tt := range []struct {
		limit     limiter.Limit
		processes int
		amount    int64
	}{
		{limiter.PerSecond("rps", 1), 2, 1},
		{limiter.PerSecond("rps", 1), 8, 1},
		{limiter.PerSecond("rps", 100), 2, 100},
		{limiter.PerMinute("rpm", 60), 2, 60},
		{limiter.PerMinute("rpm", 60), 2, 30},
		{limiter.PerHour("rph", 10), 2, 1},
	} {
		t.Run(fmt.Sprintf("%d processes, %d of %d", tt.processes, tt.amount, tt.limit.Capacity), func(t *testing.T) {
			t.Parallel()
			inBubble(t, limitertest.Options{Remote: true}, func(w *world) {
				const requests = 400
				_, sum, writes := w.contend(&tt.limit, tt.processes, tt.amount, requests)
				if sum < requests*3/4 {
					w.Errorf("%d were admitted, of %d", sum, requests)
				}
				if writes > 11 {
					w.Errorf("%.2f writes for each admission", writes)
				}
			})
		})
	}
}

// A process whose caller has a deadline tries before it, however far processes spread their
// tries.
func TestSharingProcessesTryBeforeTheDeadline(t *testing.T) {
	inWorld(t, limiter.Options{Rand: func(n int64) int64 { return n - 1 }}, func(w *world) {
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
