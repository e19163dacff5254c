package acquire_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

func TestSettleSetsWhatWasUsed(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("tph", 1000))
		for _, tt := range []struct {
			change func(*limiter.Lease) error
			left   int
		}{
			{func(l *limiter.Lease) error { return l.Settle("tph", 100) }, 900},
			{func(l *limiter.Lease) error { return l.Settle("tph", 250) }, 650},
			{func(l *limiter.Lease) error {
				return errors.Join(l.Adjust("tph", 9), l.Settle("tph", 40), l.Adjust("tph", 10))
			}, 600},
			{func(l *limiter.Lease) error {
				return errors.Join(l.Take(w.Context(), tokens{"tph": 30}), l.Settle("tph", 0))
			}, 600},
		} {
			lease := w.Lease(w.Limiter, ask("key", "tph", 200))
			w.Must(tt.change(lease))
			for _, used := range []int64{-1, limiter.MaxTokens + 1} {
				if err := lease.Settle("tph", used); !errors.Is(err, limiter.ErrInvalid) {
					w.Errorf("settle %d: %v", used, err)
				}
			}
			if err := lease.Settle("rph", 1); !errors.Is(err, limiter.ErrInvalid) {
				w.Errorf("settle a limit that was not named: %v", err)
			}
			w.Must(lease.Commit(w.Context()))
			if err := lease.Settle("tph", 1); !errors.Is(err, limiter.ErrLeaseClosed) {
				w.Errorf("settle a closed lease: %v", err)
			}
			w.holds("key", "tph", tt.left, "project", "tph", tt.left)
		}
	})
}

// What a lease takes more is enforced, and then a part of the lease.
func TestALeaseTakesMore(t *testing.T) {
	for _, commits := range []bool{true, false} {
		inWorldOf(t, commits, func(w *world) {
			w.family(limiter.PerHour("rph", 10), limiter.PerHour("tph", 1000))
			lease := w.Lease(w.Limiter, ask("key", "tph", 200))
			w.Must(lease.Take(w.Context(), tokens{"tph": 300}))
			w.Must(lease.Take(w.Context(), tokens{"rph": 2, "tph": 0}))
			err := lease.Take(w.Context(), tokens{"tph": 501, "rph": 1})
			if refused, ok := errors.AsType[*limiter.ExceededError](err); !ok || refused.RetryAfter() != 3600*time.Millisecond {
				w.Errorf("501 of 500: %v", err)
			}
			for _, bad := range []tokens{nil, {"tph": -1}, {"tph": limiter.MaxTokens}} {
				if err := lease.Take(w.Context(), bad); !errors.Is(err, limiter.ErrInvalid) {
					w.Errorf("take %v: %v", bad, err)
				}
			}
			if diff := cmp.Diff(tokens{"tph": 500, "rph": 2}, lease.Consumed()); diff != "" {
				w.Errorf("consumed (-want +got):\n%s", diff)
			}
			w.holds("key", "tph", 500, "project", "tph", 500, "key", "rph", 8, "project", "rph", 8)
			w.Must(lease.Adjust("tph", -50))
			w.Must(lease.Adjust("rph", -1))
			if commits {
				w.Must(lease.Commit(w.Context()))
				w.holds("key", "tph", 550, "project", "tph", 550, "key", "rph", 9, "project", "rph", 9)
			} else {
				w.Must(lease.Rollback(w.Context()))
				w.holds("key", "tph", 1000, "project", "tph", 1000, "key", "rph", 10, "project", "rph", 10)
			}
			if err := lease.Take(w.Context(), tokens{"tph": 1}); !errors.Is(err, limiter.ErrLeaseClosed) {
				w.Errorf("take more on a closed lease: %v", err)
			}
		})
	}
}

// inWorldOf is inWorld in a subtest for one case.
func inWorldOf(t *testing.T, commits bool, f func(*world)) {
	t.Helper()
	name := "rolled back"
	if commits {
		name = "committed"
	}
	t.Run(name, func(t *testing.T) { inWorld(t, limiter.Options{}, f) })
}

