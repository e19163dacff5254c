package acquire_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
)

// greatest earns and holds as much as a limit may.
var greatest = limiter.PerSecond("bytes", limiter.MaxTokens)

// stored returns a number of the user's bucket, of any size.
func (w *world) stored(attr string) *big.Int {
	w.Helper()
	v, ok := w.item()[attr].(*types.AttributeValueMemberN)
	if !ok {
		w.Fatalf("%s is %v", attr, w.item()[attr])
	}
	n, ok := new(big.Int).SetString(v.Value, 10)
	if !ok {
		w.Fatalf("%s is %s", attr, v.Value)
	}
	return n
}

// The count of consumed tokens has no end. When the count passes 64 bits, requests are
// decided, adjusted and returned as before. This holds for a process that has seen the
// bucket before and for one that has not.
func TestACountHasNoEnd(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1, InFlight: -1}, func(w *world) {
		w.System(greatest)
		for i := range 25 {
			l := w.Limiter
			if i%5 == 4 {
				l = w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{Trust: -1, InFlight: -1})
			}
			lease := w.Lease(l, ask("user", "bytes", limiter.MaxTokens/2))
			w.Must(lease.Adjust("bytes", limiter.MaxTokens/2))
			w.Must(lease.Commit(w.Context()))
			if refused := w.Take(l, ask("user", "bytes", limiter.MaxTokens)); refused == nil || refused.RetryAfter() != time.Second {
				w.Fatalf("the bucket is empty, and fills in 1 s: %+v", refused)
			}
			lease = w.Lease(l, ask("user", "bytes", 0))
			w.Must(lease.Rollback(w.Context()))
			time.Sleep(time.Second)
		}
		want := new(big.Int).Mul(big.NewInt(25*1000), big.NewInt(limiter.MaxTokens))
		if got := w.stored("b_bytes_tc"); got.Cmp(want) != 0 || got.IsInt64() {
			w.Errorf("counted %v, want %v", got, want)
		}
	})
}

// near plants a bucket whose counts of writes and of tokens soon exceed 64 bits.
func (w *world) near(count int) {
	w.Helper()
	w.System(hourly)
	var balances []int64
	for range count {
		balances = append(balances, 4_000_000/int64(count))
	}
	w.plant("user", hourly, count, balances...)
	for shard := range count {
		w.patchShard(shard, "SET b_rph_tc = :n", map[string]types.AttributeValue{
			":n": &types.AttributeValueMemberN{Value: "9223372036854770000"},
		})
	}
}

// Shards are split and merged while their counts pass 64 bits, and several processes
// take from them meanwhile. No process takes an old image for a new one, or a written
// item for an unwritten one.
func TestShardsCountAcrossTheEndOf64Bits(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.near(2)
		other := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{Trust: -1})
		total := 0
		takes := func(n int) {
			for i := range 2 * n {
				l := w.Limiter
				if i%2 == 1 {
					l = other
				}
				if w.Take(l, ask("user", "rph", 3)) == nil {
					total += 3
				}
			}
		}
		takes(5)
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		takes(5)
		for w.count() > 1 {
			if !w.merge(w.Limiter) {
				w.Fatal("the shards were not merged")
			}
			takes(5)
		}
		if got := w.Balance("user", "rph"); got != int64(4000-total) {
			w.Errorf("%d are left of 4000 after %d were taken", got, total)
		}
		if w.stored("b_rph_tc").IsInt64() {
			w.Errorf("counted %v, which shows nothing", w.stored("b_rph_tc"))
		}
	})
}

// A debt ends at four times the largest capacity. Commits beyond that are counted but
// not owed, and the wait is exact for every debt.
func TestADebtHasAnEnd(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(greatest)
		var leases []*limiter.Lease
		for range 14 {
			lease := w.Lease(w.Limiter, ask("user", "bytes", 0))
			w.Must(lease.Adjust("bytes", limiter.MaxTokens))
			leases = append(leases, lease)
		}
		for i, lease := range leases {
			w.Must(lease.Commit(w.Context()))
			owed := min(int64(i), 4) // the first takes what the bucket holds
			// Each commit may move the stamp on by a millisecond, and the tokens earned
			// until then are already included.
			least := -owed * limiter.MaxTokens
			if got := w.Balance("user", "bytes"); got < least || got > least+limiter.MaxTokens/50 {
				w.Errorf("after %d commits the bucket holds %d, want %d times the capacity owed", i+1, got, owed)
			}
		}
		refused := w.Take(w.Limiter, ask("user", "bytes", limiter.MaxTokens))
		if refused == nil || refused.RetryAfter() < 5*time.Second || refused.RetryAfter() > 5020*time.Millisecond {
			w.Fatalf("got %+v, want a wait of 5 s", refused)
		}
		time.Sleep(refused.RetryAfter() - time.Millisecond)
		if w.Take(w.Limiter, ask("user", "bytes", limiter.MaxTokens)) == nil {
			w.Error("admitted 1 ms early")
		}
		time.Sleep(time.Millisecond)
		if refused := w.Take(w.Limiter, ask("user", "bytes", limiter.MaxTokens)); refused != nil {
			w.Errorf("after the wait: %v", refused)
		}
		want := new(big.Int).Mul(big.NewInt(15*1000), big.NewInt(limiter.MaxTokens))
		if got := w.stored("b_bytes_tc"); got.Cmp(want) != 0 {
			w.Errorf("counted %v, want %v", got, want)
		}
	})
}

