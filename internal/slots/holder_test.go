package slots_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// healing is the time within which the slots of a process that is gone are back.
const healing = 20 * time.Second

// A house is a table whose slots several holders hold, and the right count of what they hold.
type house struct {
	*testbed.World

	key   store.SlotKey
	cap   int64
	began time.Time

	mu   sync.Mutex
	held int64
	most int64
}

func newHouse(t *testing.T, most int64) *house {
	t.Helper()
	return (&house{World: testbed.New(t, testbed.Options{Remote: true})}).of("user", most)
}

// of are the slots of another entity in the same table.
func (h *house) of(entity string, most int64) *house {
	return &house{World: h.World, key: store.SlotKey{Entity: entity, Resource: testbed.Resource, Limit: "inflight"}, cap: most, began: time.Now()}
}

// A holding is a holder as a process of its own.
type holding struct {
	*slots.Holder

	house *house
	link  faults.Slot // to the table
}

// holder starts a process whose clock is ahead, and whose requests take a time.
func (h *house) holder(ahead, latency time.Duration, hooks ...faults.Hook) *holding {
	p := h.mortal(ahead, latency, hooks...)
	h.Cleanup(p.Close)
	return p
}

// mortal is holder for a process that the test closes.
func (h *house) mortal(ahead, latency time.Duration, hooks ...faults.Hook) *holding {
	p := &holding{house: h}
	var network faults.Slot // not yet there as the store is opened
	s := h.Open(dynamo.Options{API: faults.Wrap(h.API, p.link.Apply, faults.Latency(latency), network.Apply)})
	network.Set(faults.Chain(hooks...))
	p.Holder = slots.New(s, slots.Options{
		Now: func() int64 { return time.Now().Add(ahead).UnixMilli() }, Uptime: func() time.Duration { return time.Since(h.began) },
		Rand: rand.Int64N, Logger: slog.New(slog.DiscardHandler),
	})
	return p
}

// acquire acquires, and counts what is held until it is released, or the holder says that it is
// lost.
func (p *holding) acquire(ctx context.Context, n int64, waits bool) (release func(), err error) {
	lease, err := p.Acquire(ctx, slots.Ask{SlotKey: p.house.key, Slots: n, Cap: p.house.cap, Waits: waits})
	if err != nil {
		return nil, err
	}
	h := p.house
	count := func(n int64) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held += n
		h.most = max(h.most, h.held)
	}
	count(n)
	back := sync.OnceFunc(func() { count(-n) })
	ended := make(chan struct{})
	go func() {
		select {
		case <-lease.Lost():
			back()
		case <-ended:
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		back()
		lease.Release()
	}), nil
}

func (p *holding) must(release func(), err error) func() {
	p.house.Helper()
	p.house.Must(err)
	return release
}

// image reads the item.
func (h *house) image() *store.SlotImage {
	h.Helper()
	img, err := h.Store.Slots(h.Context(), h.key)
	h.Must(err)
	if img == nil {
		img = &store.SlotImage{}
	}
	return img
}

// none checks that no slot is held. An entry may be left of a process that died in line.
func (h *house) none() {
	h.Helper()
	if img := h.image(); img.Used != 0 {
		h.Errorf("slots have leaked: %+v", img)
	}
}

// stayed checks that the cap was never exceeded.
func (h *house) stayed() {
	h.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.most > h.cap {
		h.Errorf("%d slots were held at the same time, of %d", h.most, h.cap)
	}
}

func TestSlotsAreHeldAndReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		a, b := h.holder(0, time.Millisecond), h.holder(0, time.Millisecond)
		two := a.must(a.acquire(t.Context(), 2, false))
		one := b.must(b.acquire(t.Context(), 1, false))
		if _, err := b.acquire(t.Context(), 1, false); !errors.Is(err, slots.ErrFull) {
			t.Errorf("got %v", err)
		}
		if _, err := a.acquire(t.Context(), 4, true); !errors.Is(err, slots.ErrFull) {
			t.Errorf("more than there are: got %v", err)
		}
		time.Sleep(time.Minute) // they are renewed
		if img := h.image(); img.Used != 3 || len(img.Holdings) != 2 {
			t.Errorf("got %+v", img)
		}
		two()
		one()
		time.Sleep(2 * time.Second)
		h.none()
		h.stayed()
	})
}

// Who waits is served in order, and within a second after there is room, in any process.
func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		a, b := h.holder(0, time.Millisecond), h.holder(0, time.Millisecond)
		release := a.must(a.acquire(t.Context(), 1, false))
		order := make(chan int, 3)
		var all sync.WaitGroup
		for i := range 3 {
			time.Sleep(time.Millisecond)
			all.Go(func() {
				release := b.must(b.acquire(t.Context(), 1, true))
				order <- i
				release()
			})
		}
		left, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.acquire(left, 1, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(10 * time.Second)
		release()
		at := time.Now()
		all.Wait()
		if waited := time.Since(at); waited > 2*time.Second {
			t.Errorf("who waits was served after %v", waited)
		}
		for i := range 3 {
			if got := <-order; got != i {
				t.Errorf("place %d got the caller %d", i, got)
			}
		}
		h.stayed()
	})
}

// A process with many callers in line leaves its share to another one, although it never runs out
// of callers.
func TestProcessesShareSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 8)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		var served [2]int
		var mu sync.Mutex
		for i, callers := range []int{64, 8} {
			p := h.holder(0, 5*time.Millisecond)
			for range callers {
				all.Go(func() {
					for {
						release, err := p.acquire(ctx, 1, true)
						if err != nil {
							return
						}
						mu.Lock()
						served[i]++
						mu.Unlock()
						time.Sleep(time.Duration(100+rand.IntN(400)) * time.Millisecond)
						release()
					}
				})
			}
		}
		all.Wait()
		t.Logf("served: %v", served)
		if served[1]*3 < served[0] {
			t.Errorf("the shares are not alike: %v", served)
		}
		time.Sleep(2 * time.Second)
		h.none()
		h.stayed()
	})
}

