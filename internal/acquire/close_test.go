package acquire_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// After Close, every method fails with the same error, at once and without a request.
func TestAClosedLimiterSaysSo(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 4, each(4, 500_000)...)
		l := w.NewLimiter(w.Store, limiter.Options{})
		images, err := driverOf(l).Shards(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4"})
		w.Must(err)
		driverOf(l).Settle()
		all := methods(images)
		leases := w.leases(l, len(all))
		plain := w.Lease(l, ask("user", "rph", 1))
		w.Must(l.Close())
		w.Must(l.Close())
		before, start := w.Meter.Totals(), time.Now()
		for i, m := range all {
			if err := m.call(w.Context(), l, leases[i]); !errors.Is(err, limiter.ErrClosed) {
				w.Errorf("%s: %v", m.name, err)
			}
			req := ask("user", "rph", 1)
			req.OnUnavailable = limiter.Allow
			if lease, err := l.Acquire(w.Context(), req); !errors.Is(err, limiter.ErrClosed) {
				w.Errorf("with allow: %v, %v", lease, err)
			}
		}
		w.Must(plain.Commit(w.Context()))   // it has nothing to write
		w.Must(plain.Rollback(w.Context())) // it is committed
		if got := leases[0].Consumed()["rph"]; got != 3 || len(leases[0].Statuses()) != 1 {
			w.Errorf("consumed %d", got)
		}
		idle := map[string]func() (bool, error){ // calls that have nothing to do
			"Replenish": func() (bool, error) { return driverOf(l).Replenish(w.Context(), images[0], nil, 0) },
			"Configure": func() (bool, error) { return driverOf(l).Configure(w.Context(), images[0].Bucket) },
			"Double":    func() (bool, error) { return driverOf(l).Double(w.Context(), images[0], time.Now()) },
			"Merge":     func() (bool, error) { return driverOf(l).Merge(w.Context(), nil) },
		}
		for name, call := range idle {
			if _, err := call(); !errors.Is(err, limiter.ErrClosed) {
				w.Errorf("%s with nothing to do: %v", name, err)
			}
		}
		l.InvalidateConfig()
		_ = l.Stats()
		if d := w.Meter.Totals().Sub(before); len(d) != 0 || time.Since(start) != 0 {
			w.Errorf("requests were sent: %v; it took %v", d, time.Since(start))
		}
	})
}

// Close waits for calls under way and for the work that they leave behind, in the
// middle of traffic. Calls that began get their answers, and later calls get ErrClosed.
// The tokens of callers that left are returned. Nothing is left running; otherwise the
// bubble would not end.
func TestCloseUnderTraffic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			o := limiter.Options{InFlight: []int{0, -1, 1}[seed%3]}
			inFarWorld(t, o, func(w *far) { closesUnderTraffic(w, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func closesUnderTraffic(w *far, dice *rand.Rand) {
	w.family(hourly)
	w.plant("key", hourly, 2, each(2, 2_000_000)...)
	w.warm(ask("key", "rph", 0))
	w.warm(ask("key", "rph", 0)) // the limiter now knows that it cascades
	at := time.Duration(dice.IntN(100_000)) * time.Microsecond
	var all sync.WaitGroup
	var kept atomic.Int64
	for i := range 32 {
		r := rand.New(rand.NewPCG(uint64(i), uint64(at)))
		all.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(w.Context(), time.Duration(1+r.IntN(60))*time.Millisecond)
				lease, err := w.l.Acquire(ctx, ask("key", "rph", 1))
				switch {
				case errors.Is(err, limiter.ErrClosed) && !errors.Is(err, limiter.ErrUnavailable):
					cancel()
					return
				case err == nil && r.IntN(2) == 0:
					if err := lease.Rollback(context.WithoutCancel(ctx)); errors.Is(err, limiter.ErrClosed) {
						kept.Add(1)
					}
				case err == nil:
					kept.Add(1)
				default:
					time.Sleep(time.Millisecond)
				}
				cancel()
			}
		})
	}
	time.Sleep(at)
	for range 3 {
		all.Go(func() { w.Must(w.l.Close()) })
	}
	all.Wait()
	synctest.Wait()
	for _, entity := range []string{"key", "project"} {
		if got := w.Balance(entity, "rph"); got != 4000-kept.Load() {
			w.Errorf("%s holds %d, want %d", entity, got, 4000-kept.Load())
		}
	}
}