// A debt that a peer has taken beyond 64 bits does not break the bucket. The bucket
// refuses, is split, and admits again once the debt is earned.
func TestADebtBeyond64Bits(t *testing.T) {
	for _, tt := range []struct {
		deep  string
		every time.Duration // interval of the requests
	}{
		{"-9223372036854775808", time.Second},
		{"-9223372036854775809", time.Second},
		{"-30000000000000000000", time.Second},
		{"-30000000000000000000", 20 * time.Second},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
				w.System(greatest)
				w.Take(w.Limiter, ask("user", "bytes", 1))
				w.patch("SET b_bytes_tk = :n", map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: tt.deep}})
				lease := w.Lease(w.Limiter, ask("user", "bytes", 0))
				w.Must(lease.Adjust("bytes", 5))
				w.Must(lease.Commit(w.Context()))
				refused := w.Take(w.Limiter, ask("user", "bytes", 1))
				if refused == nil || refused.RetryAfter() < 8*time.Second || refused.Statuses[0].Available > -8*limiter.MaxTokens {
					w.Fatalf("got %+v", refused)
				}
				driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
				if n := w.count(); n != 2 {
					w.Errorf("%d shards, want 2", n)
				}
				waited := time.Duration(0)
				for ; waited < 3*time.Minute; waited += tt.every {
					if w.Take(w.Limiter, ask("user", "bytes", 1)) == nil {
						break
					}
					time.Sleep(tt.every)
				}
				if waited < 9*time.Second || waited >= 3*time.Minute {
					w.Errorf("admitted after %v", waited)
				}
			})
		})
	}
}

// Shards with the largest debt that commits can cause are merged. The debt is owed in
// full, and the process that merged them knows it.
func TestShardsThatAllOweAreMerged(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(greatest)
		w.plant("user", greatest, 4, each(4, -4_000_000_000_000_000_000)...)
		if w.Take(w.Limiter, ask("user", "bytes", 1)) == nil {
			w.Error("admitted")
		}
		driverOf(w.Limiter).Settle()
		w.halve(w.Limiter, 1)
		if got := w.stored("b_bytes_tk"); got.String() != "-15998000000000000000" { // each merge is stamped 1 ms later
			w.Errorf("the merged shard holds %v", got)
		}
		before := w.Stats().LocallyRefused
		if refused := w.Take(w.Limiter, ask("user", "bytes", 1)); refused == nil || refused.Statuses[0].Available > -7*limiter.MaxTokens {
			w.Errorf("got %+v", refused)
		}
		if w.Stats().LocallyRefused != before+1 {
			w.Error("the image after the merge was of no use")
		}
	})
}

// The debts of many shards together may exceed 64 bits. Callers then get the smallest
// number, and never a surplus.
func TestShardsThatAllOwe(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(greatest)
		owed := make([]int64, 32)
		for i := range owed {
			owed[i] = -8e18
		}
		w.plant("user", greatest, 32, owed...)
		statuses, err := w.Available(w.Context(), ask("user", "bytes", 1))
		w.Must(err)
		if s := statuses[0]; s.Available > math.MinInt64/1000 || !s.Exceeded || s.RetryAfter < 4*time.Minute {
			w.Errorf("got %+v", s)
		}
		if refused := w.Take(w.Limiter, ask("user", "bytes", 1)); refused == nil || refused.RetryAfter() != statuses[0].RetryAfter {
			w.Errorf("refused for %+v, available after %v", refused, statuses[0].RetryAfter)
		}
		// A process that has read only one of the shards assumes that the others owe as
		// much.
		cold := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{})
		lease := w.Lease(cold, ask("user", "bytes", 0))
		if s := lease.Statuses()[0]; s.Available > math.MinInt64/1000 {
			w.Errorf("the lease tells %+v", s)
		}
	})
}
