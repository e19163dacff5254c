package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A bucket that is debited all the time is merged. The merge forfeits the tokens that
// might have been taken meanwhile. A bucket that is refilled all the time is left alone
// this time.
func TestAMergeAllowsForTakes(t *testing.T) {
	for name, tt := range map[string]struct {
		write  string
		merged bool
		least  int64
	}{
		"nobody":                        {"SET b_rph_tk = b_rph_tk + :n, b_rph_tc = b_rph_tc + :n", true, 1_600_000},
		"somebody takes":                {"SET b_rph_tk = b_rph_tk - :n, b_rph_tc = b_rph_tc + :n", true, 1_600_000 - 4*7_000},
		"somebody takes all":            {"SET b_rph_tk = b_rph_tk - :n, b_rph_tc = b_rph_tc + :n", true, 800_000},
		"somebody returns":              {"SET b_rph_tk = b_rph_tk + :n, b_rph_tc = b_rph_tc - :n", false, 0},
		"somebody moves the stamp":      {"SET rf = rf + :n", false, 0},
		"somebody changes a parameter":  {"SET b_rph_ra = b_rph_ra + :n", false, 0},
		"somebody returns to the other": {"SET b_rph_tk = b_rph_tk + :n, b_rph_tc = b_rph_tc - :n", true, 1_600_000},
	} {
		t.Run(name, func(t *testing.T) {
			inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
				w.System(hourly)
				w.plant("user", hourly, 2, each(2, 800_000)...)
				shard, n := 1, 7_000
				switch name {
				case "nobody":
					n = 0
				case "somebody takes all":
					n = 300_000
				case "somebody returns to the other":
					shard = 0
				}
				taken := int64(0)
				l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, faults.On(faults.Before(func(*faults.Call) error {
					w.patchShard(shard, tt.write, values{":n": number(n)}) // another client writes before each transaction
					taken += int64(n)
					return nil
				}), faults.TransactWriteItems))), limiter.Options{})
				if merged := w.merge(l); merged != tt.merged {
					w.Fatalf("merged: %v", merged)
				}
				if got := w.total(); tt.merged && (got < tt.least || shard == 1 && got > 1_600_000-taken || shard == 0 && got != tt.least+taken) {
					w.Errorf("%d are left, %d were moved meanwhile", got, taken)
				}
			})
		})
	}
}

// Merges run among requests. The bucket is used up nearly to the last token, every
// client finds the remaining shards, and no client doubles the bucket again.
func TestMergesUnderLoad(t *testing.T) {
	for _, inFlight := range []int{-1, 0} {
		t.Run(strconv.Itoa(inFlight), func(t *testing.T) {
			inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond, P99: 15 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
				const processes, rate = 4, 25
				daily := limiter.PerDay("rph", 32_000)
				w.System(daily)
				w.plant("user", daily, 32, each(32, 900_000)...)
				start := time.Now()
				var all sync.WaitGroup
				taken := make([]int64, processes)
				ls := make([]*limiter.Limiter, processes)
				for p := range processes {
					ls[p] = w.NewLimiter(w.Store, limiter.Options{InFlight: inFlight})
					w.survey(ls[p], "user", daily)
					all.Go(func() {
						for i := 0; time.Since(start) < 20*time.Second; i++ {
							n := int64(1)
							if i%10 == 0 {
								n = 40
							}
							lease, err := ls[p].Acquire(w.Context(), ask("user", "rph", n))
							if err != nil {
								w.Error(err)
								continue
							}
							if i%3 == 0 {
								w.Must(lease.Rollback(w.Context()))
							} else {
								w.Must(lease.Commit(w.Context()))
								taken[p] += n
							}
							time.Sleep(time.Second / rate)
						}
					})
				}
				merges := 0
				for time.Since(start) < 18*time.Second {
					time.Sleep(500 * time.Millisecond)
					if w.merge(w.Limiter) {
						merges++
					}
				}
				all.Wait()
				doublings, sum := uint64(0), int64(0)
				for p, l := range ls {
					driverOf(l).Settle()
					doublings += l.Stats().Doublings
					sum += taken[p]
				}
				if got := w.count(); got != 1 || merges != 5 || doublings != 0 {
					w.Errorf("%d shards after %d merges and %d doublings", got, merges, doublings)
				}
				earned := int64(time.Since(start))*32_000_000/int64(24*time.Hour) + 1
				const forfeited = 300_000 // by five merges among 100 requests a second
				if left, most := w.total(), 32*900_000-sum*1000+earned; left > most || left < most-earned-forfeited {
					w.Errorf("%d are left, want %d less %d at most", left, most, forfeited)
				}
			})
		})
	}
}

