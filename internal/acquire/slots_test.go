package acquire_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// inflight is a request for a token of rph and slots.
func inflight(entity string, n int64) limiter.Request {
	return limiter.Request{Entity: entity, Resource: testbed.Resource, Consume: tokens{"rph": 1}, Slots: tokens{"inflight": n}}
}

// slots sets the slots of a level.
func (w *world) slots(k store.ConfigKey, n int64) {
	w.Helper()
	w.Must(w.Store.SetSlots(w.Context(), k, []store.SlotLimit{limiter.Slots("inflight", n)}, "test"))
}

// slotsOf are the slots of an entity that are held.
func (w *world) slotsOf(entity string) int64 {
	w.Helper()
	img, err := w.Store.Slots(w.Context(), store.SlotKey{Entity: entity, Resource: testbed.Resource, Limit: "inflight"})
	w.Must(err)
	if img == nil {
		return 0
	}
	return img.Used
}

// full checks that a request is refused for the slots of an entity.
func (w *world) full(req limiter.Request, entity string) {
	w.Helper()
	_, err := w.Acquire(w.Context(), req)
	refusal, ok := errors.AsType[*limiter.SlotsError](err)
	if !ok || refusal.Entity != entity || !errors.Is(err, limiter.ErrSlotsFull) || !errors.Is(err, limiter.ErrExceeded) {
		w.Errorf("got %v, want a refusal by the slots of %s", err, entity)
	}
}

func (w *world) lease(req limiter.Request) *limiter.Lease {
	w.Helper()
	return w.Lease(w.Limiter, req)
}

// A request gets tokens and slots, or neither.
func TestSlotsBesideTokens(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 5))
		w.slots(store.ConfigKey{}, 2)
		one, two := w.lease(inflight("user", 1)), w.lease(inflight("user", 1))
		w.full(inflight("user", 1), "user")
		w.full(inflight("user", 3), "user")
		w.keeps("user", testbed.Resource, 3)
		w.Must(one.Commit(w.Context()))
		w.Must(two.Rollback(w.Context()))
		w.keeps("user", testbed.Resource, 4)
		w.Must(w.lease(inflight("user", 2)).Commit(w.Context()))
		time.Sleep(2 * time.Second)
		if n := w.slotsOf("user"); n != 0 {
			t.Errorf("%d slots are held", n)
		}
		req := inflight("user", 1)
		req.Consume["rph"] = 4
		_, err := w.Acquire(w.Context(), req)
		if refusal, ok := errors.AsType[*limiter.ExceededError](err); !ok || refusal.RetryAfter() < 10*time.Minute {
			t.Errorf("got %v, want the wait of the tokens", err)
		}
		w.Must(w.lease(inflight("user", 2)).Commit(w.Context())) // the refusal holds no slot
	})
}

// The limiter learns that there is no room after it has taken the tokens: they go back.
func TestSlotsThatOthersHold(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 5))
		w.slots(store.ConfigKey{}, 2)
		other := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
		lease, err := other.Acquire(w.Context(), inflight("user", 2))
		w.Must(err)
		w.keeps("user", testbed.Resource, 4)
		w.full(inflight("user", 1), "user")
		w.keeps("user", testbed.Resource, 4)
		w.Must(lease.Commit(w.Context()))
		time.Sleep(2 * time.Second)
		w.Must(w.lease(inflight("user", 2)).Commit(w.Context()))
	})
}

// A request may ask for slots alone.
func TestSlotsAlone(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		req := limiter.Request{
			Entity: "user", Resource: testbed.Resource, Slots: tokens{"inflight": 1}, SlotFallback: []limiter.SlotLimit{limiter.Slots("inflight", 1)},
		}
		lease := w.lease(req)
		w.full(req, "user")
		if len(lease.Statuses()) > 0 || lease.Degraded() {
			t.Error("the lease has tokens")
		}
		w.Must(lease.Commit(w.Context()))
		w.Must(lease.Commit(w.Context()))
		w.Must(w.lease(req).Rollback(w.Context()))
	})
}

