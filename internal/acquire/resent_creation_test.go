package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// New entities come at several processes at once, and a part of the writes that make their buckets is lost, or their
// answers. Each request is debited once, and its caller learns that.
func TestLostAnswersToCreationsHarmNobody(t *testing.T) {
	for _, part := range []float64{0.01, 0.1, 0.4} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				const processes, entities = 3, 600
				n := &lossy{world: w, part: part, pace: 5 * time.Millisecond, all: make([]atomic.Pointer[limiter.Limiter], processes)}
				w.System(limiter.PerDay("rpd", 1000))
				for i := range n.all {
					n.all[i].Store(w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, n.hook)), limiter.Options{}))
				}
				var unknown int64
				for i := range entities {
					entity, granted := fmt.Sprint("user-", i), atomic.Int64{}
					var wg sync.WaitGroup
					callers := 2 * (1 + i%processes)
					for k := range callers {
						wg.Go(func() {
							if _, err := n.all[k/2].Load().Acquire(w.Context(), ask(entity, "rpd", 1)); err == nil {
								granted.Add(1)
							}
						})
					}
					wg.Wait()
					n.late.Wait() // for the copies, too
					failed := int64(callers) - granted.Load()
					unknown += failed
					var debited int64
					for _, img := range w.Images(entity) {
						limit, _ := img.Limit("rpd")
						debited += limit.Consumed / 1000
					}
					if debited < granted.Load() || debited > granted.Load()+failed {
						w.Errorf("%s: %d granted, %d failed, %d are debited", entity, granted.Load(), failed, debited)
					}
				}
				// Of fifteen attempts within the time of a call, one arrives, unless four in ten are lost.
				if part <= 0.1 && unknown > 0 || unknown > 10 || n.creations.Load() == 0 {
					w.Errorf("%d failed, with %d of the creations lost", unknown, n.creations.Load())
				}
			})
		})
	}
}

// All answers to the write that makes a bucket are lost, so its caller is told that nobody knows. The next image shows
// that the write landed, and the process returns the tokens, with what it reserved: an item has room for that, for its
// position alone, or for nothing.
func TestACreationThatLandsForNobodyIsReturned(t *testing.T) {
	for _, returns := range []int{0, 100} {
		t.Run(fmt.Sprint(returns, " per cent go back"), func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				var lose atomic.Bool
				l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, func(ctx context.Context, q *faults.Call, next faults.Next) error {
					err := next(ctx)
					if q.Op == "PutItem" && lose.Load() {
						return &timeout{}
					}
					return err
				})), limiter.Options{})
				limit := limiter.PerDay("rpd", 1000)
				limit.Returns = returns
				w.System(limit)
				rooms := map[int]bool{}
				for length := 100; length < 170; length++ {
					entity := strings.Repeat("e", length)
					lose.Store(true)
					if _, err := l.Acquire(w.Context(), ask(entity, "rpd", 10)); !errors.Is(err, limiter.ErrUnavailable) {
						w.Fatalf("the answer is %v", err)
					}
					lose.Store(false)
					room := w.Images(entity)[0].Places()
					rooms[room] = true
					held := w.Lease(l, ask(entity, "rpd", 1))
					time.Sleep(time.Second)
					want := int64(999)
					if room == 0 { // nobody can tell
						want -= 10
					}
					if got := w.Balance(entity, "rpd"); got != want {
						w.Errorf("%d bytes, %d places: %d are left of 1000, want %d", length, room, got, want)
					}
					for _, r := range w.Images(entity)[0].Reservations() {
						if r.Milli != 1000*int64(returns)/100 {
							w.Errorf("%d bytes: %v is reserved, one token is held", length, r)
						}
					}
					w.Must(held.Rollback(w.Context()))
				}
				if want := 2 + returns/100; len(rooms) != want || l.Stats().Reclaimed == 0 {
					w.Errorf("rooms of %v places, want %d of them", rooms, want)
				}
			})
		})
	}
}
