package acquire_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A crowd gets its answers even if the item was deleted, disabled or changed meanwhile.
func TestACrowdMeetsAnotherItemThanItSaw(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*far)
		want   error
		left   int
	}{
		{"swept", func(w *far) { w.sweep() }, nil, 94},
		{"disabled", func(w *far) {
			w.patch("SET disabled = :v", map[string]types.AttributeValue{":v": &types.AttributeValueMemberBOOL{Value: true}})
		}, limiter.ErrDisabled, -1},
		{"with a peer's schedule", func(w *far) {
			w.patch("SET sched = :v, b_x_tk = :z", map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: "2h9-17s500"}, ":z": number(0)})
		}, limiter.ErrUnsupported, -1},
		{"without the limit", func(w *far) {
			w.patch("REMOVE b_x_tk, b_x_tc, b_x_cp, b_x_ra, b_x_rp", nil)
		}, nil, 94},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
				w.System(fixed("x", 100))
				w.warm(ask("user", "x", 10))
				// The second write serves five callers and is the first to meet the
				// change.
				time.AfterFunc(12*time.Millisecond, func() { tt.change(w) })
				all := w.queue(nil, of(6, ask("user", "x", 1))...)
				w.Must(all[0].err)
				for i, c := range all[1:] {
					if !errors.Is(c.err, tt.want) {
						t.Errorf("caller %d: %v, want %v", i+1, c.err, tt.want)
					}
				}
				if tt.left >= 0 {
					w.holds("user", "x", tt.left+1)
				}
			})
		})
	}
}

// Part of a crowd was served, and the others need a comparison of the configuration.
// The callers that have their tokens are not debited again.
func TestPartOfACrowdIsServedWhenAComparisonIsOverdue(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
		w.System(fixed("x", 20))
		w.warm(ask("user", "x", 10))
		w.Must(w.Store.SetSystem(w.Context(), []limiter.Limit{fixed("x", 20)}, ""))
		time.Sleep(2 * limiter.DefaultConfigTTL)
		w.wire.slow = 100 * time.Millisecond // so that the comparison comes too late for the crowd
		all := w.queue(nil, of(8, ask("user", "x", 2))...)
		if served := w.served(all); served != 5 {
			t.Errorf("%d were served, of 5 that 10 tokens do", served)
		}
		w.holds("user", "x", 0)
	})
}

// Both sides of a cascade share writes. The return of what one side debits while the
// other refuses takes as few writes.
func TestCrowdsOfACascade(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
		w.family(fixed("x", 100))
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{fixed("x", 50)}))
		w.warm(ask("key", "x", 10))
		var all []*caller
		writes := w.spent(func() { all = w.queue(nil, of(32, ask("key", "x", 2))...) })
		if served := w.served(all); served != 20 {
			t.Errorf("%d were served, of 20 that 40 tokens do", served)
		}
		// Two writes to each, and the return of twelve callers' tokens to the key.
		if writes > 8 {
			t.Errorf("%d writes for 32 callers", writes)
		}
		w.holds("key", "x", 50, "project", "x", 0)
	})
}

func TestCrowdsOfAShardedBucket(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
		w.System(fixed("x", 4000))
		w.warm(ask("user", "x", 400))
		for range 2 {
			w.double(w.l, "x")
			time.Sleep(2 * time.Second)
		}
		w.warm(ask("user", "x", 10))
		held := int(w.Balance("user", "x"))
		var all []*caller
		writes := w.spent(func() { all = w.queue(nil, of(128, ask("user", "x", 3))...) })
		for _, c := range all {
			w.Must(c.err)
		}
		if writes > 12 {
			t.Errorf("%d writes to 4 shards for 128 callers", writes)
		}
		w.holds("user", "x", held-3*128)
		for _, c := range all {
			w.Must(c.lease.Rollback(w.Context()))
		}
		w.holds("user", "x", held)
	})
}

// Commits and rollbacks share writes as acquires do. Other callers can take the tokens
// that they return.
func TestAdjustmentsShareWrites(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		settle func(i int, l *limiter.Lease) error
		writes int
		left   int
	}{
		{"more", func(_ int, l *limiter.Lease) error {
			return errors.Join(l.Adjust("x", 4), l.Commit(context.Background()))
		}, 2, 1000 - 64*14},
		{"less", func(_ int, l *limiter.Lease) error {
			return errors.Join(l.Adjust("x", -4), l.Commit(context.Background()))
		}, 2, 1000 - 64*6},
		{"back", func(_ int, l *limiter.Lease) error { return l.Rollback(context.Background()) }, 2, 1000},
		{"as it is", func(_ int, l *limiter.Lease) error { return l.Commit(context.Background()) }, 0, 360},
		{"more and less", func(i int, l *limiter.Lease) error {
			return errors.Join(l.Adjust("x", int64(7-14*(i%2))), l.Commit(context.Background()))
		}, 2, 360},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
				w.System(fixed("x", 1000))
				w.warm(ask("user", "x", 0))
				all := w.queue(nil, of(64, ask("user", "x", 10))...)
				var wg sync.WaitGroup
				writes := w.spent(func() {
					for i, c := range all {
						w.Must(c.err)
						wg.Go(func() { w.Must(tt.settle(i, c.lease)) })
						synctest.Wait()
					}
					wg.Wait()
				})
				if writes != tt.writes {
					t.Errorf("%d writes, want %d", writes, tt.writes)
				}
				w.holds("user", "x", tt.left)
			})
		})
	}
}

// Crowds share writes to a parent that has only some of its children's limits.
func TestCrowdsOfAParentThatHasASubset(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
		w.family(fixed("x", 1000), fixed("y", 1000))
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{fixed("y", 500)}))
		w.warm(askAll("key", tokens{"x": 1, "y": 1}))
		var all []*caller
		if writes := w.spent(func() { all = w.queue(nil, of(32, askAll("key", tokens{"x": 2, "y": 3}))...) }); writes > 4 {
			t.Errorf("%d writes to two buckets for 32 callers", writes)
		}
		for i, c := range all {
			w.Must(c.err)
			if c.took > 2*w.wire.wait {
				t.Errorf("caller %d waited %v for writes that take %v", i, c.took, w.wire.wait)
			}
		}
		w.holds("key", "x", 935, "project", "y", 403)
		if got := len(all[5].lease.Statuses()); got != 3 {
			t.Errorf("%d statuses, want two of the key's and one of the project's", got)
		}
	})
}

// Callers of a bucket that cannot be created do not wait for each other one by one.
func TestCallersOfABucketThatNeverIs(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		for i, c := range w.queue(nil, of(32, ask("stranger", "x", 1))...) {
			if !errors.Is(c.err, limiter.ErrNotConfigured) {
				t.Errorf("caller %d: %v", i, c.err)
			}
			if c.took > 6*w.wire.wait {
				t.Errorf("caller %d was told after %v", i, c.took)
			}
		}
	})
}
