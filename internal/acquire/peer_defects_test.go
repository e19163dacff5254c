package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// Each test here has the name of the property that it proves. Its comment gives the
// peer's defect that contradicts this property, with the defect's number.

// Peer defect 7.1: moving the shared stamp for a fast limit starves a slow limit.
func TestLongSlowLimitAccruesBesideAFastOne(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerSecond("rps", 1), limiter.PerDay("rpd", 86))
		w.Serve(w.Limiter, ask("user", "rpd", 86))
		// One request a second: each acquire refills, and stamps, the whole item.
		w.admitted(w.Limiter, ask("user", "rps", 1), time.Second, 4*time.Hour)
		if got := w.Balance("user", "rpd"); got != 14 {
			w.Errorf("86 a day earned %d in four hours, want 14", got)
		}
	})
}

// Peer defect 7.2: tokens that accrue between the admission and the commit are lost.
func TestLongRunRateIsTheConfiguredRateUnderLatency(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		slow := faults.Wrap(w.Engine, latency(19*time.Millisecond))
		l := w.NewLimiter(w.OpenOn(slow), limiter.Options{})
		w.System(limiter.PerSecond("rps", 10))
		for w.Take(l, ask("user", "rps", 1)) == nil {
			continue // until the burst is gone
		}
		const seconds = 200
		got := w.admitted(l, ask("user", "rps", 1), time.Millisecond, seconds*time.Second)
		if want := 10 * seconds; got < want*99/100 || got > want+1 {
			w.Errorf("admitted %d in %d s, want %d", got, seconds, want)
		}
	})
}

// Peer defect 7.3: a changed default never reaches a bucket that stays active.
func TestChangedDefaultReachesAnActiveBucketWithinTheTTL(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		other := w.OpenOn(w.Engine) // another process: nothing informs this limiter
		w.Must(other.SetSystem(w.Context(), []limiter.Limit{limiter.PerMinute("rpm", 10)}, ""))
		w.admitted(w.Limiter, ask("user", "rpm", 1), time.Second, 3*time.Minute)

		w.Must(other.SetSystem(w.Context(), []limiter.Limit{limiter.PerMinute("rpm", 600)}, ""))
		w.admitted(w.Limiter, ask("user", "rpm", 1), time.Second, limiter.DefaultConfigTTL)
		if got := w.admitted(w.Limiter, ask("user", "rpm", 1), 100*time.Millisecond, time.Minute); got < 590 {
			w.Errorf("a minute after 10 became 600 a minute, %d of 600 were admitted", got)
		}

		w.Must(other.SetLimits(w.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", 6)}))
		w.admitted(w.Limiter, ask("user", "rpm", 1), time.Second, limiter.DefaultConfigTTL)
		if got := w.Balance("user", "rpm"); got > 6 {
			w.Errorf("a minute after 600 became 6 a minute, %d are held", got)
		}
		if got := w.admitted(w.Limiter, ask("user", "rpm", 1), time.Second, 10*time.Minute); got > 66 {
			w.Errorf("%d admitted in ten minutes at 6 a minute", got)
		}
	})
}

// Peer defect 7.9: a request above the capacity is quoted a wait that never pays off.
func TestRequestAboveTheCapacityIsNeverAdmissible(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 10))
		for _, state := range []string{"before the bucket exists", "when it is full", "when it is empty"} {
			refused := w.Take(w.Limiter, ask("user", "rpm", 11))
			if refused == nil || refused.RetryAfter() != limiter.Never {
				w.Errorf("%s: 11 of 10: %v, want never", state, refused)
			}
			w.Take(w.Limiter, ask("user", "rpm", 5))
		}
	})
}

