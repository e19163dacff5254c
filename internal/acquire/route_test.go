package acquire_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// plant writes shards of a bucket with one limit, as another client would. It writes
// one shard for each balance, in millitokens. The remaining shards are absent.
func (w *world) plant(entity string, l limiter.Limit, count int, balances ...int64) {
	w.Helper()
	for i, tokens := range balances {
		if tokens != missing {
			w.plantShard(entity, l, i, count, tokens)
		}
	}
}

const missing int64 = -1 << 62

// plantedWrites is the count of a planted shard's hidden write limit: the third write
// takes it beyond 64 bits.
const plantedWrites = math.MaxInt64 - 1500

func (w *world) plantShard(entity string, l limiter.Limit, shard, count int, tokens int64) {
	w.Helper()
	now := time.Now().UnixMilli()
	limit := func(name string, capacity, tokens int64) store.NewLimit {
		return store.NewLimit{NamedParams: store.NamedParams{Limit: name, Params: store.Params{
			Capacity: capacity * 1000, Amount: capacity * 1000, Period: l.Period.Milliseconds(),
		}}, Tokens: tokens}
	}
	c := &store.Create{
		Bucket: limiter.Bucket{Entity: entity, Resource: "gpt-4", Shard: shard}, Now: now, ShardCount: count,
		ExpiresAt: now/1000 + 1_000_000,
	}
	n := limit(l.Name, l.Capacity, tokens)
	n.Amount = l.Amount * 1000
	c.Limits = []store.NewLimit{n}
	c.Writes = limit("wcu", 1000, 1_000_000)
	c.Writes.Period, c.Writes.Consumed = 1000, plantedWrites
	out, err := w.Store.Create(w.Context(), c)
	w.Must(err)
	if !out.Applied {
		w.Fatalf("shard %d is there already", shard)
	}
}

// each returns the same balance for n shards.
func each(n int, tokens int64) []int64 { return slices.Repeat([]int64{tokens}, n) }

// survey makes a limiter read every shard, by a request that is refused.
func (w *world) survey(l *limiter.Limiter, entity string, whole limiter.Limit) {
	w.Helper()
	if w.Take(l, ask(entity, whole.Name, whole.Capacity)) == nil {
		w.Fatal("a survey took something")
	}
	driverOf(l).Settle()
}

// total returns the sum of all shards' balances of the user's bucket at their stamps,
// in millitokens.
func (w *world) total() (sum int64) {
	w.Helper()
	for _, img := range w.Images("user") {
		s, _ := img.Limit("rph")
		sum += s.Tokens
	}
	return sum
}

func TestAShardKnownToBeShortIsNotDrawn(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		whole := limiter.PerHour("rph", 8000)
		w.System(whole)
		balances := each(8, 0)
		balances[5] = 500_000
		w.plant("user", whole, 8, balances...)
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		w.survey(l, "user", whole)
		bucketRequests(api)
		for range 20 {
			w.Serve(l, ask("user", "rph", 5))
		}
		for _, s := range bucketRequests(api) {
			if s.Op != "UpdateItem" || !slices.Equal(s.Shards, []int{5}) {
				w.Errorf("%s of shards %v", s.Op, s.Shards)
			}
		}
	})
}

// A request is served even if only one of many shards has the tokens. With peer defect
// 7.8, it is refused after three shards although a fourth one could serve it.
func TestOneShardHoldsEverything(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		whole := limiter.PerHour("rph", 8000)
		w.System(whole)
		balances := each(8, 0)
		balances[6] = 60_000
		w.plant("user", whole, 8, balances...)
		for i := range 60 {
			// Each limiter is a new process.
			l := w.NewLimiter(w.Store, limiter.Options{})
			if refused := w.Take(l, ask("user", "rph", 1)); refused != nil {
				w.Fatalf("request %d of 60: %v", i+1, refused)
			}
		}
		refused := w.Take(w.Limiter, ask("user", "rph", 1))
		if refused == nil || refused.RetryAfter() > 450*time.Millisecond {
			w.Errorf("a token of 8000 an hour: %v, want 450ms at most", refused)
		}
	})
}

