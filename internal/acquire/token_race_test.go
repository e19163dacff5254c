package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// behind is another process with the key of most tests, whose transactions pass a hook.
func (w *world) behind(h faults.Hook) *limiter.Limiter {
	w.Helper()
	return w.NewLimiter(w.OpenOn(faults.Wrap(w.API, faults.On(h, "TransactWriteItems"))), withKeys(tokenKey))
}

// once makes a hook do something before the first request.
func once(f func()) faults.Hook {
	var done atomic.Bool
	return faults.Before(func(*faults.Call) error {
		if done.CompareAndSwap(false, true) {
			f()
		}
		return nil
	})
}

// counts is how many whole tokens the user's bucket has counted as consumed of a limit.
func (w *world) counts(limit string) (tokens int64) {
	w.Helper()
	for _, img := range w.Images("user") {
		s, _ := img.Limit(limit)
		tokens += s.Consumed / 1000
	}
	return tokens
}

// Two processes settle a lease at the same time, in different ways: one of them does it, whichever
// request arrives first and whichever answer comes first.
func TestTwoSettleALeaseAtTheSameTime(t *testing.T) {
	for name, held := range map[string]func(*faults.Gate) faults.Hook{
		"held requests": func(g *faults.Gate) faults.Hook { return g.Requests },
		"held answers":  func(g *faults.Gate) faults.Hook { return g.Answers },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, withKeys(tokenKey), func(w *world) {
				w.System(fixed("rph", 10))
				text, gate := w.token(w.Lease(w.Limiter, ask("user", "rph", 6))), faults.NewGate()
				slow := w.resume(w.behind(held(gate)), text)
				w.Must(slow.Settle("rph", 2))
				ended := make(chan error)
				go func() { ended <- slow.Commit(w.Context()) }()
				time.Sleep(time.Second)
				fast := w.resume(w.another(), text).Rollback(w.Context())
				gate.Open()
				commit := <-ended
				want := map[bool]int{true: 10, false: 8}[fast == nil]
				if (fast == nil) == (commit == nil) || !errors.Is(errors.Join(fast, commit), limiter.ErrSettled) {
					w.Errorf("rolled back: %v; committed: %v", fast, commit)
				}
				w.holds("user", "rph", want)
			})
		})
	}
}

// A settlement whose request is under way when its time is up may still land. Whoever settles the lease
// meanwhile, it is settled once.
func TestALostSettlementLandsLate(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(fixed("rph", 10))
		text, gate := w.token(w.Lease(w.Limiter, ask("user", "rph", 6))), faults.NewGate()
		late := make(chan error, 1)
		l := w.behind(func(ctx context.Context, _ *faults.Call, next faults.Next) error {
			go func() {
				ctx := context.WithoutCancel(ctx)
				late <- gate.Requests(ctx, nil, next)
			}()
			<-ctx.Done()
			return ctx.Err()
		})
		lease := w.resume(l, text)
		if err := lease.Rollback(w.Context()); !errors.Is(err, limiter.ErrUnavailable) {
			w.Fatalf("a settlement without an answer: %v", err)
		}
		driverOf(l).Settle()
		w.Must(w.resume(w.another(), text).Rollback(w.Context()))
		w.Take(w.Limiter, ask("user", "rph", 9))
		gate.Open()
		if err := <-late; err == nil {
			w.Error("the lost request landed after another settlement")
		}
		w.holds("user", "rph", 1)
	})
}

// The buckets change between plan and transaction, or between take and settlement: nothing is returned
// twice, nothing is lost, and no balance is above its capacity.
func TestABucketChangesBeforeALeaseIsSettled(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a take":     func(w *world) { w.Take(w.Limiter, ask("user", "rph", 3)) },
		"a doubling": func(w *world) { driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4") },
		"a merge":    func(w *world) { w.halve(w.Limiter, 2) },
		"an edit":    func(w *world) { w.System(fixed("rph", 30)); w.Take(w.another(), ask("user", "rph", 0)) },
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, early: %t", name, early), func(t *testing.T) {
				inWorld(t, withKeys(tokenKey), func(w *world) {
					w.System(fixed("rph", 40), limiter.PerMinute("rpm", 6000))
					w.onShards(w.Limiter, 4)
					text := w.token(w.Lease(w.Limiter, ask("user", "rph", 25)))
					second := func() {}
					if early {
						change(w)
					} else {
						second = func() { change(w) }
					}
					before := w.Balance("user", "rph")
					l := w.behind(once(second))
					w.Take(l, ask("user", "rph", 0))
					lease := w.resume(l, text)
					w.Must(lease.Settle("rph", 5))
					w.Must(lease.Commit(w.Context()))
					want := min(before+20, 40)
					if !early && name == "a take" {
						want -= 3
					}
					if name == "an edit" {
						want = 30 // the capacity by then, which some shards had reached
					}
					w.holds("user", "rph", int(want))
				})
			})
		}
	}
}

// A bucket that is gone is full, so a settlement has nothing to return to it. One that was made again
// gets the credit, up to its capacity, once, even if its entity was deleted between two settlements.
func TestABucketIsGoneBeforeALeaseIsSettled(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(fixed("rph", 10))
		w.Entities(limiter.Entity{ID: "user"})
		gone := w.token(w.Lease(w.Limiter, ask("user", "rph", 6)))
		again := w.token(w.Lease(w.Limiter, ask("user", "rph", 4)))
		w.lose(0)
		w.Must(w.resume(w.another(), gone).Rollback(w.Context()))
		if images := w.Images("user"); len(images) > 0 {
			w.Fatalf("a settlement made %d shards", len(images))
		}
		w.Take(w.another(), ask("user", "rph", 3))
		w.Must(w.resume(w.another(), gone).Rollback(w.Context()))
		w.holds("user", "rph", 7)
		w.Must(w.resume(w.another(), again).Rollback(w.Context()))
		w.holds("user", "rph", 10)
		w.Must(errOf(w.Store.DeleteEntity(w.Context(), "user")))
		w.Take(w.another(), ask("user", "rph", 3))
		w.Must(w.resume(w.another(), again).Rollback(w.Context()))
		w.holds("user", "rph", 7)
	})
}

