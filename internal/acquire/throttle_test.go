package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// tapped runs f with a limiter on an engine behind a tap.
func tapped(t *testing.T, o limiter.Options, f func(w *world, api *faults.Tap)) {
	t.Helper()
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		api := faults.NewTap(w.Engine)
		w.Store = w.OpenOn(api)
		w.Limiter = w.NewLimiter(w.Store, o)
		w.System(hourly)
		f(w, api)
	})
}

// only marks the given shards as full.
func only(err func() error, shards ...int) func(int) error {
	return func(shard int) error {
		if slices.Contains(shards, shard) {
			return err()
		}
		return nil
	}
}

// slowly delays the answers that are errors.
func slowly(d time.Duration) faults.Hook {
	return faults.After(func(_ *faults.Call, err error) error {
		if err != nil {
			time.Sleep(d)
		}
		return err
	})
}

func TestAThrottledShardIsLeftForAnother(t *testing.T) {
	for name, err := range map[string]func() error{"busy table": faults.BusyTable, "hot partition": faults.HotPartition} {
		t.Run(name, func(t *testing.T) {
			tapped(t, limiter.Options{}, func(w *world, api *faults.Tap) {
				w.plant("user", hourly, 4, each(4, 900_000)...)
				w.Take(w.Limiter, ask("user", "rph", 1))
				w.survey(w.Limiter, "user", hourly)
				bucketRequests(api)
				api.Set(fullShards(only(err, 1, 2)))
				start := time.Now()
				for range 100 {
					w.Serve(w.Limiter, ask("user", "rph", 1))
				}
				if d := time.Since(start); d != 0 {
					w.Errorf("others were tried after %v, want at once", d)
				}
				throttled := 0
				for _, s := range bucketRequests(api) {
					if s.Op == "UpdateItem" && (s.Shards[0] == 1 || s.Shards[0] == 2) {
						throttled++
					}
				}
				if throttled == 0 || throttled > 2 {
					w.Errorf("throttled shards were written to %d times at one instant, want once each at most", throttled)
				}
				if got := w.Stats().Throttled; got != uint64(throttled) {
					w.Errorf("%d were counted as throttled, want %d", got, throttled)
				}
			})
		})
	}
}

// hammer has callers acquire every 10 ms for ten seconds; all are refused. It returns when each shard
// was written to, after the beginning.
func (w *world) hammer(api *faults.Tap, callers int) map[int][]time.Duration {
	w.Helper()
	bucketRequests(api)
	start := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ; time.Since(start) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
				if _, err := w.Acquire(w.Context(), ask("user", "rph", 1)); !errors.Is(err, limiter.ErrThrottled) || !errors.Is(err, limiter.ErrUnavailable) {
					w.Errorf("got %v", err)
				}
			}
		})
	}
	all.Wait()
	writes := make(map[int][]time.Duration)
	for _, s := range bucketRequests(api) {
		if s.Op == "UpdateItem" {
			writes[s.Shards[0]] = append(writes[s.Shards[0]], s.At.Sub(start))
		}
	}
	return writes
}

// A throttled shard is written to once in an interval that doubles, up to a second, for
// any number of callers.
func TestAThrottledShardIsNotHammered(t *testing.T) {
	for _, tt := range []struct{ shards, callers, inFlight int }{{1, 1, 0}, {1, 8, 0}, {1, 8, -1}, {4, 1, 0}, {4, 8, 0}, {4, 8, -1}} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			tapped(t, limiter.Options{InFlight: tt.inFlight}, func(w *world, api *faults.Tap) {
				w.plant("user", hourly, tt.shards, each(tt.shards, int64(3_000_000/tt.shards))...)
				w.Take(w.Limiter, ask("user", "rph", 1))
				driverOf(w.Limiter).Settle()
				api.Set(faults.Chain(slowly(5*time.Millisecond), fullShards(func(int) error { return faults.BusyTable() })))

				writes := w.hammer(api, tt.callers)

				if len(writes) != tt.shards {
					w.Errorf("%d shards were tried", len(writes))
				}
				for shard, at := range writes {
					// The intervals are 10, 20, ... 640 ms and then a second. Each ends at a random
					// moment of its second half: at most 25 writes in 10 s. In addition, all the
					// callers of the first moment, before the throttle was known.
					if n := len(at); n < 10 || n > 25+tt.callers {
						w.Errorf("shard %d was written to %d times", shard, n)
					}
					for i := 1; i < len(at); i++ {
						if gap := at[i] - at[i-1]; at[i] > 3*time.Second && gap < 500*time.Millisecond {
							w.Errorf("shard %d was written to after %v, %v after the last time", shard, at[i], gap)
						}
					}
				}
				if got := w.Stats().Braked; got < uint64(tt.callers)*500 {
					w.Errorf("%d were counted as braked", got)
				}
			})
		})
	}
}

