package slots_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

var errCut = errors.New("connection cut")

// unreliable loses 3 of 100 requests, 3 answers, and delivers 3 writes a second time, up to a
// minute later.
func (h *house) unreliable(stop <-chan struct{}) faults.Hook {
	var later sync.WaitGroup
	h.Cleanup(later.Wait)
	return func(ctx context.Context, c *faults.Call, next faults.Next) error {
		write, writes := c.Input.(*dynamodb.UpdateItemInput)
		switch n := rand.IntN(100); {
		case n < 3:
			return errCut
		case n < 6:
			_ = next(ctx)
			return errCut
		case n < 9 && writes:
			later.Go(func() {
				select {
				case <-time.After(rand.N(time.Minute)):
					_, _ = h.API.UpdateItem(context.WithoutCancel(ctx), write)
				case <-stop:
				}
			})
		}
		return next(ctx)
	}
}

// work acquires, works, and returns slots, until its process ends.
func (p *holding) work(ctx context.Context, most time.Duration) {
	for ctx.Err() == nil {
		release, err := p.acquire(ctx, 1+rand.Int64N(2), rand.IntN(2) == 0)
		if err != nil {
			time.Sleep(time.Duration(rand.Int64N(int64(time.Second))))
			continue
		}
		time.Sleep(time.Duration(rand.Int64N(int64(most))))
		release()
	}
}

// P14 with 16 processes, whose clocks differ, on a bad network. Some are cut off for half a minute
// now and then, as if they had died.
func TestAFleetOnABadNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 20)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		stop := make(chan struct{})
		var all sync.WaitGroup
		var fleet []*holding
		for i := range 16 {
			ahead := time.Duration(rand.Int64N(int64(10*time.Second))) - 5*time.Second
			p := h.holder(ahead, 5*time.Millisecond, h.unreliable(stop))
			fleet = append(fleet, p)
			for range 4 {
				all.Go(func() { p.work(ctx, []time.Duration{3 * time.Second, 20 * time.Second}[i%2]) })
			}
			if i%4 == 0 {
				all.Go(func() {
					for ctx.Err() == nil {
						time.Sleep(rand.N(time.Minute))
						p.link.Set(faults.Hang)
						time.Sleep(30 * time.Second)
						p.link.Set(nil)
					}
				})
			}
		}
		var lost, removed uint64
		all.Go(func() { // some processes die in four minutes, nearly always with slots
			for time.Sleep(4 * time.Minute); ctx.Err() == nil && (lost == 0 || removed == 0); time.Sleep(time.Second) {
				lost, removed = 0, 0
				for _, p := range fleet {
					lost, removed = lost+p.Lost.Load(), removed+p.Removed.Load()
				}
			}
			cancel()
		})
		all.Wait()
		close(stop)
		t.Logf("most held %d of %d, %d slots lost, %d entries removed", h.most, h.cap, lost, removed)
		if lost == 0 || removed == 0 {
			t.Error("no process has died")
		}
		h.stayed()
		time.Sleep(time.Minute)
		h.full()
	})
}

// full checks that a new process gets all slots, at once, and that none is left over.
func (h *house) full() {
	h.Helper()
	p := h.holder(0, time.Millisecond)
	p.must(p.acquire(h.Context(), h.cap, false))()
	time.Sleep(10 * time.Second)
	h.none()
}

// 10⁵ processes die, in whatever they do, and no slot stays away.
func TestLongestNoCrashLeaksASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { crash(t, 100_000) })
}

// The same with fewer of them.
func TestNoCrashLeaksASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { crash(t, 1000) })
}

// crash starts and kills a number of processes, several at a time for each of 16 entities.
func crash(t *testing.T, crashes int64) {
	t.Helper()
	const entities, atATime = 16, 3
	table := newHouse(t, 0)
	houses := make([]*house, entities)
	var lanes sync.WaitGroup
	var died atomic.Int64
	for i := range houses {
		h := table.of(fmt.Sprintf("user-%d", i), 5)
		houses[i] = h
		for range atATime {
			lanes.Go(func() {
				for died.Add(1) <= crashes {
					h.live(t)
				}
			})
		}
	}
	lanes.Wait()
	for _, h := range houses {
		h.stayed()
	}
	time.Sleep(healing + 10*time.Second) // nobody has looked meanwhile, and clocks differ by that much
	for _, h := range houses {
		h.full()
	}
}

// live is the life of a process, which dies during its work.
func (h *house) live(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := h.mortal(rand.N(10*time.Second)-5*time.Second, 5*time.Millisecond)
	var work sync.WaitGroup
	for range 2 {
		work.Go(func() { p.work(ctx, 300*time.Millisecond) })
	}
	time.Sleep(rand.N(3 * time.Second))
	p.link.Set(faults.Fail(errCut)) // what is under way is answered, or not sent
	time.Sleep(rand.N(10 * time.Millisecond))
	cancel()
	p.Close()
	work.Wait()
}

// What slots cost: alone, a write to acquire and one to return; with many callers, little.
func TestTheCostOfSlots(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		callers int
		cap     int64
		most    float64 // units for each acquire and release
	}{
		"alone, of one slot":   {1, 1, 2},
		"alone":                {1, 20, 2},
		"64 callers, 64 slots": {64, 64, 0.2},
		"64 callers, 20 slots": {64, 20, 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, c.cap)
				p := h.holder(0, 5*time.Millisecond)
				p.must(p.acquire(t.Context(), 1, true))() // which makes the item
				time.Sleep(10 * time.Second)
				before := h.Meter.Totals().Sum()
				end := time.Now().Add(time.Minute)
				var n atomic.Int64
				var all sync.WaitGroup
				for range c.callers {
					all.Go(func() {
						for time.Now().Before(end) { // a caller that gave up during its write would cost it, and not count
							release, err := p.acquire(t.Context(), 1, true)
							if err != nil {
								t.Error(err)
								return
							}
							time.Sleep(rand.N(200 * time.Millisecond))
							release()
							if n.Add(1); c.callers == 1 {
								time.Sleep(rand.N(2 * time.Second))
							}
						}
					})
				}
				all.Wait()
				time.Sleep(5 * time.Second)
				sum := h.Meter.Totals().Sum()
				each := (sum.WCU - before.WCU + sum.RCU - before.RCU) / float64(n.Load())
				t.Logf("%d times, each %.3f units (%.1f written, %.1f read)", n.Load(), each, sum.WCU-before.WCU, sum.RCU-before.RCU)
				if each > c.most {
					t.Errorf("an acquire and its release cost %.3f units, at most %v are allowed", each, c.most)
				}
			})
		})
	}
}