// A request retries at most twice, on other shards, and only then uses all shards
// together. This holds for both sides of a cascade.
func TestNoMoreThanTwoRetries(t *testing.T) {
	for _, n := range []int{2, 4, 8, 32} {
		for _, trust := range []time.Duration{limiter.DefaultTrust, -1} {
			t.Run(fmt.Sprintf("%d shards, trust %v", n, trust), func(t *testing.T) {
				inEachWorld(t, limiter.Options{}, func(w *world) {
					whole := limiter.PerHour("rph", 3200)
					w.family(whole)
					for _, entity := range []string{"key", "project"} {
						w.plant(entity, whole, n, each(n, 2_900)...)
					}
					// Planted shards have no owner. The first client that reads a shard
					// stamps the owner on it.
					var shard atomic.Int64 // work in the background draws too
					first := w.NewLimiter(w.Store, limiter.Options{Rand: func(n int64) int64 { return min(shard.Load(), n-1) }})
					for ; shard.Load() < int64(n); shard.Add(1) {
						w.Take(first, ask("key", "rph", 0))
					}
					driverOf(first).Settle()
					api := faults.NewTap(w.Engine)
					l := w.NewLimiter(w.OpenOn(api), limiter.Options{Trust: trust})
					w.Serve(l, ask("project", "rph", 1))
					w.Serve(l, ask("key", "rph", 1))
					driverOf(l).Settle()
					bucketRequests(api)
					lease, err := l.Acquire(w.Context(), ask("key", "rph", 3))
					if err != nil {
						w.Fatalf("3 of what %d shards hold: %v", n, err)
					}
					all := bucketRequests(api)
					if got := faults.Count(all, "UpdateItem"); got > 2*3 {
						w.Errorf("%d shards were tried for two buckets, want 3 each at most", got)
					}
					if got := faults.Count(all, "TransactWriteItems"); got != 2 {
						w.Errorf("%d transactions, want one for each bucket", got)
					}
					w.Must(lease.Commit(w.Context()))
				})
			})
		}
	}
}

func TestARequestAboveAShareGoesToAllShardsAtOnce(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		whole := limiter.PerHour("rph", 8000)
		w.System(whole)
		w.plant("user", whole, 8, each(8, 900_000)...)
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		w.Take(l, ask("user", "rph", 1))
		driverOf(l).Settle() // all were compared with the configuration
		time.Sleep(limiter.DefaultTrust + time.Millisecond)
		w.Take(l, ask("user", "rph", 1))
		bucketRequests(api)
		want := func(what string, ops ...string) {
			w.Helper()
			if refused := w.Take(l, ask("user", "rph", 1500)); refused != nil {
				w.Fatalf("%s: %v", what, refused)
			}
			var got []string
			for _, s := range bucketRequests(api) {
				got = append(got, s.Op)
			}
			if diff := cmp.Diff(ops, got); diff != "" {
				w.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		want("one shard is known", "BatchGetItem", "TransactWriteItems")
		want("all are known", "TransactWriteItems")
		if got := l.Stats().Gathered; got != 2 {
			w.Errorf("%d were gathered, want 2", got)
		}
		time.Sleep(limiter.DefaultTrust + time.Millisecond)
		want("all were known", "BatchGetItem", "TransactWriteItems")
	})
}