// A part of several shards' tokens is returned to them.
func TestALeaseOfSeveralShardsTakesMore(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("tph", 1000))
		w.Take(w.Limiter, ask("user", "tph", 0))
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", testbed.Resource)
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", testbed.Resource)
		lease := w.Lease(w.Limiter, ask("user", "tph", 600))
		w.Must(lease.Take(w.Context(), tokens{"tph": 300}))
		w.Must(lease.Take(w.Context(), tokens{"tph": 1}))
		w.Must(lease.Release(w.Context(), tokens{"tph": 400}))
		w.holds("user", "tph", 499)
		w.Must(lease.Rollback(w.Context()))
		w.holds("user", "tph", 1000)
	})
}

func TestALeaseReleasesAPart(t *testing.T) {
	for _, commits := range []bool{true, false} {
		inWorldOf(t, commits, func(w *world) {
			w.family(limiter.PerHour("rph", 10), limiter.PerHour("tph", 1000))
			lease := w.Lease(w.Limiter, askAll("key", tokens{"rph": 1, "tph": 600}))
			for limit, n := range map[string]int64{"tph": 601, "rpd": 1, "rph": -1} {
				if err := lease.Release(w.Context(), tokens{limit: n}); !errors.Is(err, limiter.ErrInvalid) {
					w.Errorf("release %d %s: %v", n, limit, err)
				}
			}
			w.Must(lease.Release(w.Context(), tokens{"tph": 100}))
			w.holds("key", "tph", 500, "project", "tph", 500)
			w.Must(lease.Adjust("tph", 50))
			w.Must(lease.Release(w.Context(), tokens{"tph": 300}))
			w.holds("key", "tph", 750, "project", "tph", 750, "key", "rph", 9)
			if commits {
				w.Must(lease.Commit(w.Context()))
				w.holds("key", "tph", 750, "project", "tph", 750, "key", "rph", 9)
			} else {
				w.Must(lease.Rollback(w.Context()))
				w.holds("key", "tph", 1000, "project", "tph", 1000, "key", "rph", 10)
			}
			if err := lease.Release(w.Context(), tokens{"tph": 1}); !errors.Is(err, limiter.ErrLeaseClosed) {
				w.Errorf("release of a closed lease: %v", err)
			}
		})
	}
}

// However takes, releases, adjustments and the end of a lease overlap, the store has
// debited in the end what the lease says, or nothing after a rollback.
func TestCallsOnALeaseOverlap(t *testing.T) {
	for _, commits := range []bool{true, false} {
		t.Run(map[bool]string{true: "committed", false: "rolled back"}[commits], func(t *testing.T) {
			t.Parallel()
			for at := range 40 {
				inBubble(t, testbed.Options{Remote: true}, func(w *world) {
					l := w.NewLimiter(w.OpenOn(newWire(w.Meter, 10*time.Millisecond).api), limiter.Options{})
					w.family(limiter.PerDay("tpd", 1000))
					lease := w.Lease(l, ask("key", "tpd", 100))
					var all sync.WaitGroup
					for i := range 8 {
						all.Go(func() {
							time.Sleep(time.Duration(at*i) * time.Millisecond)
							if err := lease.Take(w.Context(), tokens{"tpd": 20}); err != nil && !errors.Is(err, limiter.ErrLeaseClosed) {
								w.Error(err)
							}
							_ = lease.Adjust("tpd", 3) // or it is closed
							if err := lease.Release(w.Context(), tokens{"tpd": 10}); err != nil && !errors.Is(err, limiter.ErrLeaseClosed) {
								w.Error(err)
							}
						})
					}
					time.Sleep(time.Duration(at) * time.Millisecond)
					if commits {
						w.Must(lease.Commit(w.Context()))
					} else {
						w.Must(lease.Rollback(w.Context()))
					}
					all.Wait()
					driverOf(l).Settle()
					left := 1000
					if commits {
						left -= int(lease.Consumed()["tpd"])
					}
					w.holds("key", "tpd", left, "project", "tpd", left)
				})
			}
		})
	}
}