// Peer defect 7.9 as well: a request above one shard's share stalls for ever. Shares
// are rounded down, so sharding loses capacity.
func TestRequestsAboveAShareAreServedByTheWhole(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 10, limiter.Burst(10)))
		w.Take(w.Limiter, ask("user", "rpm", 10))
		// A peer doubled the bucket to 8 shards and created none. Of 10 tokens, shard 0
		// holds 1.25.
		w.patch("SET shard_count = :n", map[string]types.AttributeValue{":n": number(8)})
		fresh := w.NewLimiter(w.Store, limiter.Options{Trust: -1, Rand: func(int64) int64 { return 0 }})
		time.Sleep(time.Minute)
		if refused := w.Take(fresh, ask("user", "rpm", 1)); refused != nil {
			w.Fatalf("1 of a share of 1.25: %v", refused)
		}
		// A quarter is left, and the whole bucket earns a token every 6 s. All shards
		// reach their grid lines together, at every 8th line of the whole bucket.
		for _, tt := range []struct {
			take int64
			wait time.Duration
		}{{1, 4500 * time.Millisecond}, {2, 10500 * time.Millisecond}} {
			refused := w.Take(fresh, ask("user", "rpm", tt.take))
			if refused == nil || refused.RetryAfter() < tt.wait || refused.RetryAfter() > tt.wait+48*time.Millisecond {
				w.Errorf("%d of a quarter at 10 a minute: %v, want %v", tt.take, refused, tt.wait)
			}
		}
		if refused := w.Take(fresh, ask("user", "rpm", 11)); refused == nil || refused.RetryAfter() != limiter.Never {
			w.Errorf("11 of 10: %v, want never", refused)
		}
		time.Sleep(2 * time.Minute)
		if refused := w.Take(fresh, ask("user", "rpm", 10)); refused != nil {
			w.Errorf("all of 10: %v", refused)
		}
	})
}

// Peer defect 7.10: a request for zero tokens is refused while the limit is in debt.
func TestAmountZeroIsAdmittedInDebt(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10))
		lease := w.Lease(w.Limiter, askAll("user", tokens{"rpm": 1, "tpm": 0}))
		w.Must(lease.Adjust("tpm", 101))
		w.Must(lease.Commit(w.Context()))
		if got := w.Balance("user", "tpm"); got != -91 {
			w.Fatalf("balance %d, want -91", got)
		}
		w.Serve(w.Limiter, askAll("user", tokens{"rpm": 1, "tpm": 0}))
		if refused := w.Take(w.Limiter, ask("user", "tpm", 1)); refused == nil || refused.RetryAfter() != 552*time.Second {
			w.Errorf("92 tokens at 10 a minute: %v, want 552s", refused)
		}
	})
}

// Peer defect 7.12: a bucket that is swept between read and write refuses a request
// that it has tokens for.
func TestABucketSweptUnderwayIsMadeAnew(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 10))
		w.Take(w.Limiter, ask("user", "rpm", 10))
		time.Sleep(3 * time.Second)
		// The refill is planned on the remembered image, but the item is gone.
		w.sweep()
		w.Serve(w.Limiter, ask("user", "rpm", 1))
		if got := w.Balance("user", "rpm"); got != 9 {
			w.Errorf("available %d, want 9", got)
		}
	})
}

// An expired item that is not yet swept is renewed with its balance.
func TestAnExpiredBucketIsRenewed(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 10))
		lease := w.Lease(w.Limiter, ask("user", "rpm", 0))
		w.Must(lease.Adjust("rpm", 100))
		w.Must(lease.Commit(w.Context()))
		time.Sleep(7*time.Minute + time.Second) // 7 times the minute it takes to fill
		if refused := w.Take(w.Limiter, ask("user", "rpm", 1)); refused == nil {
			w.Error("the debt was forgotten")
		}
		time.Sleep(3 * time.Minute)
		w.Serve(w.Limiter, ask("user", "rpm", 1))
	})
}