// The wait that a sharded bucket quotes is exact. The request is admitted after it, and
// refused a millisecond before.
func TestTheWaitOfAShardedBucketIsExact(t *testing.T) {
	for _, l := range []limiter.Limit{
		limiter.PerSecond("x", 3), limiter.PerMinute("x", 7), limiter.PerMinute("x", 100, limiter.Burst(150)),
		limiter.PerHour("x", 11), limiter.Custom("x", 999_983, 7*time.Second),
	} {
		for _, n := range []int{2, 4, 32} {
			t.Run(fmt.Sprintf("%d in %v on %d", l.Amount, l.Period, n), func(t *testing.T) {
				inEachWorld(t, limiter.Options{}, func(w *world) {
					w.System(l)
					w.plant("user", l, n, each(n, 0)...)
					half := l.Capacity/2 + 1
					for round := range 3 {
						wait, err := w.TimeUntilAvailable(w.Context(), ask("user", "x", half))
						w.Must(err)
						refused := w.Take(w.Limiter, ask("user", "x", half))
						if refused == nil || refused.RetryAfter() != wait {
							w.Fatalf("round %d: refused for %v, available in %v", round, refused, wait)
						}
						time.Sleep(wait - time.Millisecond)
						early := w.Take(w.Limiter, ask("user", "x", half))
						if early == nil {
							w.Fatalf("round %d: admitted 1 ms before %v were over", round, wait)
						}
						if early.RetryAfter() != time.Millisecond {
							w.Errorf("round %d: 1 ms before, the wait is %v", round, early.RetryAfter())
						}
						time.Sleep(time.Millisecond)
						if refused := w.Take(w.Limiter, ask("user", "x", half)); refused != nil {
							w.Fatalf("round %d: after %v: %v", round, wait, refused)
						}
						if refused := w.Take(w.Limiter, ask("user", "x", l.Capacity+1)); refused == nil || refused.RetryAfter() != limiter.Never {
							w.Errorf("round %d: more than the capacity: %v, want never", round, refused)
						}
					}
				})
			})
		}
	}
}

// A client that last saw the bucket before a doubling cannot spend tokens that have
// overflowed its shard since.
func TestIdleTimeIsNotSpentTwiceByOneWhoMissedADoubling(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerSecond("rps", 1, limiter.Burst(100)))
		lease := w.Lease(w.Limiter, ask("user", "rps", 30))
		behind := w.NewLimiter(w.Store, limiter.Options{Trust: -1})
		w.Take(behind, ask("user", "rps", 1)) // sees 69
		w.double(w.Limiter, "rps")            // each has half of that
		w.Must(lease.Rollback(w.Context()))   // and shard 0 is full
		time.Sleep(20 * time.Second)          // shard 0 has earned 10 that it has no room for
		admitted := 0
		if w.Take(behind, ask("user", "rps", 40)) == nil {
			admitted += 40
		}
		fresh := w.NewLimiter(w.Store, limiter.Options{Trust: -1})
		for w.Take(fresh, ask("user", "rps", 1)) == nil {
			admitted++
		}
		if admitted > 100 {
			w.Errorf("%d were admitted at one instant, of a capacity of 100", admitted)
		}
	})
}

// A status quotes the balance of the whole bucket, never that of one shard.
func TestStatusesQuoteTheWhole(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		whole := limiter.PerHour("rph", 3200)
		w.System(whole)
		for n := 1; n <= limiter.MaxShards; n *= 2 {
			entity := fmt.Sprintf("user-%d", n)
			w.plant(entity, whole, n, each(n, int64(1_600_000/n))...)
			l := w.NewLimiter(w.Store, limiter.Options{})
			w.survey(l, entity, whole)
			check := func(what string, statuses []limiter.Status, available, requested int64) {
				w.Helper()
				if len(statuses) != 1 {
					w.Fatalf("%d shards: %s: %+v, want one status", n, what, statuses)
				}
				s := statuses[0]
				if s.Limit != whole || s.Available != available || s.Requested != requested {
					w.Errorf("%d shards: %s: %+v, want %d available of %+v", n, what, s, available, whole)
				}
			}
			lease := w.Lease(l, ask(entity, "rph", 10))
			check("one shard's lease", lease.Statuses(), 1590, 10)
			lease, err := l.Acquire(w.Context(), ask(entity, "rph", 960))
			if err != nil {
				w.Fatalf("%d shards: 30 %% of the capacity: %v", n, err)
			}
			check("a lease of several", lease.Statuses(), 630, 960)
			refused := w.Take(l, ask(entity, "rph", 960))
			if refused == nil {
				w.Fatalf("%d shards: served 960 of 630", n)
			}
			check("refusal", refused.Statuses, 630, 960)
			available, err := l.Available(w.Context(), ask(entity, "rph", 7))
			w.Must(err)
			check("available", available, 630, 7)
		}
	})
}

