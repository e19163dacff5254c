package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
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

// A hundred workers of one process use the whole limit, whatever they ask for and whatever a
// round trip takes. They are admitted in the order of their arrival, and share writes: they
// try 1.2 times for each admission, and the slowest waits at most twice the median.
func TestAHundredWorkersWaitWithFewTries(t *testing.T) {
	ofUser := func(amount func(i int64) int64) func(int64) limiter.Request {
		return func(i int64) limiter.Request { return ask("user", "rps", amount(i)) }
	}
	ofChildren := func(i int64) limiter.Request { return ask(fmt.Sprint("child-", i%10), "rps", 100+i) }
	for name, tt := range map[string]struct {
		latency time.Duration
		buckets float64 // of each request
		request func(i int64) limiter.Request
	}{
		"equal amounts, at once":    {0, 1, ofUser(func(int64) int64 { return 100 })},
		"equal amounts":             {20 * time.Millisecond, 1, ofUser(func(int64) int64 { return 100 })},
		"a hundred amounts":         {20 * time.Millisecond, 1, ofUser(func(i int64) int64 { return 100 + i })},
		"three amounts":             {5 * time.Millisecond, 1, ofUser(func(i int64) int64 { return 50 << (i % 3) })},
		"one large, at once":        {0, 1, ofUser(func(i int64) int64 { return 100 + 3_900*max(0, i-98) })},
		"one large":                 {5 * time.Millisecond, 1, ofUser(func(i int64) int64 { return 100 + 3_900*max(0, i-98) })},
		"children of one parent":    {20 * time.Millisecond, 2, ofChildren},
		"children of a near parent": {5 * time.Millisecond, 2, ofChildren},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, testbed.Options{Remote: true}, func(w *world) {
				w.System(limiter.PerSecond("rps", 20_000))
				w.Entities(limiter.Entity{ID: "user"})
				for i := range 10 {
					w.Entities(child(fmt.Sprint("child-", i), "user"))
				}
				w.Take(w.Limiter, ask("user", "rps", 20_000))
				w.aHundredWait(tt.latency, tt.buckets, tt.request)
			})
		})
	}
}

// aHundredWait has a hundred workers wait for requests of a limit of 20,000 a second, which
// is an entity's. Each request takes from a number of buckets.
func (w *world) aHundredWait(latency time.Duration, buckets float64, request func(i int64) limiter.Request) {
	// All workers begin at one instant, when nobody waits yet. Then the store decides who is
	// first, and one of them may be outrun for a second.
	const total, startUp, earned = 10 * time.Second, 2 * time.Second, 20_000 * 10
	l := w.NewLimiter(w.OpenOn(newWire(w.Meter, latency).api), limiter.Options{})
	before := w.Meter.Totals()
	begun := time.Now()
	end := begun.Add(total)
	var mu sync.Mutex
	var took []time.Duration
	var got, admitted int64
	var all sync.WaitGroup
	for i := range int64(100) {
		all.Go(func() {
			req := request(i)
			for time.Now().Before(end) {
				from := time.Now()
				lease, err := l.Wait(w.Context(), req)
				if err != nil {
					w.Error(err)
					return
				}
				mu.Lock()
				if admitted++; time.Now().Before(end) {
					got += req.Consume["rps"]
				}
				if from.Sub(begun) > startUp {
					took = append(took, time.Since(from))
				}
				mu.Unlock()
				w.Check(lease.Commit(w.Context()))
			}
		})
	}
	all.Wait()
	tries := float64(w.Meter.Totals()["UpdateItem"].Requests-before["UpdateItem"].Requests) + buckets*float64(l.Stats().LocallyRefused)
	slices.Sort(took)
	median, slowest := took[len(took)/2], took[len(took)-1]
	used, per := float64(got)/earned, tries/float64(admitted)
	w.Logf("%.2f of the limit is used, %.2f tries for each admission, median %v, slowest %v", used, per, median, slowest)
	if used < 0.95 {
		w.Errorf("%.2f of the limit is used", used)
	}
	if per > 1.2*buckets {
		w.Errorf("%.2f tries for each admission", per)
	}
	if slowest > 2*median {
		w.Errorf("the slowest waited %v, the median is %v", slowest, median)
	}
}

