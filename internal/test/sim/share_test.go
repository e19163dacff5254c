package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// unfair is the largest relative difference of a process's share from an equal share.
const unfair = 0.2

// A contest is one bucket on which identical processes demand more than it earns. Each
// caller asks for one token, and asks again after its quoted wait.
type contest struct {
	processes, callers int
	rate, burst        int64
	latency            time.Duration // of a round trip
	lasts              time.Duration
}

var contests = []contest{
	{2, 16, 300, 300, 5 * time.Millisecond, 20 * time.Second},
	{4, 16, 300, 300, 5 * time.Millisecond, 20 * time.Second},
	{6, 8, 300, 30, 10 * time.Millisecond, 20 * time.Second},
}

func (c contest) String() string {
	return fmt.Sprintf("%d processes of %d callers, %d a second and a burst of %d, %v away", c.processes, c.callers, c.rate, c.burst, c.latency)
}

// hold runs a contest. It returns the tokens granted to each process, and the number of
// failed calls. handicap wraps the first process's store.
func (c contest) hold(t *testing.T, handicap func(limiter.Store) limiter.Store) (granted []int64, failed int64) {
	t.Helper()
	granted = make([]int64, c.processes)
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		w := testbed.New(t, testbed.Options{})
		w.System(limiter.PerSecond("rps", c.rate, limiter.Burst(c.burst)))
		req := testbed.Ask("solo", "rps", 1)
		var all sync.WaitGroup
		var failures atomic.Int64
		limiters := make([]*limiter.Limiter, c.processes)
		for i := range limiters {
			store := limiter.Store(w.OpenOn(faults.Wrap(w.Engine, faults.Latency(c.latency))))
			if i == 0 && handicap != nil {
				store = handicap(store)
			}
			limiters[i] = w.NewLimiter(store, limiter.Options{})
		}
		until := time.Now().Add(c.lasts)
		for i, l := range limiters {
			for range c.callers {
				all.Go(func() {
					for time.Now().Before(until) {
						_, err := l.Acquire(ctx, req)
						exceeded := (*limiter.ExceededError)(nil)
						switch {
						case err == nil:
							atomic.AddInt64(&granted[i], 1)
						case errors.As(err, &exceeded):
							time.Sleep(exceeded.RetryAfter())
						default:
							failures.Add(1)
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
		}
		all.Wait()
		failed = failures.Load()
	})
	return granted, failed
}

// judge lists what is wrong in the sharing of a limit: processes whose share is too far
// from an equal one, calls that failed without a fault, and tokens that no process was
// granted.
func (c contest) judge(granted []int64, failed int64) (wrong []string) {
	var sum int64
	for _, n := range granted {
		sum += n
	}
	equal := float64(sum) / float64(len(granted))
	for i, n := range granted {
		if share := float64(n) / equal; share < 1-unfair || share > 1+unfair {
			wrong = append(wrong, fmt.Sprintf("process %d has %.2f of an equal share", i, share))
		}
	}
	if failed > 0 {
		wrong = append(wrong, fmt.Sprintf("%d calls failed", failed))
	}
	if entitled := float64(c.burst) + float64(c.rate)*c.lasts.Seconds(); float64(sum) < 0.98*entitled {
		wrong = append(wrong, fmt.Sprintf("%d were granted of %.0f", sum, entitled))
	}
	return wrong
}

// TestEqualShares is promise P2 between processes: identical processes that compete for one
// limit get equal shares of it.
func TestEqualShares(t *testing.T) {
	t.Parallel()
	for _, c := range contests {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			granted, failed := c.hold(t, nil)
			for _, wrong := range c.judge(granted, failed) {
				t.Errorf("%v: %s", granted, wrong)
			}
		})
	}
}

// unlucky has seven of eight writes refused.
type unlucky struct {
	limiter.Store

	n *atomic.Int64
}

func (s unlucky) loses() bool {
	const every = 8
	return s.n.Add(1)%every != 0
}

func (s unlucky) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	if s.loses() {
		return store.Outcome{}, limiter.ErrThrottled
	}
	return s.Store.Take(ctx, t)
}

func (s unlucky) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	if s.loses() {
		return store.Outcome{}, limiter.ErrThrottled
	}
	return s.Store.Refill(ctx, r)
}

// TestLongestUnequalSharesAreSeen: the checker reports a process that gets less than the others,
// and tokens that one process takes from all.
func TestLongestUnequalSharesAreSeen(t *testing.T) {
	t.Parallel()
	c := contests[0]
	granted, failed := c.hold(t, func(s limiter.Store) limiter.Store { return unlucky{s, new(atomic.Int64)} })
	if granted[0] > granted[1] {
		t.Errorf("the process that loses most writes has the larger share: %v", granted)
	}
	if wrong := c.judge(granted, failed); !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, "equal share") }) {
		t.Errorf("of %v is reported %v", granted, wrong)
	}
	for name, shares := range map[string][]int64{"found by the check": {5700, 300}, "a fifth and a little more": {4000, 2300}} {
		if len(c.judge(shares, 0)) == 0 {
			t.Errorf("%s: nothing is reported of %v", name, shares)
		}
	}
	if wrong := c.judge([]int64{3500, 2800}, 0); len(wrong) > 0 {
		t.Errorf("reported of nearly equal shares: %v", wrong)
	}
}