// A request above a share is served at every number of shards (peer defect 7.9). This
// holds for the client that doubled the bucket and for a new client.
func TestWhatExceedsAShareIsServedAtEveryNumberOfShards(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 1000))
		w.Take(w.Limiter, ask("user", "rph", 1))
		for n := 1; ; n *= 2 {
			if got := w.count(); got != n {
				w.Fatalf("%d shards, want %d", got, n)
			}
			for _, l := range []*limiter.Limiter{w.Limiter, w.NewLimiter(w.Store, limiter.Options{})} {
				lease, err := l.Acquire(w.Context(), ask("user", "rph", 300))
				if err != nil {
					w.Fatalf("%d shards: 30 %% of the capacity: %v", n, err)
				}
				w.Must(lease.Rollback(w.Context()))
			}
			if n == limiter.MaxShards {
				return
			}
			w.doubleOf(w.Limiter, ask("user", "rph", 0))
			time.Sleep(time.Second)
		}
	})
}

// A lease reports the statuses at its acquire, whatever happens to the shards later.
func TestStatusesAreThoseOfTheAcquire(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		whole := limiter.PerHour("rph", 3200)
		w.System(whole)
		w.plant("user", whole, 2, each(2, 1_600_000)...)
		w.Take(w.Limiter, ask("user", "rph", 1700)) // all are known
		lease := w.Lease(w.Limiter, ask("user", "rph", 100))
		before := lease.Statuses()
		if before[0].Available != 1400 {
			w.Errorf("%d available, want 1400", before[0].Available)
		}
		time.Sleep(2 * time.Second)
		w.double(w.Limiter, "rph")
		if diff := cmp.Diff(before, lease.Statuses()); diff != "" {
			w.Errorf("after a doubling (-before +after):\n%s", diff)
		}
	})
}

// The hidden write limit appears in no output, and no request can name it, at any
// number of shards.
func TestTheHiddenLimitNeverAppears(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		whole := limiter.PerHour("rph", 3200)
		w.System(whole)
		w.plant("user", whole, 4, each(4, 100_000)...)
		var names []string
		see := func(statuses []limiter.Status) {
			for _, s := range statuses {
				names = append(names, s.Limit.Name)
			}
		}
		for _, n := range []int64{1, 300} {
			lease := w.Lease(w.Limiter, ask("user", "rph", n))
			see(lease.Statuses())
			for name := range lease.Consumed() {
				names = append(names, name)
			}
		}
		see(w.Take(w.Limiter, ask("user", "rph", 3000)).Statuses)
		available, err := w.Available(w.Context(), ask("user", "rph", 1))
		w.Must(err)
		see(available)
		for _, name := range names {
			if name != "rph" {
				w.Errorf("%q appears", name)
			}
		}
		asked, own := ask("user", "wcu", 1), ask("user", "rph", 1)
		own.Fallback = []limiter.Limit{limiter.PerSecond("wcu", 5)}
		for _, req := range []limiter.Request{asked, own} {
			if _, err := w.Acquire(w.Context(), req); !errors.Is(err, limiter.ErrInvalid) {
				w.Errorf("acquire: %v, want it refused as invalid", err)
			}
			if _, err := w.Available(w.Context(), req); !errors.Is(err, limiter.ErrInvalid) {
				w.Errorf("available: %v, want it refused as invalid", err)
			}
		}
	})
}

// Many callers whose requests each need several shards conflict with each other, and
// all of them are served.
func TestManyGatherAtOnce(t *testing.T) {
	inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
		whole := limiter.PerHour("rph", 8000)
		w.System(whole)
		w.plant("user", whole, 8, each(8, 1_000_000)...)
		var all sync.WaitGroup
		for range 4 {
			l := w.NewLimiter(w.Store, limiter.Options{})
			all.Go(func() {
				w.Serve(l, ask("user", "rph", 1900))
			})
		}
		all.Wait()
		if got := w.total(); got < 400_000 || got > 401_000 {
			w.Errorf("%d millitokens are left of 400,000", got)
		}
	})
}