// Every answer halves the brake: a shard that is no longer throttled serves after some seconds.
func TestAThrottledShardServesAgain(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			tapped(t, limiter.Options{}, func(w *world, api *faults.Tap) {
				w.plant("user", hourly, shards, each(shards, int64(3_000_000/shards))...)
				api.Set(fullShards(func(int) error { return faults.BusyTable() }))
				w.hammer(api, 1)

				api.Set(nil)
				for over := time.Now().Add(3 * time.Second); time.Now().Before(over); time.Sleep(10 * time.Millisecond) {
					if lease, err := w.Acquire(w.Context(), ask("user", "rph", 1)); err == nil {
						w.Must(lease.Commit(w.Context()))
					}
				}

				for range 10 {
					w.Serve(w.Limiter, ask("user", "rph", 1))
				}
			})
		})
	}
}

// One shard of several is throttled for 5 s. Requests that need more than a share do
// not write to it more often either, and the other shards serve them.
func TestAThrottledShardIsNotHammeredByGathering(t *testing.T) {
	tapped(t, limiter.Options{}, func(w *world, api *faults.Tap) {
		w.plant("user", hourly, 4, 1_000_000, 600_000, 900_000, 900_000)
		w.survey(w.Limiter, "user", hourly)
		bucketRequests(api)
		api.Set(fullShards(only(faults.BusyTable, 0))) // the fullest
		start := time.Now()
		served, tries := 0, 0
		for ; time.Since(start) < 5*time.Second; time.Sleep(10 * time.Millisecond) {
			tries++
			lease, err := w.Acquire(w.Context(), ask("user", "rph", 1100))
			if errors.Is(err, limiter.ErrThrottled) {
				continue
			}
			w.Must(err)
			served++
			w.Must(lease.Rollback(w.Context()))
		}
		writes := 0
		for _, s := range bucketRequests(api) {
			if s.Op != "BatchGetItem" && slices.Contains(s.Shards, 0) {
				writes++
			}
		}
		if writes > 25 {
			w.Errorf("the throttled shard was written to %d times in 5 s", writes)
		}
		if served < tries*9/10 {
			w.Errorf("%d of %d requests were served, for which the other shards had enough", served, tries)
		}
		if got := w.Stats().Throttled; got != uint64(writes) {
			w.Errorf("%d were counted as throttled, want %d", got, writes)
		}
	})
}

// The only known shard is throttled. One read finds whether there are other shards.
func TestAnUnshardedBucketThatIsThrottledProbesForShards(t *testing.T) {
	t.Run("there are", func(t *testing.T) {
		tapped(t, limiter.Options{}, func(w *world, api *faults.Tap) {
			w.plant("user", hourly, 1, 2_000_000)
			w.Take(w.Limiter, ask("user", "rph", 1))
			driverOf(w.Limiter).Settle()
			w.doubleOf(w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{}), ask("user", "rph", 0)) // by another process
			api.Set(fullShards(only(faults.BusyTable, 0)))
			bucketRequests(api)
			start := time.Now()
			if refused := w.Take(w.Limiter, ask("user", "rph", 1)); refused != nil || time.Since(start) != 0 {
				w.Errorf("after %v: %v", time.Since(start), refused)
			}
			driverOf(w.Limiter).Settle()
			all := bucketRequests(api)
			if faults.Count(all, "BatchGetItem") != 1 || faults.Count(all, "UpdateItem") != 2 || len(all) != 3 {
				w.Errorf("%+v, want a write to shard 0, a read of shard 1, a write to shard 1", all)
			}
			for range 10 {
				w.Serve(w.Limiter, ask("user", "rph", 1))
			}
		})
	})
	t.Run("there are none", func(t *testing.T) {
		tapped(t, limiter.Options{}, func(w *world, api *faults.Tap) {
			w.plant("user", hourly, 1, 2_000_000)
			w.Take(w.Limiter, ask("user", "rph", 1))
			driverOf(w.Limiter).Settle()
			api.Set(fullShards(only(faults.BusyTable, 0)))
			bucketRequests(api)
			start := time.Now()
			for range 10 {
				_, err := w.Acquire(w.Context(), ask("user", "rph", 1))
				if !errors.Is(err, limiter.ErrThrottled) || !errors.Is(err, limiter.ErrUnavailable) {
					w.Errorf("got %v, want throttled and unavailable", err)
				}
			}
			if d := time.Since(start); d != 0 {
				w.Errorf("answered after %v, want at once", d)
			}
			all := bucketRequests(api)
			if faults.Count(all, "UpdateItem") != 1 || faults.Count(all, "BatchGetItem") != 1 {
				w.Errorf("%+v, want one write and one read", all)
			}
			req := ask("user", "rph", 1)
			req.OnUnavailable = limiter.Allow
			lease := w.Lease(w.Limiter, req)
			if !lease.Degraded() {
				w.Error("the lease is not degraded")
			}
			if got := w.Stats(); got.Throttled != 1 || got.Braked != 10 {
				w.Errorf("%d throttled, %d braked, want 1 and 10", got.Throttled, got.Braked)
			}
		})
	})
}

