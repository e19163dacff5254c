package acquire_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// merge merges the user's bucket once.
func (w *world) merge(l *limiter.Limiter) bool {
	w.Helper()
	images, err := driverOf(l).Shards(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4"})
	w.Must(err)
	merged, err := driverOf(l).Merge(w.Context(), images)
	w.Must(err)
	return merged
}

// halve merges the user's bucket until it has the given number of shards, and fails the
// test otherwise.
func (w *world) halve(l *limiter.Limiter, to int) {
	w.Helper()
	for n := len(w.Images("user")); n > to; n /= 2 {
		synctest.Wait() // what callers of before still write would be in the way
		if !w.merge(l) {
			w.Fatalf("%d shards were not merged", n)
		}
		if got := w.count(); got != n/2 {
			w.Fatalf("%d shards after a merge of %d", got, n)
		}
	}
}

// balanceAt returns what a shard holds of a limit at an instant, by its own share.
func balanceAt(img *store.Image, s store.LimitState, at int64) int64 {
	part := bucket.Limit{Capacity: s.Capacity, Amount: s.Amount, Period: s.Period}.Share(img.Shard, img.ShardCount)
	return part.Balance(s.Tokens, img.RefilledAt, at)
}

// The survivor of a merge holds the sum of both shards. This holds for any balances and
// debts, any tokens earned since, and stamps by any clock.
func TestAMergeIsTheSumOfItsShards(t *testing.T) {
	const seeds = 40
	for seed := range uint64(seeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seed is a history
				n := 2 << r.IntN(5)
				l := limiter.PerHour("rph", 1+r.Int64N(5000))
				w.System(l)
				for i := range n {
					part := l.Capacity * 1000 / int64(n)
					w.plantShard("user", l, i, n, []int64{0, part, r.Int64N(part), -r.Int64N(part)}[r.IntN(4)])
					ahead := r.Int64N(25_000) // some by fast clocks
					w.patchShard(i, "SET rf = rf + :a, b_rph_tc = :c", values{":a": number(int(ahead)), ":c": number(i)})
				}
				time.Sleep(time.Duration(r.Int64N(int64(90 * time.Second))))
				before := w.Images("user")
				w.halve(w.Limiter, n/2)
				for i, img := range w.Images("user") {
					s, _ := img.Limit("rph")
					at := max(time.Now().UnixMilli(), before[i].RefilledAt+1, before[i+n/2].RefilledAt+1)
					want := int64(0)
					for _, old := range []*store.Image{before[i], before[i+n/2]} {
						was, _ := old.Limit("rph")
						want += balanceAt(old, was, at)
					}
					was, _ := before[i].Limit("rph")
					if s.Tokens != want || img.RefilledAt != at || s.Consumed != was.Consumed {
						w.Errorf("shard %d holds %d at %d, %d consumed; want %d at %d, %d", i, s.Tokens, img.RefilledAt, s.Consumed, want, at, was.Consumed)
					}
					if img.Writes.Consumed != before[i].Writes.Consumed+1000 || img.ExpiresAt == before[i].ExpiresAt {
						w.Errorf("shard %d has counted %d writes and expires at %d", i, img.Writes.Consumed, img.ExpiresAt)
					}
				}
			})
		})
	}
}

// attribute sets an attribute of a shard, or removes it if the value is nil.
func (w *world) attribute(shard int, name string, value types.AttributeValue) {
	w.Helper()
	update, of := "SET #a = :v", values{":v": value}
	if value == nil {
		update, of = "REMOVE #a", nil
	}
	w.Must(errOf(w.Engine.UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: w.shardKey(shard), UpdateExpression: &update,
		ExpressionAttributeNames: map[string]string{"#a": name}, ExpressionAttributeValues: of,
	})))
}

