package acquire_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// count returns the number of shards of the user's bucket. All shards must agree on it.
func (w *world) count() int {
	w.Helper()
	images := w.Images("user")
	for i, img := range images {
		if img.Shard != i || img.ShardCount != len(images) {
			w.Errorf("shard %d of %d is number %d of %d", i, len(images), img.Shard, img.ShardCount)
		}
	}
	return len(images)
}

// double makes a bucket double, by an acquire that finds the write limit of every shard
// used up.
func (w *world) double(l *limiter.Limiter, limit string) {
	w.Helper()
	w.doubleOf(l, ask("user", limit, 1))
}

// doubleOf doubles the bucket of a request, by that request.
func (w *world) doubleOf(l *limiter.Limiter, req limiter.Request) {
	w.Helper()
	w.exhaust(req.Entity, -1_000_000_000_000)
	w.Serve(l, req)
	w.exhaust(req.Entity, 1_000_000)
}

// exhaust sets the balance of the hidden write limit on all shards, in millitokens.
func (w *world) exhaust(entity string, tokens int) {
	w.Helper()
	_, ns := w.Store.Namespace()
	update, name := "SET b_wcu_tk = :v", table
	for _, img := range w.Images(entity) {
		for {
			_, err := w.Engine.UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
				TableName: &name, Key: values{
					"PK": &types.AttributeValueMemberS{Value: fmt.Sprintf("%s/BUCKET#%s#gpt-4#%d", ns, entity, img.Shard)},
					"SK": &types.AttributeValueMemberS{Value: "#STATE"},
				},
				UpdateExpression: &update, ExpressionAttributeValues: values{":v": number(tokens)},
			})
			if _, busy := errors.AsType[*types.TransactionConflictException](err); !busy {
				w.Must(err)
				break
			}
		}
	}
}

type values = map[string]types.AttributeValue

func TestADoublingMovesTokensAndMintsNone(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(limiter.PerHour("rph", 96_000))
		w.Take(w.Limiter, ask("user", "rph", 64_000))
		for want := 2; want <= limiter.MaxShards; want *= 2 {
			time.Sleep(2 * time.Second)
			before := w.Balance("user", "rph")
			w.double(w.Limiter, "rph")
			if got := w.count(); got != want {
				w.Fatalf("%d shards, want %d", got, want)
			}
			if after := w.Balance("user", "rph"); after != before-1 {
				w.Errorf("at %d shards %d are left of %d", want, after, before)
			}
			// Thirty percent of the capacity is more than any share from four shards
			// on.
			if refused := w.Take(w.Limiter, ask("user", "rph", 5_000)); refused != nil {
				w.Errorf("at %d shards: %v", want, refused)
			}
		}
	})
}

// lose deletes a shard, as expiry does.
func (w *world) lose(shard int) {
	w.Helper()
	name := table
	for {
		_, err := w.Engine.DeleteItem(w.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: w.shardKey(shard)})
		if conflict := (*types.TransactionConflictException)(nil); errors.As(err, &conflict) {
			time.Sleep(time.Millisecond)
			continue
		}
		w.Must(err)
		return
	}
}

func TestLongASlowBucketNeverDoubles(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerSecond("rps", 100))
		const requests = 10_000
		for range requests {
			w.Serve(w.Limiter, ask("user", "rps", 1))
			time.Sleep(20 * time.Millisecond)
		}
		images := w.Images("user")
		if len(images) != 1 || images[0].ShardCount != 1 || w.Stats().Doublings != 0 {
			w.Errorf("%d shards, number %d, %d doublings", len(images), images[0].ShardCount, w.Stats().Doublings)
		}
		// Every write counts, whatever its shape (peer defect 7.21).
		if got := images[0].Writes.Consumed; got < requests*1000 {
			w.Errorf("%d writes were counted, want %d", got/1000, requests)
		}
		time.Sleep(time.Minute)
		w.Take(w.Limiter, ask("user", "rps", 50))
		if got := w.Images("user")[0].Writes.Tokens; got != 999_000 {
			w.Errorf("the hidden limit of an idle bucket holds %d millitokens after a write, want 999,000", got)
		}
	})
}

