package aggregator_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// doubleTo makes a keeper double the user's bucket until it has n shards.
func (w *world) doubleTo(n int) {
	w.Helper()
	k := w.NewKeeper(w.Store, process.Options{})
	for have := 1; have < n; have *= 2 {
		for i, img := range w.Images("user") {
			w.set("user", i, map[string]int64{"b_wcu_tk": -1_000_000})
			img.Writes.Tokens = -1_000_000
			if doubled, err := k.Double(w.Context(), img, time.UnixMilli(img.RefilledAt)); err != nil {
				w.Fatal(err)
			} else if doubled {
				break
			}
		}
		time.Sleep(2 * time.Second)
	}
	if got := len(w.Images("user")); got != n {
		w.Fatalf("%d shards, want %d", got, n)
	}
}

// held is what a user's bucket holds of a limit now, in millitokens.
func (w *world) held(entity, limit string) (sum int64) {
	w.Helper()
	for _, img := range w.Images(entity) {
		s, _ := img.Limit(limit)
		part := bucket.Limit{Capacity: s.Capacity, Amount: s.Amount, Period: s.Period}.Share(img.Shard, img.ShardCount)
		sum += part.Balance(s.Tokens, img.RefilledAt, time.Now().UnixMilli())
	}
	return sum
}

// A tally adds up results.
type tally struct {
	mu   sync.Mutex
	sum  aggregator.Result
	idle int // batches without records
}

func (t *tally) observe(r aggregator.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Merges += r.Merges
	t.sum.Doublings += r.Doublings
	t.sum.Errors += r.Errors
	if r.Records == 0 {
		t.idle++
	}
}

func (t *tally) read() (merges, doublings, errs, idle int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum.Merges, t.sum.Doublings, t.sum.Errors, t.idle
}

// An idle bucket of four shards has two after the quiet time, and one after twice that
// time, though no records come any more. Its tokens stay the same to the millitoken, and
// nothing is counted a second time.
func TestAnIdleBucketIsMerged(t *testing.T) {
	t.Parallel()
	for _, quiet := range []time.Duration{0, time.Minute} {
		t.Run(quiet.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sums := &tally{}
				w.aggregator = w.aggregate(aggregator.Options{Quiet: quiet, Observe: sums.observe})
				w.System(limiter.PerDay("rpd", 100_000_000))
				w.Take(w.Limiter, ask("user", "rpd", 90_000_000))
				w.doubleTo(4)
				quiet := cmp.Or(quiet, aggregator.DefaultQuiet)
				start := time.Now()
				end := w.follow()
				for want := 2; want >= 1; want /= 2 {
					before, at := w.held("user", "rpd"), time.Now()
					for len(w.Images("user")) > want && time.Since(start) < 2*quiet {
						time.Sleep(quiet / 100)
					}
					if took := time.Since(start); took < quiet*98/100 || took > quiet*5/4 {
						t.Errorf("%d shards after %v", want, took)
					}
					start = time.Now()
					earned := time.Since(at).Milliseconds() * 100_000_000_000 / (24 * time.Hour).Milliseconds()
					if got := w.held("user", "rpd") - before - earned; got > 4 || got < -4 {
						t.Errorf("at %d shards %d millitokens more", want, got)
					}
				}
				_, _, _, before := sums.read()
				time.Sleep(3 * quiet)
				end()
				// One read shows that there is nothing to watch any more.
				if _, _, _, idle := sums.read(); len(w.Images("user")) != 1 || idle > before+1 {
					t.Errorf("%d shards, read %d times more", len(w.Images("user")), idle-before)
				}
				if merges, doublings, errs, _ := sums.read(); merges != 2 || doublings != 0 || errs != 0 {
					t.Errorf("%d merges, %d doublings, %d errors", merges, doublings, errs)
				}
				w.wantBooks(1, "user")
			})
		})
	}
}

// A bucket is never merged if one of its shards takes a fifth of its partition's writes.
// With a little less it is merged, and the same load does not double it.
func TestLongOnlyAQuietBucketIsMerged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate   float64 // writes to shard 1 per second
		merges int
	}{{205, 0}, {195, 1}} {
		t.Run(fmt.Sprint(tt.rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sums := &tally{}
				w.aggregator = w.aggregate(aggregator.Options{Quiet: 20 * time.Second, Observe: sums.observe})
				w.System(limiter.PerDay("rpd", 100_000_000))
				w.Take(w.Limiter, ask("user", "rpd", 1_000_000))
				w.doubleTo(2)
				w.process(w.drain())
				write := func(shard int) bool {
					out, err := w.Store.Take(t.Context(), &store.Take{
						Bucket: limiter.Bucket{Entity: "user", Resource: "gpt-4", Shard: shard}, Now: time.Now().UnixMilli(),
						Debits: []store.Debit{{Amount: store.Amount{Limit: "rpd", Milli: 1000}, AtMost: 1 << 60}},
					})
					w.Must(err)
					if !out.Applied && out.Image != nil { // out of writes
						_, err := w.NewKeeper(w.Store, process.Options{}).Replenish(t.Context(), out.Image, upkeep.Demand{Amounts: []store.Amount{{Limit: "rpd", Milli: 1 << 50}}, Writes: 1000})
						w.Must(err)
					}
					return out.Image != nil
				}
				start, n := time.Now(), 0
				for ; time.Since(start) < 45*time.Second; time.Sleep(time.Duration(float64(time.Second) / tt.rate)) {
					if !write(1) {
						write(0) // merged
					}
					if n++; n%100 == 0 {
						w.process(w.drain())
					}
				}
				merges, doublings, errs, _ := sums.read()
				if merges != tt.merges || doublings != 0 || errs != 0 || len(w.Images("user")) != 2-tt.merges {
					t.Errorf("%d merges, %d doublings, %d errors: %d shards", merges, doublings, errs, len(w.Images("user")))
				}
			})
		})
	}
}

