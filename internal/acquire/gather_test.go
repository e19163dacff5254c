package acquire_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// balances returns what each shard of the user's bucket holds at its stamp, in tokens.
func (w *world) balances() []float64 {
	w.Helper()
	var held []float64
	for _, img := range w.Images("user") {
		s, _ := img.Limit("rph")
		held = append(held, float64(s.Tokens)/1000)
	}
	return held
}

// used returns the count of consumed tokens over all shards.
func (w *world) used() (tokens int64) {
	w.Helper()
	for _, img := range w.Images("user") {
		s, _ := img.Limit("rph")
		tokens += s.Consumed
	}
	return tokens / 1000
}

// hourly has a capacity of 4,000: on four shards, a thousand tokens each. In the time
// that a test takes, nothing is earned.
var hourly = limiter.PerHour("rph", 4000)

func onFourShards(t *testing.T, balances []int64, f func(*world)) {
	t.Helper()
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 4, balances...)
		f(w)
	})
}

func TestALeaseOfSeveralShardsIsReturnedToThem(t *testing.T) {
	for _, tt := range []struct {
		name   string
		adjust []int64
		commit bool
		left   int64
	}{
		{"commit", nil, true, 1300},
		{"down", []int64{-1000}, true, 2300},
		{"down to nothing", []int64{-2700}, true, 4000},
		{"up and down", []int64{200, -1200}, true, 2300},
		{"roll back", nil, false, 4000},
		{"roll back an adjusted one", []int64{500}, false, 4000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFourShards(t, each(4, 1_000_000), func(w *world) {
				lease := w.Lease(w.Limiter, ask("user", "rph", 2700))
				w.holds("user", "rph", 1300)
				want := int64(2700)
				for _, d := range tt.adjust {
					w.Must(lease.Adjust("rph", d))
					want += d
				}
				if diff := cmp.Diff(map[string]int64{"rph": want}, lease.Consumed()); diff != "" {
					w.Errorf("consumed (-want +got):\n%s", diff)
				}
				settle := lease.Rollback
				if tt.commit {
					settle = lease.Commit
				}
				w.Must(settle(w.Context()))
				w.Must(settle(w.Context()))
				w.Must(lease.Rollback(w.Context()))
				if got := w.total() / 1000; got != tt.left {
					w.Errorf("%d are left, want %d: %v", got, tt.left, w.balances())
				}
				if got := w.used(); got != 4000-tt.left {
					w.Errorf("%d count as consumed, want %d", got, 4000-tt.left)
				}
				for i, b := range w.balances() {
					if b > 1000 {
						w.Errorf("shard %d holds %v, more than its share", i, b)
					}
				}
			})
		})
	}
}

// The other shards pay what one shard lacks. No shard admits a request while the whole
// bucket is in debt.
func TestAnAdjustmentIsPaidByAllShards(t *testing.T) {
	for _, tt := range []struct {
		more, left int64
		seen       bool // all shards were read a moment ago
	}{{5, 34, true}, {25, 14, true}, {25, 14, false}, {39, 0, true}, {39, 0, false}, {100, -61, true}, {100, -61, false}} {
		t.Run(fmt.Sprintf("%d more, all seen: %v", tt.more, tt.seen), func(t *testing.T) {
			onFourShards(t, each(4, 10_000), func(w *world) {
				if tt.seen {
					w.survey(w.Limiter, "user", hourly)
				}
				lease := w.Lease(w.Limiter, ask("user", "rph", 1))
				w.Must(lease.Adjust("rph", tt.more))
				w.Must(lease.Commit(w.Context()))
				w.Must(lease.Commit(w.Context()))
				if got := w.total() / 1000; got != tt.left {
					w.Errorf("%d are left, want %d", got, tt.left)
				}
				for i, b := range w.balances() {
					if b < 0 && tt.left >= 0 || b > 0 && tt.left <= 0 {
						w.Errorf("shard %d holds %v while the whole has %d", i, b, tt.left)
					}
				}
				for range 8 {
					refused := w.Take(w.NewLimiter(w.Store, limiter.Options{}), ask("user", "rph", max(1, tt.left+1)))
					if refused == nil {
						w.Fatalf("served %d of %d", max(1, tt.left+1), tt.left)
					}
					if got := refused.Statuses[0].Available; got != tt.left {
						w.Errorf("the refusal quotes %d, want %d", got, tt.left)
					}
				}
			})
		})
	}
}