// Every kind of write to a bucket counts as a write (peer defect 7.21).
func TestEveryWriteCounts(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 4, each(4, 900_000)...)
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{Trust: -1})
		for i := range 5 {
			lease, err := l.Acquire(w.Context(), ask("user", "rph", 10)) // takes
			w.Must(err)
			w.Must(lease.Adjust("rph", 5-int64(2*i)))
			w.Must(lease.Commit(w.Context()))
			lease, err = l.Acquire(w.Context(), ask("user", "rph", 1100)) // of several shards
			w.Must(err)
			w.Must(lease.Rollback(w.Context()))
			time.Sleep(20 * time.Minute) // so that they have to be refilled
		}
		driverOf(l).Settle()
		writes := make(map[int]int64)
		for _, s := range bucketRequests(api) {
			if s.Op != "BatchGetItem" {
				for _, shard := range s.Shards {
					writes[shard]++
				}
			}
		}
		for _, img := range w.Images("user") {
			if got := (img.Writes.Consumed - plantedWrites) / 1000; got != writes[img.Shard] {
				w.Errorf("shard %d was written to %d times and has counted %d", img.Shard, writes[img.Shard], got)
			}
		}
	})
}

// A doubling creates no tokens. With peer defect 7.5, the new shard is full and the old
// one keeps its balance.
func TestADoubledBucketAdmitsNoMoreThanItsCapacity(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(limiter.PerHour("rph", 100))
		admitted := 1
		w.Take(w.Limiter, ask("user", "rph", 1))
		for range 5 {
			w.double(w.Limiter, "rph")
			admitted++
			time.Sleep(1001 * time.Millisecond)
		}
		if n := w.count(); n != limiter.MaxShards {
			w.Fatalf("%d shards", n)
		}
		for w.Take(w.Limiter, ask("user", "rph", 1)) == nil {
			admitted++
		}
		if admitted != 100 {
			w.Errorf("%d were admitted of a capacity of 100", admitted)
		}
	})
}

// A limit of one token works at any number of shards, although each shard has room for
// only a fraction of it.
func TestACapacityOfOneAtAnyNumberOfShards(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 1))
		w.Take(w.Limiter, ask("user", "rpm", 1))
		for want := 2; want <= limiter.MaxShards; want *= 2 {
			w.doubleOf(w.Limiter, ask("user", "rpm", 0))
			if got := w.count(); got != want {
				w.Fatalf("%d shards, want %d", got, want)
			}
			for round := range 3 {
				refused := w.Take(w.Limiter, ask("user", "rpm", 1))
				// Shard 0 earns the thousandths that do not divide: 39, instead of the
				// 31 of each of 32 shards.
				if refused == nil || refused.RetryAfter() > 75*time.Second {
					w.Fatalf("at %d shards, round %d: %v, want 75s at most", want, round, refused)
				}
				time.Sleep(refused.RetryAfter())
				if refused := w.Take(w.Limiter, ask("user", "rpm", 1)); refused != nil {
					w.Fatalf("at %d shards, round %d: %v", want, round, refused)
				}
			}
			time.Sleep(time.Second)
		}
	})
}

// A pace measures what P1 allows: over any interval, at most the capacity and the
// tokens earned meanwhile. level is the most that any interval ending now has used of
// it.
type pace struct {
	mu          sync.Mutex
	rate, level float64 // tokens a second, tokens
	last        time.Time
	most, sum   float64
}

// admit records tokens admitted, negative if returned.
func (p *pace) admit(tokens float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.level = max(0, p.level-p.rate*now.Sub(p.last).Seconds()) + tokens
	p.last, p.most, p.sum = now, max(p.most, p.level), p.sum+tokens
}