// A child holds slots of its own and of its parent.
func TestSlotsOfAParent(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100))
		w.Entities(limiter.Entity{ID: "project"}, testbed.Child("a", "project"), testbed.Child("b", "project"))
		w.slots(store.ConfigKey{Resource: testbed.Resource}, 2)
		w.slots(store.ConfigKey{Entity: "project", Resource: testbed.Resource}, 3)
		one, two := w.lease(inflight("a", 2)), w.lease(inflight("b", 1))
		w.full(inflight("a", 1), "a")
		w.full(inflight("b", 1), "project")
		if a, b, p := w.slotsOf("a"), w.slotsOf("b"), w.slotsOf("project"); a != 2 || p != 3 || b > 2 {
			t.Errorf("%d, %d and %d slots are held", a, b, p)
		}
		w.Must(one.Commit(w.Context()))
		w.Must(w.lease(inflight("b", 1)).Commit(w.Context()))
		w.Must(two.Commit(w.Context()))
		time.Sleep(2 * time.Second)
		if a, b, p := w.slotsOf("a"), w.slotsOf("b"), w.slotsOf("project"); a+b+p != 0 {
			t.Errorf("%d, %d and %d slots are held", a, b, p)
		}
	})
}

// The first level with slots holds, whichever level has limits. Setting and deleting limits leaves
// slots alone.
func TestLevelsOfSlots(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: -1}, func(w *world) {
		levels := []store.ConfigKey{
			{}, {Resource: testbed.Resource}, {Entity: "user", Resource: store.DefaultResource}, {Entity: "user", Resource: testbed.Resource},
		}
		w.System(limiter.PerHour("rph", 100))
		holds := func(of int64) {
			w.Helper()
			_, err := w.Acquire(w.Context(), inflight("user", 100))
			if refusal, ok := errors.AsType[*limiter.SlotsError](err); !ok || refusal.Of != of {
				t.Errorf("got %v, want %d slots", err, of)
			}
		}
		for i, k := range levels {
			w.slots(k, int64(10+i))
			holds(int64(10 + i))
		}
		own := levels[3]
		w.Must(w.Store.SetLimits(w.Context(), own, []limiter.Limit{limiter.PerHour("rph", 7)}))
		holds(13)
		w.keeps("user", testbed.Resource, 7)
		w.Must(w.Store.DeleteLimits(w.Context(), own))
		holds(13)
		for i, k := range slices.Backward(levels) {
			holds(int64(10 + i))
			w.Must(w.Store.SetSlots(w.Context(), k, nil, ""))
		}
		_, err := w.Acquire(w.Context(), inflight("user", 1))
		if missing, ok := errors.AsType[*limiter.NotConfiguredError](err); !ok || !slices.Equal(missing.Limits, []string{"inflight"}) {
			t.Errorf("got %v", err)
		}
		w.keeps("user", testbed.Resource, 100)
	})
}

// Who is disabled gets no slots, and who is bypassed needs none.
func TestSlotsUnderSwitches(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: -1}, func(w *world) {
		w.System(limiter.PerHour("rph", 100))
		w.slots(store.ConfigKey{}, 1)
		own := store.ConfigKey{Entity: "user", Resource: testbed.Resource}
		alone := inflight("user", 1)
		alone.Consume = nil
		for policy, want := range map[store.Policy]error{store.Yes: limiter.ErrDisabled, store.Bypass: nil} {
			_, err := w.Store.SetSwitch(w.Context(), own, dynamo.Switch{Policy: policy}, nil)
			w.Must(err)
			for range 2 {
				if _, err := w.Acquire(w.Context(), alone); !errors.Is(err, want) {
					t.Errorf("policy %d: got %v", policy, err)
				}
			}
		}
		if n := w.slotsOf("user"); n != 0 {
			t.Errorf("%d slots are held", n)
		}
	})
}

// Callers of Wait get slots in order, and then wait for tokens.
func TestWaitForSlots(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 3600, limiter.Burst(2)))
		w.slots(store.ConfigKey{}, 1)
		lease := w.lease(inflight("user", 1))
		brief, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err := w.Wait(brief, inflight("user", 1))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, limiter.ErrSlotsFull) {
			t.Errorf("got %v", err)
		}
		order := make(chan int, 3)
		var all sync.WaitGroup
		began := time.Now()
		for i := range 3 {
			time.Sleep(10 * time.Millisecond)
			all.Go(func() {
				lease, err := w.Wait(w.Context(), inflight("user", 1))
				w.Check(err)
				order <- i
				if err == nil {
					w.Check(lease.Commit(w.Context()))
				}
			})
		}
		time.Sleep(10 * time.Millisecond)
		w.Must(lease.Commit(w.Context()))
		all.Wait()
		for i := range 3 {
			if got := <-order; got != i {
				t.Errorf("place %d got the caller %d", i, got)
			}
		}
		if waited := time.Since(began); waited > 3*time.Second { // a token is earned each second
			t.Errorf("served after %v", waited)
		}
	})
}