// amid calls f once, in the middle of a read of several items. The first half of them is
// read before it, the rest after it.
func amid(f func()) faults.Hook {
	var begun atomic.Bool
	return faults.On(func(ctx context.Context, c *faults.Call, next faults.Next) error {
		in := c.Input.(*dynamodb.BatchGetItemInput)
		keys := slices.Clone(in.RequestItems[table].Keys)
		if len(keys) < 2 || begun.Swap(true) {
			return next(ctx)
		}
		r := rand.New(rand.NewPCG(uint64(len(keys)), 1)) //nolint:gosec // in no order of theirs
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		part := func(keys []values) ([]values, error) {
			half := in.RequestItems[table]
			half.Keys = keys
			c.Input = &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: half}}
			if err := next(ctx); err != nil {
				return nil, err
			}
			return c.Output.(*dynamodb.BatchGetItemOutput).Responses[table], nil
		}
		first, err := part(keys[:len(keys)/2])
		if err != nil {
			return err
		}
		f()
		rest, err := part(keys[len(keys)/2:])
		if err != nil {
			return err
		}
		c.Output.(*dynamodb.BatchGetItemOutput).Responses[table] = append(first, rest...)
		return nil
	}, faults.BatchGetItem)
}

// A client that reads a set of shards in the middle of a merge does not take it for a
// half-done doubling. It also does not take it for a set that has lost shards.
func TestAReadAcrossAMerge(t *testing.T) {
	for name, read := range map[string]func(w *world, l *limiter.Limiter){
		"mends": func(w *world, l *limiter.Limiter) {
			w.Must(driverOf(l).Mend(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4"}))
		},
		"merges": func(w *world, l *limiter.Limiter) { w.merge(l) },
		"gathers": func(w *world, l *limiter.Limiter) {
			w.Take(l, ask("user", "rph", 2000))
			w.Take(l, ask("user", "rph", 1150))
		},
		"refuses": func(w *world, l *limiter.Limiter) {
			if refused := w.Take(l, ask("user", "rph", 3300)); refused == nil || refused.Statuses[0].Available != 3200 {
				w.Errorf("got %v", refused)
			}
		},
		"asks": func(w *world, l *limiter.Limiter) {
			statuses, err := l.Available(w.Context(), ask("user", "rph", 1))
			w.Must(err)
			if statuses[0].Available != 3200 {
				w.Errorf("%d available", statuses[0].Available)
			}
		},
		"settles": func(w *world, l *limiter.Limiter) {
			lease := w.Lease(l, ask("user", "rph", 1))
			w.Must(lease.Adjust("rph", 2000))
			w.Must(lease.Commit(w.Context()))
		},
	} {
		for _, n := range []int{2, 8, 32} {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
					w.System(hourly)
					w.plant("user", hourly, n, each(n, 3_200_000/int64(n))...)
					api := faults.NewTap(w.Engine)
					l := w.NewLimiter(w.OpenOn(api), limiter.Options{Trust: -1})
					w.survey(l, "user", hourly)
					api.Set(amid(func() { w.halve(w.Limiter, n/2) }))
					read(w, l)
					driverOf(l).Settle()
					if got := w.count(); got != n/2 || l.Stats().Doublings != 0 {
						w.Errorf("%d shards after %d doublings", got, l.Stats().Doublings)
					}
				})
			})
		}
	}
}

// An answer that was on its way during a merge revives no retired shard.
func TestAnAnswerFromBeforeAMerge(t *testing.T) {
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 4, each(4, 500_000)...)
		w.survey(w.Limiter, "user", hourly)
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{InFlight: -1})
		w.survey(l, "user", hourly)
		for shard := range 4 {
			late := faults.NewGate() // for answers of this shard
			api.Set(faults.On(faults.When(func(c *faults.Call) bool { return c.Shards()[0] == shard }, late.Answers), faults.UpdateItem))
			time.Sleep(20 * time.Millisecond)
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() { w.Take(l, ask("user", "rph", 1)) })
			}
			time.Sleep(20 * time.Millisecond)
			if shard == 3 {
				w.halve(l, 1)
			}
			bucketRequests(api)
			late.Open()
			all.Wait()
			driverOf(l).Settle()
			if sent := bucketRequests(api); len(sent) > 0 {
				w.Errorf("sent after all had been answered: %v", sent)
			}
		}
		for range 40 {
			w.Serve(l, ask("user", "rph", 1))
		}
		driverOf(l).Settle()
		if sent := bucketRequests(api); len(sent) != 40 {
			w.Errorf("%d requests for 40: %v", len(sent), sent)
		}
	})
}

// A bucket that is doubled again right after a merge is a new set of shards. A client's
// memory of the old set neither admits too much nor refuses.
func TestDoubledAgainAfterAMerge(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		daily := limiter.PerDay("rph", 8000)
		w.System(daily)
		w.plant("user", daily, 4, 900_000, 900_000, 100_000, 300_000)
		stale := w.NewLimiter(w.Store, limiter.Options{Trust: -1})
		w.survey(stale, "user", daily)
		w.halve(w.Limiter, 2)
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		if got := w.count(); got != 4 || w.total() != 2_200_000 {
			w.Fatalf("%d shards hold %d", got, w.total())
		}
		for taken := int64(0); ; taken += 100 {
			refused := w.Take(stale, ask("user", "rph", 100))
			if left := w.total(); left != 2_200_000-1000*taken-1000*100 && refused == nil || refused != nil && (left >= 100_000 || taken != 2200) {
				w.Fatalf("%d left after %d were taken: %v", left, taken, refused)
			}
			if refused != nil {
				break
			}
		}
	})
}