// A burst restarts the quiet time, and so does a shard that appears or disappears.
func TestWhatIsNotQuietAllTheTime(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(*world){
		"nothing":    func(*world) {},
		"a burst":    func(w *world) { w.set("user", 1, map[string]int64{"b_wcu_tc": 1_000_000_000}) },
		"a doubling": func(w *world) { w.set("user", 0, map[string]int64{"shard_count": 4}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sums := &tally{}
				w.aggregator = w.aggregate(aggregator.Options{Observe: sums.observe})
				w.System(limiter.PerDay("rpd", 1_000_000))
				w.Take(w.Limiter, ask("user", "rpd", 500_000))
				w.doubleTo(2)
				end := w.follow()
				time.Sleep(aggregator.DefaultQuiet * 5 / 8)
				disturb(w)
				time.Sleep(aggregator.DefaultQuiet * 5 / 8)
				merged, _, _, _ := sums.read()
				time.Sleep(aggregator.DefaultQuiet * 5 / 8)
				end()
				then, _, _, _ := sums.read()
				if (merged > 0) != (name == "nothing") || then == 0 {
					t.Errorf("%d merges in time, %d later", merged, then)
				}
			})
		})
	}
}

// Several aggregators merge a bucket once. An aggregator with merging off never merges, and
// reads nothing.
func TestWhoMerges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerDay("rpd", 1_000_000))
		w.Take(w.Limiter, ask("user", "rpd", 500_000))
		w.doubleTo(8)
		records := w.drain()
		never := &tally{}
		w.aggregator = w.aggregate(aggregator.Options{Quiet: -1, Observe: never.observe})
		end := w.follow()
		sums := &tally{}
		var others []*aggregator.Aggregator
		for range 3 {
			a := w.aggregate(aggregator.Options{Observe: sums.observe})
			others = append(others, a)
			_, err := a.Process(t.Context(), records)
			w.Must(err)
		}
		for range 6 {
			var all sync.WaitGroup
			for _, a := range others {
				all.Go(func() {
					_, err := a.Process(t.Context(), nil)
					w.Check(err)
				})
			}
			all.Wait()
			time.Sleep(aggregator.DefaultQuiet / 4)
		}
		end()
		merges, _, errs, _ := sums.read()
		if merges != 1 || errs != 0 || len(w.Images("user")) != 4 {
			t.Errorf("%d merges, %d errors: %d shards", merges, errs, len(w.Images("user")))
		}
		if merges, _, _, idle := never.read(); merges != 0 || idle != 0 {
			t.Errorf("%d merges, %d batches without records", merges, idle)
		}
	})
}

// A shut is a store that must not be used after it is closed.
type shut struct {
	limiter.Store

	t      *testing.T
	closed atomic.Bool
}

func (s *shut) Buckets(ctx context.Context, entity, resource string, shards int) ([]*store.Image, error) {
	if s.closed.Load() {
		s.t.Error("read through a limiter of a namespace that was closed")
	}
	return s.Store.Buckets(ctx, entity, resource, shards)
}

// A watched bucket is merged even if its namespace was forgotten and closed meanwhile: the
// namespace is opened again.
func TestABucketOfAForgottenNamespaceIsMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		namespaces, err := admin.NewNamespaces(dynamo.Options{API: w.API, Table: table})
		w.Must(err)
		_, err = namespaces.Register(t.Context(), "blue")
		w.Must(err)
		blue := w.NewLimiter(w.Open(dynamo.Options{Namespace: "blue"}), limiter.Options{})
		w.aggregator, err = aggregator.New(func(ctx context.Context, id string) (aggregator.Namespace, error) {
			s, err := dynamo.OpenID(ctx, dynamo.Options{API: w.API, Table: table}, id)
			if err != nil {
				return aggregator.Namespace{}, err
			}
			store := &shut{Store: s, t: t}
			return aggregator.Namespace{Store: store, Close: func() { store.closed.Store(true) }}, nil
		}, aggregator.Options{Namespaces: 1, Quiet: time.Minute})
		w.Must(err)
		w.Cleanup(w.aggregator.Close)
		w.System(limiter.PerDay("rpd", 1000))
		w.Must(w.Open(dynamo.Options{Namespace: "blue"}).SetSystem(t.Context(), []limiter.Limit{limiter.PerDay("rpd", 1000)}, ""))
		w.Take(w.Limiter, ask("user", "rpd", 500))
		w.doubleTo(2)
		w.process(w.drain())
		merges, errs := 0, 0
		for range 8 {
			w.Take(blue, ask("user", "rpd", 1)) // evicts the other namespace
			res := w.process(w.drain())
			merges, errs = merges+res.Merges, errs+res.Errors
			time.Sleep(15 * time.Second)
		}
		if merges != 1 || errs != 0 || len(w.Images("user")) != 1 {
			t.Errorf("%d merges, %d errors, %d shards", merges, errs, len(w.Images("user")))
		}
	})
}