// Peer defect 7.13: a cancelled caller skips the rollback.
func TestACallerThatLeavesGetsItsTokensBack(t *testing.T) {
	for _, d := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 25 * time.Millisecond, 35 * time.Millisecond} {
		for _, leave := range []string{"cancel", "deadline"} {
			t.Run(fmt.Sprintf("%s after %v", leave, d), func(t *testing.T) {
				inEachWorld(t, limiter.Options{}, func(w *world) {
					w.System(limiter.PerHour("rph", 100))
					w.Entities(limiter.Entity{ID: "project"}, child("key", "project"))
					w.Take(w.Limiter, ask("key", "rph", 1))

					l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, latency(10*time.Millisecond))), limiter.Options{})
					ctx, cancel := context.WithCancel(w.Context())
					defer cancel()
					want := context.Canceled
					if leave == "cancel" {
						time.AfterFunc(d, cancel)
					} else {
						ctx, cancel = context.WithTimeout(ctx, d)
						defer cancel()
						want = context.DeadlineExceeded
					}
					lease, err := l.Acquire(ctx, ask("key", "rph", 10))
					if lease != nil {
						if err := lease.Rollback(ctx); err != nil && !errors.Is(err, want) {
							w.Error(err)
						}
					} else if !errors.Is(err, want) {
						w.Errorf("got %v, want %v", err, want)
					}
					driverOf(l).Settle()
					for _, entity := range []string{"key", "project"} {
						if got := w.Balance(entity, "rph"); got != 99 {
							w.Errorf("%s holds %d, want 99", entity, got)
						}
					}
				})
			})
		}
	}
}

// Peer defect 7.24: a refusal quotes the configuration instead of the limits that the
// bucket enforces.
func TestARefusalQuotesWhatTheBucketEnforces(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 10))
		w.Take(w.Limiter, ask("user", "rpm", 10))
		w.Must(w.OpenOn(w.Engine).SetSystem(w.Context(), []limiter.Limit{limiter.PerMinute("rpm", 20)}, ""))
		for minute := range 3 {
			refused := w.Take(w.Limiter, ask("user", "rpm", 10))
			if refused == nil {
				w.Fatal("not refused")
			}
			s := refused.Statuses[0]
			if got, want := s.RetryAfter, time.Duration(10-s.Available)*s.Limit.Period/time.Duration(s.Limit.Amount); got > want || got < want-s.Limit.Period/time.Duration(s.Limit.Amount) {
				w.Errorf("minute %d: %d available at %d a minute, yet the wait is %v", minute, s.Available, s.Limit.Amount, got)
			}
			time.Sleep(refused.RetryAfter() - time.Millisecond)
			if w.Take(w.Limiter, ask("user", "rpm", 10)) == nil {
				w.Errorf("minute %d: admitted 1 ms early", minute)
			}
			time.Sleep(time.Millisecond)
			if refused := w.Take(w.Limiter, ask("user", "rpm", 10)); refused != nil {
				w.Errorf("minute %d: %v", minute, refused)
			}
		}
	})
}

// latency delays every update.
func latency(roundTrip time.Duration) faults.Hook {
	return faults.On(faults.Latency(roundTrip), faults.UpdateItem)
}

func number(n int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
}

func errOf[T any](_ T, err error) error { return err }

// bucketKey returns the key of shard 0 of the user's bucket.
func (w *world) bucketKey() map[string]types.AttributeValue { return w.shardKey(0) }

func (w *world) shardKey(shard int) map[string]types.AttributeValue {
	return w.shardKeyOf("user", shard)
}

func (w *world) shardKeyOf(entity string, shard int) map[string]types.AttributeValue {
	_, ns := w.Store.Namespace()
	return map[string]types.AttributeValue{
		"PK": &types.AttributeValueMemberS{Value: ns + "/BUCKET#" + entity + "#gpt-4#" + strconv.Itoa(shard)},
		"SK": &types.AttributeValueMemberS{Value: "#STATE"},
	}
}

// patch changes the user's bucket without any limiter's knowledge.
func (w *world) patch(update string, values map[string]types.AttributeValue) {
	w.Helper()
	w.patchShard(0, update, values)
}

func (w *world) patchShard(shard int, update string, values map[string]types.AttributeValue) {
	w.Helper()
	w.Must(errOf(w.Engine.UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: w.shardKey(shard),
		UpdateExpression: &update, ExpressionAttributeValues: values,
	})))
}

// sweep deletes the user's bucket, as expiry does.
func (w *world) sweep() {
	w.Helper()
	w.Must(errOf(w.Engine.DeleteItem(w.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String(table), Key: w.bucketKey(),
	})))
}
