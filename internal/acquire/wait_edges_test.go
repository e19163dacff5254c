package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A thousand callers wait, of which most leave at random instants. Those that stay are
// admitted, and nothing that the others might have taken is missing.
func TestAThousandWaitersLeaveAtRandom(t *testing.T) {
	for name, latency := range map[string]time.Duration{"at once": 0, "20 ms": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, testbed.Options{Remote: true}, func(w *world) {
				w.System(limiter.PerMinute("rpm", 6_000), limiter.PerMinute("tpm", 600_000))
				l := w.NewLimiter(w.OpenOn(newWire(w.Meter, latency).api), limiter.Options{MaxWaiters: -1})
				w.Take(l, askAll("user", tokens{"rpm": 6_000, "tpm": 600_000}))
				dice := rand.New(rand.NewPCG(1, uint64(latency)))
				begun := time.Now()
				var mu sync.Mutex
				var rpm, tpm int64
				admitted, left := 0, 0
				var all sync.WaitGroup
				for i := range int64(1000) {
					req := askAll("user", tokens{"rpm": 1, "tpm": dice.Int64N(3) * 100})
					stays, leaves := dice.IntN(4) == 0, time.Duration(dice.Int64N(int64(15*time.Second)))
					all.Go(func() {
						ctx, cancel := context.WithCancel(w.Context())
						defer cancel()
						if !stays {
							defer time.AfterFunc(leaves, cancel).Stop()
						}
						lease, err := l.Wait(ctx, req)
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							admitted++
							rpm += lease.Consumed()["rpm"]
							tpm += lease.Consumed()["tpm"]
						case stays, !errors.Is(err, context.Canceled):
							w.Errorf("caller %d: %v", i, err)
						default:
							left++
						}
					})
				}
				all.Wait()
				took := time.Since(begun)
				driverOf(w.Limiter).Settle()
				w.Logf("%d admitted, %d left, after %v", admitted, left, took)
				const slack = 5                             // for the last round trips
				earned := int64(took/time.Millisecond) / 10 // a request each 10 ms
				if held := w.Balance("user", "rpm"); held < earned-rpm-slack || held > earned-rpm+slack {
					w.Errorf("%d rpm are left, of %d earned and %d taken", held, earned, rpm)
				}
				if held := w.Balance("user", "tpm"); held < 100*(earned-slack)-tpm || held > 100*(earned+slack)-tpm {
					w.Errorf("%d tpm are left, of %d earned and %d taken", held, 100*earned, tpm)
				}
				if most := 15 * time.Second; took > most {
					w.Errorf("the last one waited %v", took)
				}
				if n := l.Stats().Waiting; n != 0 {
					w.Errorf("%d still wait", n)
				}
			})
		})
	}
}

// A request that can never be admitted, or not in time, fails at once, also behind others.
// One that takes nothing is admitted at once.
func TestWaitDoesNotWaitInVain(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("tpm", 60), limiter.PerMinute("rpm", 60))
		w.Take(w.Limiter, ask("user", "tpm", 60))
		ctx := w.Context()
		past, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
		defer cancel()
		left, cancelLeft := context.WithCancel(ctx)
		cancelLeft()
		try := func(ctx context.Context, name string, req limiter.Request, want error) {
			w.Helper()
			begun := time.Now()
			lease, err := w.Wait(ctx, req)
			if !errors.Is(err, want) || (lease == nil) != (want != nil) {
				w.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took > 0 {
				w.Errorf("%s: %v after %v", name, err, took)
			}
			if exceeded := (*limiter.ExceededError)(nil); errors.As(err, &exceeded) && exceeded.RetryAfter() != limiter.Never {
				w.Errorf("%s: %v", name, err)
			}
		}
		check := func() {
			w.Helper()
			try(ctx, "more than the capacity", ask("user", "tpm", 61), limiter.ErrExceeded)
			try(ctx, "the most tokens", ask("user", "tpm", limiter.MaxTokens), limiter.ErrExceeded)
			try(ctx, "one of two limits for ever", askAll("user", tokens{"tpm": 1, "rpm": 61}), limiter.ErrExceeded)
			try(ctx, "a negative amount", ask("user", "tpm", -1), limiter.ErrInvalid)
			try(ctx, "no limit", askAll("user", nil), limiter.ErrInvalid)
			try(ctx, "an unknown limit", ask("user", "nope", 1), limiter.ErrNotConfigured)
			try(ctx, "an unknown and a short limit", askAll("user", tokens{"tpm": 1, "nope": 1}), limiter.ErrNotConfigured)
			try(ctx, "a malformed name", ask("a b", "tpm", 1), limiter.ErrInvalid)
			try(past, "a deadline in the past", ask("user", "tpm", 1), context.DeadlineExceeded)
			try(left, "a caller that has left", ask("user", "tpm", 1), context.Canceled)
			try(ctx, "nothing", ask("user", "tpm", 0), nil)
			try(ctx, "another limit", askAll("user", tokens{"rpm": 1, "tpm": 0}), nil)
		}
		check()
		var others sync.WaitGroup
		others.Go(func() { w.waits(w.Limiter, ctx, ask("user", "tpm", 5), ask("user", "tpm", 7)) })
		time.Sleep(10 * time.Millisecond)
		check()
		others.Wait()
	})
}