// The slots of a process that is gone are back in time; and a process that is only cut off from the
// table has given up before.
func TestSlotsOfADeadProcessComeBack(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"right": 0, "ahead": 5 * time.Second, "behind": -5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 2)
				a, b := h.holder(ahead, time.Millisecond), h.holder(-ahead, time.Millisecond)
				a.must(a.acquire(t.Context(), 2, false))
				time.Sleep(time.Minute)
				a.link.Set(faults.Hang)
				at := time.Now()
				b.must(b.acquire(t.Context(), 2, true))()
				waited := time.Since(at)
				if t.Logf("the slots are back after %v", waited); waited > healing {
					t.Errorf("that is more than %v", healing)
				}
				if got := a.Lost.Load(); got != 2 {
					t.Errorf("the process that was cut off has noticed %d lost slots", got)
				}
				if got := b.Removed.Load(); got != 1 {
					t.Errorf("removed %d entries", got)
				}
				a.link.Set(nil)
				time.Sleep(10 * time.Second)
				h.none()
				h.stayed()
			})
		})
	}
}

// Nobody looks when a process goes. Who comes later need not wait.
func TestSlotsOfAProcessLongGoneAreThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		a, b := h.holder(0, time.Millisecond), h.holder(0, time.Millisecond)
		a.must(a.acquire(t.Context(), 2, false))
		a.link.Set(faults.Hang)
		time.Sleep(healing + time.Second)
		b.must(b.acquire(t.Context(), 2, false))()
		time.Sleep(2 * time.Second)
		a.link.Set(nil)
		time.Sleep(10 * time.Second)
		h.none()
	})
}

// A process that was stopped for a minute finds that others have its slots. It says so, and takes
// nothing from them.
func TestAPausedProcessLosesItsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		a, b := h.holder(0, time.Millisecond), h.holder(0, time.Millisecond)
		a.must(a.acquire(t.Context(), 2, false))
		gone := time.Now()
		a.link.Set(func(ctx context.Context, _ *faults.Call, next faults.Next) error { // nothing of the process runs
			time.Sleep(time.Minute - time.Since(gone))
			return next(ctx)
		})
		two := b.must(b.acquire(t.Context(), 2, true))
		time.Sleep(time.Minute - time.Since(gone) + time.Millisecond)
		a.link.Set(nil)
		if got := a.Lost.Load(); got != 2 {
			t.Errorf("noticed %d lost slots", got)
		}
		time.Sleep(10 * time.Second)
		if img := h.image(); img.Used != 2 {
			t.Errorf("the process that came back has changed what others hold: %+v", img)
		}
		two()
		time.Sleep(2 * time.Second)
		h.none()
		if h.most > 2*h.cap {
			t.Errorf("%d slots were held", h.most)
		}
	})
}

// Whoever deletes the item takes the slots of all holders, who notice.
func TestDeletedSlotsAreLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		a := h.holder(0, time.Millisecond)
		a.must(a.acquire(t.Context(), 1, false))
		if n, err := h.Store.DeleteEntity(t.Context(), h.key.Entity); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(6 * time.Second)
		if got := a.Lost.Load(); got != 1 {
			t.Errorf("noticed %d lost slots", got)
		}
		a.must(a.acquire(t.Context(), 2, false))()
		time.Sleep(2 * time.Second)
		h.none()
	})
}

func TestCloseReturnsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		a := h.holder(0, time.Millisecond)
		a.must(a.acquire(t.Context(), 1, false))
		waits := make(chan error)
		go func() {
			_, err := a.acquire(t.Context(), 2, true)
			waits <- err
		}()
		synctest.Wait()
		go a.Close()
		if err := <-waits; !errors.Is(err, slots.ErrClosed) {
			t.Errorf("who waited got %v", err)
		}
		a.Close()
		h.none()
		if _, err := a.acquire(t.Context(), 1, false); !errors.Is(err, slots.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// A table that cannot be reached is an error for who does not wait. Who waits is served when it is
// back.
func TestTheTableIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		a := h.holder(0, time.Millisecond)
		a.link.Set(faults.Fail(faults.BusyTable()))
		if _, err := a.acquire(t.Context(), 1, false); !errors.Is(err, store.ErrThrottled) {
			t.Errorf("got %v", err)
		}
		time.AfterFunc(time.Minute, func() { a.link.Set(nil) })
		a.must(a.acquire(t.Context(), 1, true))()
		if waited := time.Since(h.began); waited > time.Minute+3*time.Second {
			t.Errorf("served after %v", waited)
		}
		time.Sleep(10 * time.Second)
		b := h.holder(0, time.Millisecond)
		b.must(b.acquire(t.Context(), 2, false))
		for _, away := range []bool{false, true, false} { // the last time, it waits until it may look
			a.link.Set(nil)
			if away {
				a.link.Set(faults.Fail(faults.BusyTable()))
			}
			at := time.Now()
			if _, err := a.acquire(t.Context(), 1, false); errors.Is(err, slots.ErrFull) == away {
				t.Errorf("away: %v, got %v", away, err)
			}
			if waited := time.Since(at); waited > time.Second {
				t.Errorf("answered after %v", waited)
			}
			if !away {
				time.Sleep(500 * time.Millisecond)
			}
		}
	})
}