// Shards that disagree, or that are not plain buckets, are left alone. That costs one
// read and no write.
func TestWhatIsNotMerged(t *testing.T) {
	for name, upset := range map[string]func(*world){
		"there is one": func(w *world) {
			w.lose(1)
			w.lose(2)
			w.lose(3)
			w.patch("SET shard_count = :n", values{":n": number(1)})
		},
		"one is missing":           func(w *world) { w.lose(2) },
		"shard 0 is missing":       func(w *world) { w.lose(0) },
		"a doubling is half done":  func(w *world) { w.patchShard(3, "SET shard_count = :n", values{":n": number(8)}) },
		"one has another capacity": func(w *world) { w.patchShard(3, "SET b_rph_cp = :n", values{":n": number(5_000_000)}) },
		"one has another limit": func(w *world) {
			w.patchShard(3, "SET b_rps_cp = :n, b_rps_ra = :n, b_rps_rp = :n, b_rps_tk = :n", values{":n": number(1000)})
		},
		"one belongs to a parent": func(w *world) {
			w.patchShard(3, "SET parent_id = :p", values{":p": &types.AttributeValueMemberS{Value: "project"}})
		},
		"one is of a new generation": func(w *world) { w.patchShard(3, "SET pgen = :n", values{":n": number(2)}) },
		"one cascades": func(w *world) {
			w.attribute(3, "cascade", &types.AttributeValueMemberBOOL{Value: true})
		},
		"one is disabled": func(w *world) {
			w.patchShard(3, "SET disabled = :t", values{":t": &types.AttributeValueMemberBOOL{Value: true}})
		},
		"one is to be trimmed":    func(w *world) { w.patchShard(3, "SET vu = :n", values{":n": number(0)}) },
		"one is valid for a time": func(w *world) { w.patchShard(3, "SET vu = :n", values{":n": number(1 << 50)}) },
		"one has expired":         func(w *world) { w.attribute(3, "ttl", number(1)) },
		"one never expires":       func(w *world) { w.attribute(3, "ttl", nil) },
		"one has too much":        func(w *world) { w.patchShard(3, "SET b_rph_tk = :n", values{":n": number(1_000_001)}) },
		"one has a schedule": func(w *world) {
			w.patchShard(3, "SET sched = :p", values{":p": &types.AttributeValueMemberS{Value: "2h9s500"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			tapped(t, limiter.Options{}, func(w *world, api *faults.Tap) {
				w.plant("user", hourly, 4, each(4, 900_000)...)
				upset(w)
				before := w.Images("user")
				images, err := driverOf(w.Limiter).Shards(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4", Shard: 2})
				w.Must(err)
				bucketRequests(api)
				if merged, err := driverOf(w.Limiter).Merge(w.Context(), images); merged || err != nil {
					w.Errorf("merged: %v, %v", merged, err)
				}
				if sent := bucketRequests(api); len(sent) > 0 {
					w.Errorf("sent %v", sent)
				}
				for i, img := range w.Images("user") {
					if s, _ := img.Limit("rph"); img.RefilledAt != before[i].RefilledAt || s.Tokens == 0 {
						w.Errorf("shard %d is %+v", img.Shard, img)
					}
				}
			})
		})
	}
}

// A client that remembers more shards than there are finds the remaining ones. Its
// requests are admitted or refused as those of an informed client, with few extra
// requests.
func TestAStaleClientFindsTheOthers(t *testing.T) {
	for _, tt := range []struct{ from, to, first int }{{2, 1, 3}, {4, 2, 3}, {32, 16, 3}, {32, 4, 3}, {32, 1, 3}} {
		for _, want := range []string{"little", "much", "all"} {
			for draw := range 8 {
				t.Run(fmt.Sprintf("%d to %d, asks for %s, %d", tt.from, tt.to, want, draw), func(t *testing.T) {
					tapped(t, limiter.Options{}, func(w *world, api *faults.Tap) {
						w.plant("user", hourly, tt.from, each(tt.from, 3_200_000/int64(tt.from))...)
						stale := w.NewLimiter(w.OpenOn(api), limiter.Options{InFlight: -1}) // never pauses
						w.survey(stale, "user", hourly)
						time.Sleep(2 * time.Second) // no remembered image is trusted any more, and two tokens are earned
						w.halve(w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{}), tt.to)
						bucketRequests(api)
						left := w.Balance("user", "rph")
						bucketRequests(api)
						n := map[string]int64{"little": left / 80, "much": left / 3, "all": left}[want]
						for took := false; left >= n; left -= n {
							if refused := w.Take(stale, ask("user", "rph", n)); refused != nil {
								w.Fatalf("with %d left: %v", left, refused)
							}
							if sent := bucketRequests(api); !took && len(sent) > tt.first {
								w.Errorf("%d requests for the first: %v", len(sent), sent)
							}
							took = true
							driverOf(stale).Settle()
						}
						if refused := w.Take(stale, ask("user", "rph", left+1)); refused == nil {
							w.Error("admitted what is not there")
						}
						driverOf(stale).Settle()
						if got := w.count(); got != tt.to || stale.Stats().Doublings != 0 {
							w.Errorf("%d shards after %d doublings", got, stale.Stats().Doublings)
						}
					})
				})
			}
		}
	}
}

// Leases from before a merge are settled exactly, whether their shards are retired by
// it or not. They may have been debited by one write or by several.
func TestLeasesOutliveAMerge(t *testing.T) {
	for _, to := range []int{4, 2, 1} {
		for _, knows := range []bool{true, false} {
			t.Run(fmt.Sprintf("8 to %d, %v", to, knows), func(t *testing.T) {
				inEachWorld(t, limiter.Options{Trust: -1}, func(w *world) {
					daily := limiter.PerDay("rph", 8000)
					w.System(daily)
					w.plant("user", daily, 8, each(8, 500_000)...)
					kept := int64(0)
					var leases []*limiter.Lease
					for i := range 24 {
						lease := w.Lease(w.Limiter, ask("user", "rph", []int64{10, 20, 700}[i%3/2*2]))
						leases = append(leases, lease)
						if i > 6 && i%3 == 2 {
							w.Must(lease.Rollback(w.Context()))
							leases = leases[:len(leases)-1]
						}
					}
					merger := w.NewLimiter(w.Store, limiter.Options{})
					if knows {
						merger = w.Limiter
					}
					w.halve(merger, to)
					var all sync.WaitGroup
					for i, lease := range leases {
						held := lease.Consumed()["rph"]
						switch i % 4 {
						case 0:
							held = 0
						case 1:
							held += 15
							w.Must(lease.Adjust("rph", 15))
						case 2:
							held -= 5
							w.Must(lease.Adjust("rph", -5))
						}
						kept += held
						settle := lease.Commit
						if held == 0 {
							settle = lease.Rollback
						}
						all.Go(func() { w.Must(settle(w.Context())) })
					}
					all.Wait()
					if got := w.total(); got != 4_000_000-kept*1000 {
						w.Errorf("%d are left of 4,000,000 less %d", got, kept*1000)
					}
					if got := w.count(); got != to {
						w.Errorf("%d shards", got)
					}
				})
			})
		}
	}
}

// Tokens that a lease returns to a retired shard go to its heir, at the price of one
// more request and a read.
func TestAnHeirGetsWhatIsReturned(t *testing.T) {
	tapped(t, limiter.Options{}, func(w *world, api *faults.Tap) {
		w.plant("user", hourly, 8, each(8, 400_000)...)
		w.survey(w.Limiter, "user", hourly)
		merger := w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{})
		var leases []*limiter.Lease
		for range 24 {
			lease := w.Lease(w.Limiter, ask("user", "rph", 20))
			leases = append(leases, lease)
		}
		w.halve(merger, 4)
		most := 0
		for _, lease := range leases {
			bucketRequests(api)
			w.Must(lease.Rollback(w.Context()))
			most = max(most, len(bucketRequests(api)))
		}
		for _, img := range w.Images("user") {
			if s, _ := img.Limit("rph"); s.Tokens != 800_000 {
				w.Errorf("shard %d holds %d", img.Shard, s.Tokens)
			}
		}
		if most != 3 {
			w.Errorf("%d requests for a rollback", most)
		}
	})
}

// Callers in the lane of a retired shard learn of the merge together.
func TestACrowdAtARetiredShard(t *testing.T) {
	inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond, P99: 5 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 2, each(2, 1_000_000)...)
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{InFlight: 1})
		w.survey(l, "user", hourly)
		w.halve(w.Limiter, 1)
		bucketRequests(api)
		start := time.Now()
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				w.Serve(l, ask("user", "rph", 1))
			})
		}
		all.Wait()
		sent, took := bucketRequests(api), time.Since(start)
		alone := 0
		for _, r := range sent {
			if slices.Equal(r.Shards, []int{1}) {
				alone++
			}
		}
		if alone > 1 || len(sent) > 12 || took > 40*time.Millisecond {
			w.Errorf("%d requests for 40, %d of them for the shard that is gone, in %v: %v", len(sent), alone, took, sent)
		}
	})
}