// A hot partition makes its bucket double in the background, at most four times a second,
// until the partition is no longer hot. The bucket never has more than 32 shards.
func TestLongAHotPartitionDoublesItsBucket(t *testing.T) {
	var log captured
	tapped(t, limiter.Options{Logger: slog.New(&log)}, func(w *world, api *faults.Tap) {
		w.plant("user", hourly, 1, 3_000_000)
		w.Take(w.Limiter, ask("user", "rph", 1))
		driverOf(w.Limiter).Settle()
		// Every partition takes 15 writes in a tenth of a second.
		var mu sync.Mutex
		tenth, writes := time.Now(), make(map[int]int)
		hot := func(shard int) error {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(tenth) >= 100*time.Millisecond {
				tenth, writes = time.Now(), make(map[int]int)
			}
			if writes[shard]++; writes[shard] > 15 {
				return faults.HotPartition()
			}
			return nil
		}
		api.Set(fullShards(hot))
		start := time.Now()
		doubled := make(map[int]time.Duration)
		served := 0
		for i := 0; time.Since(start) < 6*time.Second; i++ {
			lease, err := w.Acquire(w.Context(), ask("user", "rph", 0))
			if err == nil {
				served++
				w.Must(lease.Commit(w.Context()))
			} else if !errors.Is(err, limiter.ErrThrottled) {
				w.Fatal(err)
			}
			time.Sleep(200 * time.Microsecond)
			if i%250 > 0 {
				continue
			}
			if n := len(w.Images("user")); doubled[n] == 0 {
				doubled[n] = time.Since(start)
			}
		}
		if got := w.count(); got != limiter.MaxShards {
			w.Errorf("%d shards, after %v", got, doubled)
		}
		for n := 4; n <= limiter.MaxShards; n *= 2 {
			if gap := doubled[n] - doubled[n/2]; gap < 250*time.Millisecond {
				w.Errorf("%d shards came %v after %d", n, gap, n/2)
			}
		}
		if got := w.Stats().Doublings; got != 5 {
			w.Errorf("%d doublings were counted, want 5", got)
		}
		// If all 32 shards run short of writes, there are no more doublings.
		api.Set(nil)
		time.Sleep(2 * memory.MaxBrake) // the last throttles are forgotten
		var failed atomic.Pointer[error]
		for range 3 {
			w.exhaust("user", -1_000_000_000)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					if _, err := w.Acquire(w.Context(), ask("user", "rph", 0)); err != nil {
						failed.Store(&err)
					}
				})
			}
			time.Sleep(50 * time.Millisecond)
			w.exhaust("user", 1_000_000)
			all.Wait()
			time.Sleep(2 * time.Second)
		}
		if got := w.count(); got != limiter.MaxShards {
			w.Errorf("%d shards", got)
		}
		if err := failed.Load(); err != nil {
			w.Errorf("a caller who had to wait was not served: %v", *err)
		}
		warnings := log.warnings()
		if len(warnings) != 1 || warnings[0].Entity != "user" || warnings[0].Resource != "gpt-4" {
			w.Errorf("warned %d times: %v", len(warnings), warnings)
		}
	})
}

// captured is a log handler that keeps the warnings of saturated buckets.
type captured struct {
	mu  sync.Mutex
	all []limiter.SaturatedWarning
}

func (c *captured) Enabled(context.Context, slog.Level) bool { return true }
func (c *captured) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *captured) WithGroup(string) slog.Handler            { return c }

func (c *captured) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if warning, ok := a.Value.Any().(limiter.SaturatedWarning); ok && a.Key == "warning" {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.all = append(c.all, warning)
		}
		return true
	})
	return nil
}

func (c *captured) warnings() []limiter.SaturatedWarning {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// A refund that the store throttles is sent again. It was not applied, so sending it
// again is safe. With peer defect 7.25, its tokens are lost.
func TestACompensationThatIsThrottledIsMadeGood(t *testing.T) {
	for _, who := range []string{"the parent refuses", "the caller leaves"} {
		t.Run(who, func(t *testing.T) {
			inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 10 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
				w.family(limiter.PerDay("rph", 4000)) // so that nothing is earned meanwhile
				api := faults.NewTap(w.Engine)
				l := w.NewLimiter(w.OpenOn(api), limiter.Options{Trust: -1})
				w.Take(l, ask("key", "rph", 1))
				left := 3999
				if who == "the parent refuses" {
					w.Take(w.Limiter, ask("project", "rph", 3995))
				}
				// The takes are applied, and later writes are throttled for a while.
				start := time.Now()
				api.Set(fullShards(func(int) error {
					if d := time.Since(start); d > 2*time.Millisecond && d < 300*time.Millisecond {
						return faults.BusyTable()
					}
					return nil
				}))
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				if who == "the caller leaves" {
					time.AfterFunc(5*time.Millisecond, cancel)
				}
				if _, err := l.Acquire(ctx, ask("key", "rph", 10)); err == nil {
					w.Fatal("acquired")
				}
				driverOf(l).Settle()
				time.Sleep(time.Second)
				w.holds("key", "rph", left)
			})
		})
	}
}