// Two clients merge the same shards, one doubles them, one mends them and one deletes a
// shard, all at once. In any order, the set is whole in the end, and no tokens were
// created.
func TestMergesRaceWithWhateverElse(t *testing.T) {
	const seeds = 30
	for seed := range uint64(seeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond, P99: 20 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
				r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a seed is a history
				daily := limiter.PerDay("rph", 8000)
				w.System(daily)
				w.plant("user", daily, 4, each(4, 1_000_000)...)
				b := limiter.Bucket{Entity: "user", Resource: "gpt-4"}
				var all sync.WaitGroup
				for _, f := range []func(*limiter.Limiter){
					func(l *limiter.Limiter) { w.merge(l) },
					func(l *limiter.Limiter) { w.merge(l) },
					func(l *limiter.Limiter) { driverOf(l).DoubleNow(w.Context(), "user", "gpt-4") },
					func(l *limiter.Limiter) { w.Must(driverOf(l).Mend(w.Context(), b)) },
					func(l *limiter.Limiter) { w.Take(l, ask("user", "rph", 10)) },
					func(l *limiter.Limiter) { w.Take(l, ask("user", "rph", 1800)) },
					func(*limiter.Limiter) {
						if seed%2 == 0 {
							w.lose(1 + int(seed)%3)
						}
					},
				} {
					l := w.NewLimiter(w.Store, limiter.Options{})
					w.survey(l, "user", daily)
					wait := time.Duration(r.Int64N(int64(15 * time.Millisecond)))
					all.Go(func() { time.Sleep(wait); f(l); driverOf(l).Settle() })
				}
				all.Wait()
				w.Must(driverOf(w.Limiter).Mend(w.Context(), b))
				w.count()
				if left := w.total(); left > 2_190_000+1000 || seed%2 == 1 && left < 2_190_000-50 {
					w.Errorf("%d are left of 4,000,000 less 1,810,000", left)
				}
			})
		})
	}
}

// A merge whose answer is lost, so that its outcome is unknown, took place exactly
// once.
func TestAMergeWhoseAnswerIsLost(t *testing.T) {
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 4, each(4, 500_000)...)
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, faults.On(faults.LoseAnswer(errors.New("connection reset")), faults.TransactWriteItems))), limiter.Options{})
		images, err := driverOf(l).Shards(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4"})
		w.Must(err)
		if merged, err := driverOf(l).Merge(w.Context(), images); merged || !errors.Is(err, limiter.ErrUnavailable) {
			w.Errorf("merged %v: %v", merged, err)
		}
		if merged, err := driverOf(l).Merge(w.Context(), images); merged || err != nil { // the shards are no longer as in the images
			w.Errorf("merged %v: %v", merged, err)
		}
		if got := w.count(); got != 2 || w.total() != 2_000_000 {
			w.Errorf("%d shards hold %d", got, w.total())
		}
	})
}

// The last split of a doubling takes long. Others finish the doubling and merge the bucket,
// and then shard 0 is lost. The doubling does not make it again with the number from before
// the merge: another call of the process has seen a smaller one.
func TestAShardLostAfterAMergeIsNotMadeByADoublingBefore(t *testing.T) {
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 2, each(2, 800_000)...)
		for shard := range 2 {
			w.patchShard(shard, "SET b_wcu_tk = :n", values{":n": number(-60_000_000)}) // they need more shards
		}
		var l *limiter.Limiter
		var calls sync.WaitGroup
		call := func(tokens int64) {
			calls.Go(func() { _, _ = l.Acquire(w.Context(), ask("user", "rph", tokens)) })
		}
		meanwhile := func(*faults.Call) error {
			other := w.NewLimiter(w.elsewhere(), limiter.Options{})
			w.Must(driverOf(other).Mend(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4"}))
			w.halve(other, 2)
			w.lose(0)
			call(3000) // it reads all shards, and finds shard 1 of 2
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		var once sync.Once
		isLastSplit := func(c *faults.Call) (first bool) {
			if slices.Contains(c.Shards(), 0) {
				once.Do(func() { first = true })
			}
			return first
		}
		check := func(_ *faults.Call, err error) error {
			images := w.Images("user")
			for _, img := range images { // shard 0 gets a number last
				if first := images[0]; first.Shard == 0 && first.ShardCount > img.ShardCount {
					w.Errorf("shard 0 is one of %d, shard %d one of %d", first.ShardCount, img.Shard, img.ShardCount)
				}
			}
			return err
		}
		slow := faults.Chain(faults.When(isLastSplit, faults.Before(meanwhile)), faults.After(check))
		l = w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, faults.On(slow, faults.TransactWriteItems))), limiter.Options{})
		call(1)
		calls.Wait()
		driverOf(l).Settle()
	})
}