// Several processes with many callers each use up a limit while its bucket doubles five
// times. At no time is more admitted than there is, and no tokens are lost.
func TestDoublingUnderLoad(t *testing.T) {
	inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond, P99: 15 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
		const processes, callers, seconds, rate, burst = 4, 6, 9, 200, 600
		w.System(limiter.PerSecond("rps", rate, limiter.Burst(burst)))
		w.Take(w.Limiter, ask("user", "rps", 0))
		start := time.Now()
		p := &pace{rate: rate, last: start}
		var all sync.WaitGroup
		for range processes {
			l := w.NewLimiter(w.Store, limiter.Options{})
			for k := range callers {
				all.Go(func() {
					for i := k; time.Since(start) < seconds*time.Second; i++ {
						n := int64(1)
						if i%40 == 0 {
							n = burst * 3 / 10
						}
						lease, err := l.Acquire(w.Context(), ask("user", "rps", n))
						if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
							time.Sleep(min(100*time.Millisecond, refused.RetryAfter()))
							continue
						}
						if err != nil {
							w.Errorf("after %v, asking for %d: %v", time.Since(start), n, err)
							continue
						}
						p.admit(float64(n))
						w.Must(lease.Commit(w.Context()))
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
		}
		for range 5 {
			time.Sleep(1500 * time.Millisecond)
			w.exhaust("user", -700_000) // for a fifth of a second at least: a shared stamp is up to 500 ms old
		}
		all.Wait()
		if got := w.count(); got != limiter.MaxShards {
			w.Errorf("%d shards", got)
		}
		// The test sees an answer a few latencies after the write.
		const late = 0.05 * rate
		if p.most > burst+late {
			w.Errorf("over some interval %.0f more were admitted than the rate, of a capacity of %d", p.most, burst)
		}
		if want := burst + rate*time.Since(start).Seconds(); p.sum < want*0.95 {
			w.Errorf("%.0f were admitted of %.0f", p.sum, want)
		}
	})
}

// A client that meets a half-done doubling finishes it.
func TestAHalfDoneDoublingIsFinished(t *testing.T) {
	for _, tt := range []struct {
		name   string
		plant  func(*world)
		want   int
		tokens int64 // before, less what is above a share
		above  int64 // may be taken as long as it is there
	}{
		{"shard 1 was split, shard 0 was not", func(w *world) {
			w.plantShard("user", hourly, 0, 2, 1_500_000)
			w.plantShard("user", hourly, 1, 4, 700_000)
			w.plantShard("user", hourly, 3, 4, 700_000)
		}, 4, 2900, 0},
		{"some of eight were born", func(w *world) {
			w.plantShard("user", hourly, 0, 4, 900_000)
			for _, i := range []int{1, 3, 5, 7} {
				w.plantShard("user", hourly, i, 8, 400_000)
			}
			w.plantShard("user", hourly, 2, 4, 600_000)
		}, 8, 3100, 0},
		{"tightened, but not born", func(w *world) {
			w.plantShard("user", hourly, 0, 4, 900_000)
			for _, i := range []int{1, 2, 3} {
				w.plantShard("user", hourly, i, 8, 400_000)
			}
		}, 8, 2100, 0},
		{"a peer: shard 0 says 8, there is no other", func(w *world) {
			w.plantShard("user", hourly, 0, 8, 500_000)
		}, 8, 500, 0},
		{"a peer: shard 0 says 8, shard 1 says 2", func(w *world) {
			w.plantShard("user", hourly, 0, 8, 500_000)
			w.plantShard("user", hourly, 1, 2, 2_000_000)
		}, 8, 2500, 0},
		{"a peer: its new shards are full, and shard 0 has too much", func(w *world) {
			w.plantShard("user", hourly, 0, 2, 4_000_000)
			w.plantShard("user", hourly, 1, 2, 2_000_000)
		}, 2, 4000, 2000},
		{"a peer: the sibling of shard 0 is there already, and full", func(w *world) {
			w.plantShard("user", hourly, 0, 2, 2_000_000)
			w.plantShard("user", hourly, 1, 4, 700_000)
			w.plantShard("user", hourly, 2, 4, 1_000_000)
			w.plantShard("user", hourly, 3, 4, 1_000_000)
		}, 4, 3700, 1000},
	} {
		for _, finishers := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s, %d at it", tt.name, finishers), func(t *testing.T) {
				inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond, P99: 20 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
					w.System(hourly)
					tt.plant(w)
					start := time.Now()
					var all sync.WaitGroup
					for range finishers {
						l := w.NewLimiter(w.Store, limiter.Options{})
						all.Go(func() {
							for range 30 {
								w.Serve(l, ask("user", "rph", 1))
							}
							driverOf(l).Settle()
						})
					}
					all.Wait()
					if got := w.count(); got != tt.want {
						w.Errorf("%d shards, want %d", got, tt.want)
					}
					for _, img := range w.Images("user") {
						if s, _ := img.Limit("rph"); s.Tokens > 4_000_000/int64(tt.want) {
							w.Errorf("shard %d holds %d, more than its share", img.Shard, s.Tokens)
						}
					}
					taken, earned := int64(30*finishers), int64(time.Since(start)*4000/time.Hour)+1
					got := w.Balance("user", "rph")
					if got > tt.tokens+min(tt.above, taken)-taken+earned || got < tt.tokens-taken-2 {
						w.Errorf("%d are left, of %d less %d", got, tt.tokens, taken)
					}
				})
			})
		}
	}
}