// Limits that change while callers wait decide about them, once the change is seen.
func TestLimitsChangeWhileCallersWait(t *testing.T) {
	level := limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}
	set := func(limits ...limiter.Limit) func(*world) error {
		return func(w *world) error { return w.Store.SetLimits(w.Context(), level, limits) }
	}
	for name, tt := range map[string]struct {
		change func(*world) error
		want   error
		wait   time.Duration // of the refusal
	}{
		"lower than what is asked for": {set(limiter.PerHour("rph", 9)), limiter.ErrExceeded, limiter.Never},
		"a higher rate":                {set(limiter.PerHour("rph", 36_000)), nil, 0},
		"another limit":                {set(limiter.PerHour("tph", 10)), limiter.ErrNotConfigured, 0},
		"none":                         {func(w *world) error { return w.Store.DeleteLimits(w.Context(), level) }, limiter.ErrNotConfigured, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.Must(set(limiter.PerHour("rph", 60))(w))
				w.Take(w.Limiter, ask("user", "rph", 60))
				time.Sleep(time.Second)
				begun := time.Now()
				var all sync.WaitGroup
				all.Go(func() {
					for i, got := range w.waits(w.Limiter, w.Context(), ask("user", "rph", 10), ask("user", "rph", 10), ask("user", "rph", 11)) {
						if !errors.Is(got.err, tt.want) {
							w.Errorf("caller %d: %v", i, got.err)
						}
						if refused := (*limiter.ExceededError)(nil); errors.As(got.err, &refused) && refused.RetryAfter() != tt.wait {
							w.Errorf("caller %d: %v", i, got.err)
						}
					}
				})
				time.Sleep(time.Second)
				w.Must(tt.change(w))
				w.InvalidateConfig()
				all.Wait()
				if took := time.Since(begun); took > time.Minute {
					w.Errorf("the callers waited %v", took)
				}
			})
		})
	}
}

// An outage ends the wait of the caller that tries, with its error, and the others wait on. If
// the request allows it, all get degraded leases at once.
func TestTheStoreFailsWhileCallersWait(t *testing.T) {
	for _, allow := range []bool{false, true} {
		t.Run(fmt.Sprint("allow ", allow), func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				var outage faults.Slot
				l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, outage.Apply)), limiter.Options{})
				w.System(limiter.PerMinute("tpm", 60))
				w.Take(l, ask("user", "tpm", 60))
				req := ask("user", "tpm", 5)
				if req.OnUnavailable = limiter.Block; allow {
					req.OnUnavailable = limiter.Allow
				}
				var got []waited
				var all sync.WaitGroup
				all.Go(func() { got = w.waits(l, w.Context(), req, req, req) })
				time.Sleep(4500 * time.Millisecond)
				outage.Set(faults.Fail(errors.New("connection reset")))
				time.Sleep(4 * time.Second) // longer than a write is sent again
				if allow {
					time.Sleep(8 * time.Second) // for each caller
				}
				outage.Set(nil)
				all.Wait()
				for i, c := range got {
					switch {
					case allow && (c.err != nil || !c.lease.Degraded()):
						w.Errorf("caller %d: %v, not degraded", i, c.err)
					case !allow && i == 0 && !errors.Is(c.err, limiter.ErrUnavailable):
						w.Errorf("the caller that tried: %v", c.err)
					case !allow && i > 0 && (c.err != nil || c.lease.Degraded()):
						w.Errorf("caller %d: %v", i, c.err)
					}
				}
				if took := got[2].took.Round(time.Second); !allow && took != 10*time.Second {
					w.Errorf("the last one was admitted after %v", took)
				}
			})
		})
	}
}
