package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A random history has many callers that arrive, leave, settle and meet faults. Every
// caller is answered, and leases never hold more than the bucket has. At the end, the
// bucket lacks exactly the tokens that leases hold.
func TestTheBooksBalance(t *testing.T) {
	t.Parallel()
	theBooksBalance(t, isTypical)
}

// The same for all other histories.
func TestLongTheBooksBalance(t *testing.T) {
	t.Parallel()
	theBooksBalance(t, func(seed uint64) bool { return !isTypical(seed) })
}

// isTypical picks histories with each number of shards, and each way of sharing writes.
func isTypical(seed uint64) bool { return seed%5 == 0 }

// theBooksBalance plays the histories that are wanted.
func theBooksBalance(t *testing.T, wanted func(seed uint64) bool) {
	t.Helper()
	for seed := range uint64(24) {
		if !wanted(seed) {
			continue
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 5))
			o := limiter.Options{InFlight: []int{1, 2, 8, 0}[seed%4], Trust: time.Duration(seed%2)*time.Second - 1}
			inFarWorld(t, o, func(w *far) {
				const capacity = 600
				throttles := seed%3 == 0
				w.family(fixed("x", capacity), fixed("y", 10*capacity))
				w.warm(askAll("key", tokens{"x": 0, "y": 0}))
				shards := 1 << (seed / 8) // 1, 2, 4
				for n := 1; n < shards; n *= 2 {
					w.splitKey()
				}
				held := &books{capacity: map[string]int64{"x": capacity, "y": 10 * capacity}, held: make(map[string]int64)}
				before := map[string]int64{}
				for _, e := range []string{"key", "project"} {
					for limit := range held.capacity {
						before[e+limit] = w.Balance(e, limit)
					}
				}
				chance := rand.New(rand.NewPCG(seed, 6))
				w.wire.fails = func(int) (bool, error) {
					w.wire.mu.Lock()
					defer w.wire.mu.Unlock()
					switch r := chance.IntN(20); {
					case r == 0:
						return false, &types.TransactionConflictException{}
					case r == 1 && throttles:
						return false, &types.ProvisionedThroughputExceededException{}
					}
					return false, nil
				}
				var wg sync.WaitGroup
				for range 60 {
					own := rand.New(rand.NewPCG(random.Uint64(), 0))
					wg.Go(func() {
						for range 25 {
							w.visit(own, held)
							time.Sleep(time.Duration(own.Int64N(int64(30 * time.Millisecond))))
						}
					})
				}
				wg.Wait()
				driverOf(w.l).Settle()
				w.wire.fails = nil
				time.Sleep(2 * time.Second)
				for _, end := range held.open {
					w.Must(end(w.Context()))
				}
				driverOf(w.l).Settle()
				for _, e := range []string{"key", "project"} {
					for limit := range held.capacity {
						// A throttled return is lost if no caller is left to repeat it.
						if got, want := w.Balance(e, limit), before[e+limit]-held.held[limit]; got > want || got < want && !throttles {
							t.Errorf("%s holds %d %s, want %d", e, got, limit, want)
						}
					}
				}
				if s := w.l.Stats(); s.Carried == 0 {
					t.Error("nobody was carried along: nothing was tested")
				}
			})
		})
	}
}

// books records what leases hold of each limit. It excludes leases that are about to be
// returned.
type books struct {
	capacity map[string]int64

	mu   sync.Mutex
	held map[string]int64
	open []func(context.Context) error // settlements that were not possible at once
}

// move records that a lease holds other amounts than before.
func (b *books) move(from, to map[string]int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for limit, capacity := range b.capacity {
		b.held[limit] += to[limit] - from[limit]
		// y is lent beyond the capacity.
		if limit == "x" && b.held[limit] > capacity {
			return fmt.Errorf("%d %s are held, of %d", b.held[limit], limit, capacity)
		}
	}
	return nil
}

// settle commits a lease or rolls it back, or keeps it for later if that is not
// possible now.
func (b *books) settle(w *far, end func(context.Context) error) {
	switch err := end(w.Context()); {
	case errors.Is(err, limiter.ErrThrottled), errors.Is(err, limiter.ErrConflict):
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open = append(b.open, end)
	case err != nil:
		w.Error(err)
	}
}

// visit runs one caller once.
func (w *far) visit(random *rand.Rand, b *books) {
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	if random.IntN(4) == 0 {
		time.AfterFunc(time.Duration(random.Int64N(int64(25*time.Millisecond))), cancel)
	}
	x, y := random.Int64N(12), random.Int64N(40)
	lease, err := w.l.Acquire(ctx, askAll("key", tokens{"x": x, "y": y}))
	switch {
	case errors.Is(err, limiter.ErrExceeded), errors.Is(err, context.Canceled), errors.Is(err, limiter.ErrThrottled), errors.Is(err, limiter.ErrConflict):
		return
	case err != nil:
		w.Error(err)
		return
	}
	took := lease.Consumed()
	w.Must(b.move(nil, took))
	time.Sleep(time.Duration(random.Int64N(int64(40 * time.Millisecond))))
	if random.IntN(4) > 0 {
		w.Must(b.move(took, nil))
		b.settle(w, lease.Rollback)
		return
	}
	w.Must(lease.Adjust("x", -random.Int64N(x+1)))
	w.Must(lease.Adjust("y", random.Int64N(20)-min(10, y)))
	w.Must(b.move(took, lease.Consumed()))
	b.settle(w, lease.Commit)
}

// splitKey doubles the key's bucket.
func (w *far) splitKey() {
	w.Helper()
	time.Sleep(2 * time.Second)
	driverOf(w.l).DoubleNow(w.Context(), "key", "gpt-4")
	driverOf(w.l).Settle()
}