// A commit that returns tokens to several shards fails at one of them. The lease stays
// open, can be adjusted again, and is then settled exactly.
func TestAnAdjustedLeaseOfSeveralShardsThatFailsHalfWay(t *testing.T) {
	for _, then := range []string{"commit", "roll back"} {
		t.Run(then, func(t *testing.T) {
			inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
				w.System(hourly)
				w.plant("user", hourly, 4, each(4, 1_000_000)...)
				api := faults.NewTap(w.Engine)
				l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
				lease := w.Lease(l, ask("user", "rph", 2700))
				w.Must(lease.Adjust("rph", -2700))
				full := w.Images("user")[0].Shard
				for i, b := range w.balances() {
					if b < 1000 {
						full = i // the last that was debited
					}
				}
				api.Set(fullShards(func(shard int) error {
					if shard == full {
						return faults.BusyTable()
					}
					return nil
				}))
				if err := lease.Commit(w.Context()); !errors.Is(err, limiter.ErrThrottled) {
					w.Errorf("committed half: %v, want throttled", err)
				}
				if err := lease.Adjust("rph", 0); err != nil {
					w.Errorf("the lease is not open: %v", err)
				}
				w.Must(lease.Adjust("rph", 700))
				if got := lease.Consumed()["rph"]; got != 700 {
					w.Errorf("consumed %d, want 700", got)
				}
				api.Set(nil)
				want := int64(3300)
				if then == "commit" {
					w.Must(lease.Commit(w.Context()))
				} else {
					w.Must(lease.Rollback(w.Context()))
					want = 4000
				}
				if got := w.total() / 1000; got != want {
					w.Errorf("%d are left, want %d", got, want)
				}
				if err := lease.Adjust("rph", 1); !errors.Is(err, limiter.ErrLeaseClosed) {
					w.Errorf("the lease is not closed: %v", err)
				}
			})
		})
	}
}

// A lease from before a doubling is returned in full. The shard it was debited from may
// lack room for all of it, and the other shards take the rest.
func TestALeaseIsReturnedWholeAfterADoubling(t *testing.T) {
	inEachWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(hourly)
		lease := w.Lease(w.Limiter, ask("user", "rph", 3000))
		w.double(w.Limiter, "rph") // takes one
		w.Must(lease.Rollback(w.Context()))
		if got := w.total() / 1000; got != 3999 {
			w.Errorf("%d of 3999 are there after the return of 3000: %v", got, w.balances())
		}
	})
}

// A cascade debits several limits all or none, although one of them needs several
// shards.
func TestSeveralLimitsAreGatheredAllOrNone(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("rph", 1000), limiter.PerDay("tpd", 80_000))
		w.Take(w.Limiter, askAll("key", tokens{"rph": 1, "tpd": 100}))
		for range 3 {
			for _, entity := range []string{"key", "project"} {
				w.doubleOf(w.Limiter, ask(entity, "rph", 0))
			}
			time.Sleep(1001 * time.Millisecond)
		}
		if len(w.Images("key")) != 8 || len(w.Images("project")) != 8 {
			w.Fatalf("%d and %d shards, want 8", len(w.Images("key")), len(w.Images("project")))
		}
		before := w.Balance("project", "tpd")
		lease := w.Lease(w.Limiter, askAll("key", tokens{"rph": 1, "tpd": 30_000}))
		if got := w.Balance("project", "tpd"); got != before-30_000 {
			w.Errorf("the project has %d, want %d", got, before-30_000)
		}
		w.Take(w.Limiter, ask("project", "tpd", 40_000))
		keys, projects := w.Balance("key", "tpd"), w.Balance("project", "tpd")
		refused := w.Take(w.Limiter, askAll("key", tokens{"rph": 1, "tpd": 20_000}))
		if refused == nil {
			w.Fatal("the project served more than it has")
		}
		for _, s := range refused.Statuses {
			if s.Exceeded != (s.Entity == "project" && s.Limit.Name == "tpd") {
				w.Errorf("status %+v", s)
			}
		}
		if k, p := w.Balance("key", "tpd"), w.Balance("project", "tpd"); k != keys || p != projects {
			w.Errorf("a refusal moved balances by %d and %d", k-keys, p-projects)
		}
		w.Must(lease.Rollback(w.Context()))
		if got := w.Balance("key", "tpd"); got != keys+30_000 {
			w.Errorf("the key has %d after a rollback, want %d", got, keys+30_000)
		}
	})
}

// Callers decided together on all shards have the time of the call, and not what is left to
// the one at the front.
func TestTheTimeOfAGatheringIsNotItsLeaders(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1, Timeout: 4 * time.Second, Trust: time.Minute}, func(w *far) {
		w.System(hourly)
		w.plant("user", hourly, 4, each(4, 900_000)...)
		w.survey(w.l, "user", hourly)
		w.wire.wait = 3 * time.Second
		var all [3]error
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() { all[i] = errOf(w.l.Acquire(w.Context(), ask("user", "rph", 1000))) })
			time.Sleep(1400 * time.Millisecond)
		}
		wg.Wait()
		for i, err := range all { // the second leads from 3 s to 6 s, and has its answer at 5.4 s
			if late := i == 1; late != errors.Is(err, limiter.ErrUnavailable) || !late && err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		}
	})
}

// A request that others got in the way of once looks and tries again without a pause.
func TestAGatheringIsRepeatedAtOnce(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 4, each(4, 900_000)...)
		l := w.NewLimiter(w.Store, limiter.Options{Trust: time.Minute})
		w.survey(l, "user", hourly)
		w.Take(w.Limiter, ask("user", "rph", 2000))
		before, start := w.requests(), time.Now()
		w.Must(errOf(l.Acquire(w.Context(), ask("user", "rph", 1500))))
		if n, took := w.requests()-before, time.Since(start); n != 3 || took != 0 {
			w.Errorf("%d requests in %v, want a refused transaction, a read and a transaction at once", n, took)
		}
	})
}