// A wait that cannot end before the deadline ends at once, with the wait.
func TestWaitGivesUpAtOnce(t *testing.T) {
	inEachWorld(t, limiter.Options{MaxWaiters: 2}, func(w *world) {
		w.System(limiter.PerMinute("tpm", 60))
		w.Take(w.Limiter, ask("user", "tpm", 60))
		give := func(d time.Duration, n int64) error {
			ctx, cancel := context.WithTimeout(w.Context(), d)
			defer cancel()
			begun := time.Now()
			_, err := w.Wait(ctx, ask("user", "tpm", n))
			if took := time.Since(begun); took > 0 {
				w.Errorf("%v after %v", err, took)
			}
			return err
		}
		check := func(err error, wait time.Duration) {
			w.Helper()
			refusal, ok := errors.AsType[*limiter.ExceededError](err)
			if !ok || !errors.Is(err, limiter.ErrExceeded) || refusal.RetryAfter() != wait {
				w.Errorf("got %v, want a wait of %v", err, wait)
			}
		}
		check(give(9*time.Second, 10), 10*time.Second)
		check(give(time.Hour, 61), limiter.Never)
		var first sync.WaitGroup
		first.Go(func() { w.waits(w.Limiter, w.Context(), ask("user", "tpm", 10), ask("user", "tpm", 5)) })
		time.Sleep(10 * time.Millisecond)
		if n := w.Stats().Waiting; n != 2 {
			w.Errorf("%d wait", n)
		}
		check(give(17*time.Second, 3), 17990*time.Millisecond)
		check(give(time.Hour, 61), limiter.Never)
		err := give(time.Hour, 3)
		if check(err, 17990*time.Millisecond); !errors.Is(err, limiter.ErrQueueFull) {
			w.Errorf("the queue is full: %v", err)
		}
		if err := give(time.Hour, -1); !errors.Is(err, limiter.ErrInvalid) {
			w.Error(err)
		}
		first.Wait()
		if n := w.Stats().Waiting; n != 0 {
			w.Errorf("%d wait at the end", n)
		}
	})
}

// A caller that leaves takes nothing, and those behind it move up.
func TestACallerLeavesTheQueue(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("tpm", 60))
		w.Take(w.Limiter, ask("user", "tpm", 60))
		begun := time.Now()
		ctx, cancel := context.WithCancel(w.Context())
		var left error
		var all sync.WaitGroup
		all.Go(func() { _, left = w.Wait(ctx, ask("user", "tpm", 50)) })
		time.Sleep(time.Millisecond)
		all.Go(func() { w.waits(w.Limiter, w.Context(), ask("user", "tpm", 5)) })
		time.Sleep(2 * time.Second)
		cancel()
		all.Wait()
		if !errors.Is(left, context.Canceled) || errors.Is(left, limiter.ErrExceeded) {
			w.Errorf("the caller that left: %v", left)
		}
		if took := time.Since(begun).Round(10 * time.Millisecond); took != 5*time.Second {
			w.Errorf("the one behind it was admitted after %v", took)
		}
		driverOf(w.Limiter).Settle()
		w.holds("user", "tpm", 0)
	})
}

// A caller that others have outrun until its deadline is told so.
func TestADeadlineEndsAWait(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("tpm", 60))
		w.Take(w.Limiter, ask("user", "tpm", 60))
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			_, err := w.Wait(ctx, ask("user", "tpm", 4))
			if !errors.Is(err, limiter.ErrExceeded) || errors.Is(err, limiter.ErrUnavailable) {
				w.Errorf("got %v, want the refusal", err)
			}
		})
		other := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{Trust: -1})
		time.Sleep(3500 * time.Millisecond)
		w.Take(other, ask("user", "tpm", 3))
		all.Wait()
	})
}

// Close ends waiting callers at once.
func TestCloseEndsWaits(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("tpm", 60))
		l := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{})
		w.Take(l, ask("user", "tpm", 60))
		begun := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			for _, c := range w.waits(l, w.Context(), ask("user", "tpm", 5), ask("user", "tpm", 5), ask("user", "tpm", 1)) {
				if !errors.Is(c.err, limiter.ErrClosed) {
					w.Errorf("got %v", c.err)
				}
			}
		})
		time.Sleep(time.Second)
		w.Must(l.Close())
		all.Wait()
		if took := time.Since(begun); took != time.Second {
			w.Errorf("the waits ended after %v", took)
		}
		if _, err := l.Wait(w.Context(), ask("user", "tpm", 1)); !errors.Is(err, limiter.ErrClosed) {
			w.Error(err)
		}
	})
}