// Lost shards come back with their siblings' shard count, and with tokens from them
// (peer defects 7.6 and 7.23). This holds for any client that finds them gone.
func TestLostShardsComeBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		lost []int
		want int
	}{
		{"one", []int{5}, 8},
		{"shard 0", []int{0}, 8},
		{"a pair", []int{3, 7}, 8},
		{"shard 0 and its sibling", []int{0, 4}, 8},
		{"all but one", []int{0, 1, 2, 3, 4, 5, 7}, 8},
		{"all but shard 0", []int{1, 2, 3, 4, 5, 6, 7}, 8},
		{"all", []int{0, 1, 2, 3, 4, 5, 6, 7}, 1},
	} {
		for _, who := range []string{"one that knew them", "one that knows nothing", "both at once"} {
			t.Run(tt.name+", found by "+who, func(t *testing.T) {
				inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond, P99: 20 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
					w.System(hourly)
					w.plant("user", hourly, 8, each(8, 400_000)...)
					knew := w.NewLimiter(w.Store, limiter.Options{})
					w.survey(knew, "user", hourly)
					for range 20 {
						w.Take(knew, ask("user", "rph", 1))
					}
					time.Sleep(2 * time.Second)
					for _, shard := range tt.lost {
						w.lose(shard)
					}
					most := w.Balance("user", "rph") + 2
					if tt.want == 1 {
						most = 4000
					}
					cold := w.NewLimiter(w.Store, limiter.Options{})
					both := []*limiter.Limiter{knew, cold}
					switch who {
					case "one that knew them":
						both = both[:1]
					case "one that knows nothing":
						both = both[1:]
					}
					var all sync.WaitGroup
					for _, l := range both {
						all.Go(func() {
							for range 100 {
								w.Serve(l, ask("user", "rph", 1))
							}
							driverOf(l).Settle()
						})
					}
					all.Wait()
					if got := w.count(); got != tt.want {
						w.Errorf("%d shards, want %d", got, tt.want)
					}
					// All other clients find the shards too.
					for range 20 {
						for _, l := range []*limiter.Limiter{knew, cold} {
							w.Serve(l, ask("user", "rph", 1))
						}
					}
					if got, taken := w.Balance("user", "rph"), int64(100*len(both)+40); got > most-taken || got < most-taken-5 {
						w.Errorf("%d are left, of %d less %d", got, most, taken)
					}
				})
			})
		}
	}
}

// A client forgets a shard count that no shard confirms (peer defect 7.7).
func TestANumberOfShardsIsForgotten(t *testing.T) {
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 8, each(8, 400_000)...)
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		w.survey(l, "user", hourly)
		for shard := range 8 {
			w.lose(shard)
		}
		w.Take(w.Limiter, ask("user", "rph", 1)) // created again, alone
		time.Sleep(61 * time.Second)
		bucketRequests(api)
		for range 20 {
			w.Serve(l, ask("user", "rph", 1))
		}
		driverOf(l).Settle()
		looked := 0
		for _, s := range bucketRequests(api) {
			switch {
			case s.Op == "BatchGetItem" && len(s.Shards) == 8:
				looked++ // whether the others exist
			case !slices.Equal(s.Shards, []int{0}):
				w.Errorf("%s of shards %v", s.Op, s.Shards)
			}
		}
		if looked > 1 {
			w.Errorf("the others were looked for %d times", looked)
		}
		if got := w.count(); got != 1 {
			w.Errorf("%d shards", got)
		}
	})
}