// The work is told that its slots are lost, and what it does at the end changes nothing.
func TestLostSlotsEndTheContext(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.slots(store.ConfigKey{}, 1)
		var link faults.Slot
		cut := w.NewLimiter(w.OpenOn(faults.Wrap(w.API, link.Apply)), limiter.Options{})
		req := inflight("user", 1)
		req.Consume = nil
		err := cut.Do(w.Context(), req, func(ctx context.Context, _ *limiter.Lease) error {
			link.Set(faults.Hang)
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, limiter.ErrSlotsLost) {
				t.Errorf("the context ended because of %v", cause)
			}
			link.Set(nil)
			return context.Cause(ctx)
		})
		if !errors.Is(err, limiter.ErrSlotsLost) {
			t.Errorf("got %v", err)
		}
		if stats := cut.Stats(); stats.SlotsLost != 1 {
			t.Errorf("counted %+v", stats)
		}
		lease, err := w.Wait(w.Context(), req)
		w.Must(err)
		ctx, cancel := lease.Context(w.Context())
		defer cancel()
		w.Must(w.Close())
		if !errors.Is(context.Cause(ctx), limiter.ErrSlotsLost) {
			t.Errorf("the context of a closed limiter's lease ended because of %v", context.Cause(ctx))
		}
		if n := w.slotsOf("user"); n != 0 {
			t.Errorf("%d slots are held", n)
		}
		if _, err := w.Acquire(w.Context(), req); !errors.Is(err, limiter.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// The store is away.
func TestSlotsWithoutAStore(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.slots(store.ConfigKey{}, 1)
		var link faults.Slot
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.API, link.Apply)), limiter.Options{})
		req := inflight("user", 1)
		req.Consume = nil
		link.Set(faults.Hang)
		_, err := l.Acquire(w.Context(), req)
		if !errors.Is(err, limiter.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		req.OnUnavailable = limiter.Allow
		lease, err := l.Acquire(w.Context(), req)
		w.Must(err)
		w.Must(lease.Commit(w.Context()))
	})
}

// A lease that nobody ends gives its slots back when it is collected.
func TestAForgottenLeaseReturnsItsSlots(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.slots(store.ConfigKey{}, 1)
		req := inflight("user", 1)
		req.Consume = nil
		_, err := w.Acquire(w.Context(), req)
		w.Must(err)
		for range 100 {
			runtime.GC()
			time.Sleep(time.Second)
			synctest.Wait()
			if w.slotsOf("user") == 0 {
				return
			}
		}
		t.Error("the slots are still held")
	})
}

// An observer is told what slots cost, and that they have refused.
func TestAnObserverIsToldOfSlots(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.slots(store.ConfigKey{}, 1)
		d := &diary{}
		l := w.NewLimiter(w.Store, limiter.Options{Observer: d})
		req := inflight("user", 1)
		req.Consume = nil
		lease, err := l.Acquire(w.Context(), req)
		w.Must(err)
		if _, err := l.Acquire(w.Context(), req); !errors.Is(err, limiter.ErrSlotsFull) {
			t.Errorf("got %v", err)
		}
		w.Must(lease.Commit(w.Context()))
		time.Sleep(time.Second)
		calls, operations := d.take()
		var results []limiter.Result
		for _, c := range calls {
			results = append(results, c.Result)
		}
		if want := []limiter.Result{limiter.Admitted, limiter.Refused, limiter.Completed}; !slices.Equal(results, want) {
			t.Errorf("calls have the results %v, want %v", results, want)
		}
		held, units := 0, 0.0
		for _, o := range operations {
			if o.Kind == store.OpHold {
				held++
				units += o.Cost.WriteUnits
			}
		}
		if held != 2 || units != 4 { // the first one makes the item, with two keys of indexes
			t.Errorf("told of %d writes for %v units", held, units)
		}
	})
}

func TestRequestsForSlotsAreChecked(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		for field, change := range map[string]func(*limiter.Request){
			"limit name":        func(r *limiter.Request) { r.Slots = tokens{"wcu": 1} },
			"slots of inflight": func(r *limiter.Request) { r.Slots = tokens{"inflight": 0} },
			"slots of other":    func(r *limiter.Request) { r.SlotFallback = []limiter.SlotLimit{limiter.Slots("other", 0)} },
			"resource":          func(r *limiter.Request) { r.Resource, r.Consume = "", nil },
		} {
			req := inflight("user", 1)
			change(&req)
			_, err := w.Acquire(w.Context(), req)
			if invalid, ok := errors.AsType[*limiter.ValidationError](err); !ok || invalid.Field != field {
				t.Errorf("%s: got %v", field, err)
			}
		}
	})
}