// Whoever waits for its own limit is not in the way of its parent's other children, and
// whoever waits for the parent's is.
func TestWaitersOfAParentAreInOrder(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerMinute("rpm", 60))
		w.Entities(child("other", "project"))
		own := func(entity string, n int64) {
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: entity, Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", n)}))
		}
		own("key", 6)
		own("other", 600)
		w.Take(w.Limiter, ask("key", "rpm", 6))
		w.Take(w.Limiter, ask("other", "rpm", 1))
		got := w.waits(w.Limiter, w.Context(), ask("key", "rpm", 1), ask("other", "rpm", 50))
		if got[0].order != 1 || got[1].took > 10*time.Millisecond {
			w.Errorf("the key waits for its own limit: %+v", got)
		}
		own("key", 600)
		w.InvalidateConfig()
		time.Sleep(2 * time.Minute)
		w.Take(w.Limiter, ask("project", "rpm", 60))
		got = w.waits(w.Limiter, w.Context(), ask("key", "rpm", 6), ask("other", "rpm", 1), ask("project", "rpm", 1))
		for i, c := range got {
			if w.Must(c.err); c.order != i {
				w.Errorf("caller %d returned as number %d after %v", i, c.order, c.took)
			}
		}
	})
}

// A caller that names another limit than those for which others wait does not wait.
func TestWaitersOfOtherLimitsDoNotWait(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("tpm", 60), limiter.PerMinute("rpm", 60))
		w.Take(w.Limiter, ask("user", "tpm", 60))
		got := w.waits(w.Limiter, w.Context(), askAll("user", tokens{"tpm": 10, "rpm": 1}), ask("user", "rpm", 5), askAll("user", tokens{"tpm": 0, "rpm": 5}), askAll("user", tokens{"tpm": 1, "rpm": 1}))
		for i, want := range []int{2, 0, 1, 3} {
			if w.Must(got[i].err); got[i].order != want {
				w.Errorf("caller %d returned as number %d after %v", i, got[i].order, got[i].took)
			}
		}
	})
}

// Tokens that come back end a wait early: at once if this process returns them, and when
// the caller looks again otherwise.
func TestWaitEndsEarlyIfTokensComeBack(t *testing.T) {
	here, soon := func(w *world) *limiter.Limiter { return w.Limiter }, 1010*time.Millisecond
	for name, tt := range map[string]struct {
		back func(w *world, lease *limiter.Lease) error
		of   func(w *world) *limiter.Limiter
		most time.Duration
	}{
		"rolled back": {func(w *world, lease *limiter.Lease) error { return lease.Rollback(w.Context()) }, here, soon},
		"released":    {func(w *world, lease *limiter.Lease) error { return lease.Release(w.Context(), tokens{"rph": 30}) }, here, soon},
		"by a commit": {func(w *world, lease *limiter.Lease) error {
			return errors.Join(lease.Settle("rph", 2), lease.Commit(w.Context()))
		}, here, soon},
		"elsewhere": {func(w *world, lease *limiter.Lease) error { return lease.Rollback(w.Context()) }, func(w *world) *limiter.Limiter {
			return w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{})
		}, 61 * time.Second},
		"a higher rate": {func(w *world, _ *limiter.Lease) error {
			return w.OpenOn(faults.Wrap(w.Engine)).SetSystem(w.Context(), []limiter.Limit{limiter.PerHour("rph", 36_000)}, "")
		}, here, 2*time.Minute + 5*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(limiter.PerHour("rph", 60))
				lease, err := tt.of(w).Acquire(w.Context(), ask("user", "rph", 60))
				w.Must(err)
				var all sync.WaitGroup
				begun := time.Now()
				all.Go(func() {
					_, err := w.Wait(w.Context(), ask("user", "rph", 10))
					w.Check(err)
				})
				time.Sleep(time.Second)
				w.Must(tt.back(w, lease))
				all.Wait()
				if took := time.Since(begun); took > tt.most {
					w.Errorf("waited %v", took)
				}
			})
		})
	}
}

// Waiting is free for a caller that need not wait.
func TestWaitWithoutWaitingCostsWhatAcquireCosts(t *testing.T) { // not parallel: AllocsPerRun counts for the process
	w := &world{testbed.New(t, testbed.Options{})}
	w.System(limiter.PerSecond("rps", 1_000_000))
	req := ask("user", "rps", 1)
	w.Take(w.Limiter, req)
	// The engine, in the same process, allocates more as counts grow: acquires are measured
	// before and after.
	count := func(do func() error) float64 { return testing.AllocsPerRun(200, func() { w.Must(do()) }) }
	acquire := func() error { return errOf(w.Acquire(w.Context(), req)) }
	before := count(acquire)
	wait := count(func() error { return errOf(w.Wait(w.Context(), req)) })
	if acquire := max(before, count(acquire)); wait > acquire {
		w.Errorf("%v allocations, an acquire makes %v", wait, acquire)
	}
}