// Processes with different clocks double the same bucket at once, and their shards
// agree (peer defects 7.23 and 7.21).
func TestRacingDoublings(t *testing.T) {
	inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond, P99: 20 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
		whole := limiter.PerDay("rpd", 8000)
		w.System(whole)
		w.Take(w.Limiter, ask("user", "rpd", 0))
		ls := make([]*limiter.Limiter, 6)
		for i := range ls {
			skew := time.Duration(i-3) * 400 * time.Millisecond
			ls[i] = w.NewLimiter(w.openBy(faults.Wrap(w.Engine), faults.Skewed(skew).Now), limiter.Options{})
		}
		taken := int64(0)
		for want := 2; want <= limiter.MaxShards; want *= 2 {
			w.exhaust("user", -1_000_000_000)
			var all sync.WaitGroup
			for _, l := range ls {
				all.Go(func() {
					w.Serve(l, ask("user", "rpd", 1))
					driverOf(l).Settle()
				})
			}
			all.Wait()
			taken += int64(len(ls))
			w.exhaust("user", 1_000_000)
			if got := w.count(); got != want {
				w.Fatalf("%d shards, want %d", got, want)
			}
			if got := w.Balance("user", "rpd"); got > 8000-taken+1 || got < 8000-taken-1 {
				w.Errorf("at %d shards %d are left of 8000 less %d", want, got, taken)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// anew creates shard 0 of a bucket as a peer does that knows nothing of its siblings.
func (w *world) anew() {
	w.Helper()
	w.lose(0)
	w.plantShard("user", hourly, 0, 1, 4_000_000)
}

// A peer created shard 0 again beside living siblings. Shard 0 learns their number from
// the first client that knows them, and loses what it holds above its share.
func TestAShardMadeAnewLearnsTheNumberOfItsSiblings(t *testing.T) {
	for _, count := range []int{2, 8} {
		for name, meet := range map[string]func(*world, *limiter.Limiter){
			"by a client that knew them": func(w *world, knew *limiter.Limiter) {
				for n := 0; n < 600 && w.Images("user")[0].ShardCount == 1; n++ { // until one of them meets shard 0
					w.Take(knew, ask("user", "rph", 1))
					driverOf(knew).Settle()
				}
			},
			"by a client that is told of the last one": func(w *world, _ *limiter.Limiter) {
				w.Must(driverOf(w.Limiter).Mend(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4", Shard: count - 1}))
			},
			"by a client that is told of the second": func(w *world, _ *limiter.Limiter) {
				w.Must(driverOf(w.Limiter).Mend(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4", Shard: 1}))
			},
			"by a client that is told of any, and knew them": func(w *world, knew *limiter.Limiter) {
				w.Must(driverOf(knew).Mend(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4"}))
			},
		} {
			t.Run(fmt.Sprint(count, " shards, ", name), func(t *testing.T) {
				inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
					w.System(hourly)
					w.plant("user", hourly, count, each(count, 100_000)...)
					knew := w.NewLimiter(w.Store, limiter.Options{Trust: -1})
					w.survey(knew, "user", hourly)
					time.Sleep(2 * time.Second)
					w.anew()
					images, err := driverOf(w.Limiter).Shards(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4", Shard: 1})
					if w.Must(err); len(images) != count {
						w.Errorf("%d shards are listed, want %d", len(images), count)
					}
					meet(w, knew)
					images, err = w.Store.Buckets(w.Context(), "user", "gpt-4", 32)
					w.Must(err)
					for i, img := range images {
						s, _ := img.Limit("rph")
						if img.ShardCount != count || s.Tokens > s.Capacity/int64(count)+1000 {
							w.Errorf("shard %d of %d holds %d", i, img.ShardCount, s.Tokens)
						}
					}
					if len(images) != count {
						w.Errorf("%d shards, want %d", len(images), count)
					}
				})
			})
		}
	}
}