// A limiter that is closed leaves a lease as it is.
func TestTakeAndReleaseAfterClose(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("tph", 1000))
		l := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{})
		lease := w.Lease(l, ask("user", "tph", 100))
		w.Must(l.Close())
		for name, err := range map[string]error{
			"take":    lease.Take(w.Context(), tokens{"tph": 1}),
			"release": lease.Release(w.Context(), tokens{"tph": 1}),
		} {
			if !errors.Is(err, limiter.ErrClosed) {
				w.Errorf("%s: %v", name, err)
			}
		}
		if got := lease.Consumed()["tph"]; got != 100 {
			w.Errorf("the lease has %d", got)
		}
		w.Must(lease.Commit(w.Context()))
	})
}

// A caller that leaves a take has taken nothing more; the lease goes on.
func TestACallerLeavesATake(t *testing.T) {
	inBubble(t, testbed.Options{Remote: true}, func(w *world) {
		l := w.NewLimiter(w.OpenOn(newWire(w.Meter, 10*time.Millisecond).api), limiter.Options{})
		w.System(limiter.PerDay("tpd", 1000))
		lease := w.Lease(l, ask("user", "tpd", 100))
		ctx, cancel := context.WithTimeout(w.Context(), 3*time.Millisecond)
		defer cancel()
		if err := lease.Take(ctx, tokens{"tpd": 50}); err == nil {
			w.Error("took more in no time")
		}
		driverOf(l).Settle()
		w.holds("user", "tpd", 900)
		w.Must(lease.Commit(w.Context()))
		w.holds("user", "tpd", 900)
	})
}

// A take of a lease that is closed meanwhile returns what it took, within its own time: the
// time of the take and that of the return do not add up.
func TestATakeReturnsInTime(t *testing.T) {
	inBubble(t, testbed.Options{Remote: true}, func(w *world) {
		tap := faults.NewTap(w.Meter)
		l := w.NewLimiter(w.OpenOn(tap), limiter.Options{Timeout: 4 * time.Second})
		w.System(limiter.PerDay("tpd", 1000))
		lease := w.Lease(l, ask("user", "tpd", 100))
		var writes atomic.Int64
		tap.Set(func(ctx context.Context, c *faults.Call, next faults.Next) error {
			if writes.Add(1) == 1 {
				return faults.Latency(400*time.Millisecond)(ctx, c, next)
			}
			return faults.Hang(ctx, c, next)
		})
		time.AfterFunc(200*time.Millisecond, func() { w.Check(lease.Commit(w.Context())) })
		began := time.Now()
		err := lease.Take(w.Context(), tokens{"tpd": 50})
		if took := time.Since(began); took > 4*time.Second || writes.Load() < 2 || !errors.Is(err, limiter.ErrLeaseClosed) || !errors.Is(err, limiter.ErrUnavailable) {
			w.Errorf("after %v and %d writes: %v", took, writes.Load(), err)
		}
	})
}

// A degraded lease takes and releases without the store. A take of a metered lease does
// not fall back to that.
func TestTakeAndReleaseInAnOutage(t *testing.T) {
	inEachWorld(t, limiter.Options{Timeout: time.Second}, func(w *world) {
		w.Must(w.Store.SetSystem(w.Context(), []limiter.Limit{limiter.PerDay("tpd", 1000)}, limiter.Allow))
		down := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(down), limiter.Options{Timeout: time.Second, ConfigTTL: time.Hour})
		lease := w.Lease(l, ask("user", "tpd", 100))
		down.Set(faults.Fail(faults.BusyTable()))
		if err := lease.Take(w.Context(), tokens{"tpd": 50}); !errors.Is(err, limiter.ErrUnavailable) {
			w.Errorf("take more in an outage: %v", err)
		}
		degraded := w.Lease(l, ask("user", "tpd", 100))
		if !degraded.Degraded() {
			w.Fatal("the lease is metered")
		}
		w.Must(degraded.Take(w.Context(), tokens{"tpd": 50, "rpd": 1}))
		w.Must(degraded.Release(w.Context(), tokens{"tpd": 120}))
		w.Must(degraded.Settle("tpd", 5))
		w.Must(degraded.Commit(w.Context()))
		down.Set(nil)
		driverOf(l).Settle()
		w.Must(lease.Commit(w.Context()))
		w.holds("user", "tpd", 900)
	})
}