// Close does not wait longer than its time limit for a store that answers nothing.
// Calls under way are given up and return an error that says so.
func TestCloseHasAnEnd(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	for _, after := range []time.Duration{0, time.Second, timeout, 3 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{}, func(w *far) {
				w.family(hourly)
				w.Take(w.Limiter, ask("key", "rph", 1))
				h := faults.NewTap(w.wire.api)
				l := w.NewLimiter(w.OpenOn(h), limiter.Options{Timeout: timeout})
				w.Take(l, ask("key", "rph", 1))
				driverOf(l).Settle()
				leases := make([]*limiter.Lease, 8)
				for i := range leases {
					var err error
					leases[i], err = l.Acquire(w.Context(), ask("key", "rph", 1))
					w.Must(err)
				}
				h.Set(faults.Hang)
				var calls sync.WaitGroup
				for i := range 64 {
					calls.Go(func() {
						time.Sleep(time.Duration(i) * after / 64)
						_, err := l.Acquire(w.Context(), ask("key", "rph", 1))
						if !errors.Is(err, limiter.ErrUnavailable) && !errors.Is(err, limiter.ErrClosed) {
							w.Errorf("acquire: %v", err)
						}
					})
				}
				for _, lease := range leases {
					calls.Go(func() { _ = lease.Rollback(w.Context()) })
				}
				time.Sleep(after)
				start := time.Now()
				err := l.Close()
				if took := time.Since(start); took > 2*timeout || err != nil && !errors.Is(err, limiter.ErrUnavailable) {
					w.Errorf("closed with %v after %v", err, took)
				}
				again := time.Now()
				if got := l.Close(); !errors.Is(got, err) || time.Since(again) != 0 {
					w.Errorf("closed again with %v after %v", got, time.Since(again))
				}
				calls.Wait()
			})
		})
	}
}

var closeRounds = flag.Int("close.rounds", 40, "how often a limiter is closed under traffic, on real goroutines")

// Close leaves no goroutine behind and does not race with calls that begin. The test
// uses real goroutines, which the race detector watches.
func TestCloseLeavesNoGoroutine(t *testing.T) { //nolint:paralleltest // it counts goroutines
	w := &world{testbed.New(t, testbed.Options{})}
	rounds := *closeRounds
	if testing.Short() {
		rounds = min(rounds, 12)
	}
	for round := range rounds {
		api := dynamo.API(w.Engine)
		if round%4 > 0 {
			api = faults.Wrap(w.Engine)
		}
		w.Store = w.OpenOn(api)
		w.System(hourly)
		before := runtime.NumGoroutine()
		l, err := limiter.New(w.Store, limiter.Options{InFlight: []int{0, 1, -1}[round%3]})
		w.Must(err)
		var callers sync.WaitGroup
		for i := range 16 {
			callers.Go(func() {
				req := ask(fmt.Sprint("user-", i%3), "rph", 1)
				for {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*50*time.Microsecond+time.Microsecond)
					lease, err := l.Acquire(ctx, req)
					if err == nil && i%2 == 0 {
						err = lease.Rollback(ctx)
					}
					cancel()
					if errors.Is(err, limiter.ErrClosed) {
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		var closers sync.WaitGroup
		for range 2 {
			closers.Go(func() { w.Must(l.Close()) })
		}
		closers.Wait()
		callers.Wait()
		after := runtime.NumGoroutine()
		for range 100 { // a goroutine takes a moment to end after its work
			if after <= before {
				break
			}
			time.Sleep(100 * time.Microsecond)
			after = runtime.NumGoroutine()
		}
		if after > before {
			buf := make([]byte, 1<<16)
			t.Fatalf("round %d: %d goroutines before, %d after:\n%s", round, before, after, buf[:runtime.Stack(buf, true)])
		}
	}
}

// Close cuts off work that takes longer than Close waits. Here callers whose time is up
// share a write that hangs. The tokens debited for them elsewhere cannot be returned
// either.
func TestCloseCutsOff(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	inFarWorld(t, limiter.Options{}, func(w *far) {
		w.family(sentOnce(hourly)...) // so that a write hangs for all its time
		late := &lag{wait: map[string]time.Duration{}}
		l, err := limiter.New(w.OpenOn(late.on(w.Meter)), limiter.Options{Timeout: timeout, InFlight: 1})
		w.Must(err)
		w.Take(l, ask("key", "rph", 1))
		w.Take(l, ask("key", "rph", 1))
		driverOf(l).Settle()
		late.set("project", time.Hour)
		var calls sync.WaitGroup
		for _, at := range []time.Duration{0, time.Second, time.Second, time.Second} {
			calls.Go(func() {
				time.Sleep(at)
				start := time.Now()
				_, err := l.Acquire(w.Context(), ask("key", "rph", 1))
				if took := time.Since(start); !errors.Is(err, limiter.ErrUnavailable) || took > timeout {
					w.Errorf("%v after %v", err, took)
				}
			})
		}
		time.Sleep(1100 * time.Millisecond)
		late.set("key", time.Hour)
		start := time.Now()
		if err := l.Close(); !errors.Is(err, limiter.ErrUnavailable) || time.Since(start) != 2*timeout {
			w.Errorf("closed with %v after %v", err, time.Since(start))
		}
		calls.Wait()
	})
}