// What was taken of a quota in two periods returns to the one that has not ended. The rest is
// counted as returned, and so is all, once both have ended.
func TestAWrittenLeaseReturnsToItsPeriod(t *testing.T) {
	day, err := limiter.ParseRenewal("day", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		renews *limiter.Renewal
		period time.Duration
	}{
		"a quota":   {day, 24 * time.Hour},
		"a session": {sessionOf(t, 10).Renews, 5 * time.Hour},
	} {
		for periods, want := range map[int]int{0: 10, 1: 9} { // of the last period, which has begun with 10
			t.Run(fmt.Sprintf("%s, %d periods later", name, periods), func(t *testing.T) {
				inWorld(t, withKeys(tokenKey), func(w *world) {
					w.System(limiter.Quota("rpd", 10, tt.renews))
					lease := w.Lease(w.Limiter, ask("user", "rpd", 4))
					time.Sleep(tt.period)
					w.Must(lease.Take(w.Context(), tokens{"rpd": 3}))
					text := w.token(lease)
					time.Sleep(time.Duration(periods) * tt.period)
					if periods > 0 {
						w.Take(w.Limiter, ask("user", "rpd", 1))
					}
					w.Must(w.resume(w.another(), text).Rollback(w.Context()))
					w.holds("user", "rpd", want)
					if got := w.counts("rpd"); got != int64(periods) {
						w.Errorf("%d are counted as consumed, want %d", got, periods)
					}
				})
			})
		}
	}
}

// What a bypassed bucket has counted returns to no balance, also beside what was taken of one, and
// also if a schedule has changed, so that the settlement refills.
func TestAWrittenLeaseReturnsWhatWasCounted(t *testing.T) {
	afternoon, err := limiter.ParseSchedule("* 13 * * * x2", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	for _, varies := range []*limiter.Schedule{nil, afternoon} {
		t.Run(fmt.Sprintf("scheduled: %t", varies != nil), func(t *testing.T) {
			inWorld(t, withKeys(tokenKey), func(w *world) {
				w.System(limiter.Custom("rph", 1, 365*24*time.Hour, limiter.Burst(10), limiter.Varies(varies)))
				k := limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}
				taken := w.Lease(w.Limiter, ask("user", "rph", 4))
				w.Must(errOf(w.Store.SetSwitch(w.Context(), k, dynamo.Switch{Policy: store.Bypass}, nil)))
				w.Must(taken.Take(w.Context(), tokens{"rph": 30}))
				both, counted := w.token(taken), w.token(w.Lease(w.Limiter, ask("user", "rph", 50)))
				w.Must(errOf(w.Store.SetSwitch(w.Context(), k, dynamo.Switch{}, nil)))
				if got := w.counts("rph"); got != 84 {
					w.Fatalf("%d counted", got)
				}
				lease := w.resume(w.another(), counted)
				w.Must(lease.Settle("rph", 60))
				w.Must(lease.Commit(w.Context()))
				w.holds("user", "rph", 6)
				time.Sleep(13 * time.Hour)
				w.Must(w.resume(w.another(), both).Rollback(w.Context()))
				w.holds("user", "rph", 10)
				if got := w.counts("rph"); got != 60 {
					w.Errorf("%d are counted as consumed, want 60", got)
				}
			})
		})
	}
}

// The record of a settlement outlives every token of the lease, and no index has it.
func TestARecordOutlivesItsToken(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(fixed("rph", 10))
		made := time.Now().Truncate(time.Second)
		text := w.token(w.Lease(w.Limiter, ask("user", "rph", 6)))
		w.Must(w.resume(w.Limiter, text).Rollback(w.Context()))
		_, ns := w.Store.Namespace()
		out, err := w.Engine.Query(w.Context(), &dynamodb.QueryInput{
			TableName: aws.String(table), KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
			ExpressionAttributeValues: schema.Item{
				":pk": schema.S(schema.BucketKey(ns, limiter.Bucket{Entity: "user", Resource: "gpt-4"}).PK), ":sk": schema.S(schema.SettlementPrefix),
			},
		})
		w.Must(err)
		if len(out.Items) != 1 {
			w.Fatalf("%d records", len(out.Items))
		}
		record, err := schema.DecodeOperation(out.Items[0])
		w.Must(err)
		if left := record.Expires.Sub(made.Add(limiter.TokenLife)); left < time.Hour {
			w.Errorf("the record expires %v after the token", left)
		}
		if out.Items[0][schema.GSI4PK] != nil {
			w.Error("the record has index keys")
		}
	})
}

// A credit of a shard that was merged away goes first to the one that took its balance over.
func TestACreditFollowsTheBalance(t *testing.T) {
	t.Parallel()
	shard := func(i, count int) *store.Image {
		return &store.Image{Bucket: store.Bucket{Entity: "user", Resource: "gpt-4", Shard: i}, ShardCount: count}
	}
	two := []*store.Image{shard(0, 2), shard(1, 2)}
	for taken, want := range []int{0, 1, 0, 1} {
		if got := acquire.FirstToSettle(taken, two...); got != want {
			t.Errorf("of shard %d, it goes to %d, want %d", taken, got, want)
		}
	}
}
