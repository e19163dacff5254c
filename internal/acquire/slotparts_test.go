package acquire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// both asks for a slot and a token of each of two resources.
func both() limiter.Request {
	req := together("user", "a", 1, "b", 1)
	req.Slots = tokens{"inflight": 1}
	req.Also[0].Slots = tokens{"inflight": 1}
	return req
}

// partly asks for slots of one resource only, and for nothing else.
func partly(resource string, n int64) limiter.Request {
	return limiter.Request{Entity: "user", Resource: resource, Slots: tokens{"inflight": n}}
}

// occupied checks how many slots of resources are held.
func (w *world) occupied(want ...any) {
	w.Helper()
	for i := 0; i < len(want); i += 2 {
		img, err := w.Store.Slots(w.Context(), store.SlotKey{Entity: "user", Resource: want[i].(string), Limit: "inflight"})
		w.Must(err)
		var used int64
		if img != nil {
			used = img.Used
		}
		if used != int64(want[i+1].(int)) {
			w.Errorf("%d slots of %s are held, want %d", used, want[i], want[i+1])
		}
	}
}

// twoResources has 2 slots of a, 1 of b, and 5 tokens of each.
func (w *world) twoResources() {
	w.Helper()
	w.System(limiter.PerHour("rph", 5))
	w.slots(store.ConfigKey{Resource: "a"}, 2)
	w.slots(store.ConfigKey{Resource: "b"}, 1)
}

// A request of several resources gets the tokens and slots of all, or of none.
func TestSlotsOfSeveralResources(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.twoResources()
		lease := w.lease(both())
		w.keeps("user", "a", 4, "b", 4)
		_, err := w.Acquire(w.Context(), both())
		if refusal, ok := errors.AsType[*limiter.SlotsError](err); !ok || refusal.Resource != "b" {
			t.Errorf("got %v, want a refusal by the slots of b", err)
		}
		w.keeps("user", "a", 4, "b", 4)
		w.Must(w.lease(partly("a", 1)).Commit(w.Context())) // the refusal holds no slot of a
		w.Must(lease.Rollback(w.Context()))
		w.keeps("user", "a", 5, "b", 5)
		time.Sleep(2 * time.Second)
		w.occupied("a", 0, "b", 0)

		req := both() // the tokens of b refuse it
		req.Also[0].Consume["rph"] = 6
		if _, err := w.Acquire(w.Context(), req); errors.Is(err, limiter.ErrSlotsFull) || !errors.Is(err, limiter.ErrExceeded) {
			t.Errorf("got %v, want a refusal by the tokens", err)
		}
		w.keeps("user", "a", 5, "b", 5)
		w.Must(w.lease(both()).Commit(w.Context()))
		time.Sleep(2 * time.Second)
		w.occupied("a", 0, "b", 0)
	})
}

// Another process holds the slots of the further resource: all tokens and the other slots go back.
func TestSlotsOfAFurtherResourceThatOthersHold(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.twoResources()
		other := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
		lease, err := other.Acquire(w.Context(), partly("b", 1))
		w.Must(err)
		if _, err := w.Acquire(w.Context(), both()); !errors.Is(err, limiter.ErrSlotsFull) {
			t.Errorf("got %v", err)
		}
		w.keeps("user", "a", 5, "b", 5)
		time.Sleep(2 * time.Second)
		w.occupied("a", 0, "b", 1)
		w.Must(lease.Commit(w.Context()))
		time.Sleep(2 * time.Second)
		w.Must(w.lease(both()).Commit(w.Context()))
	})
}

// Each part may have tokens, slots or both, and may end alone: its slots then come back.
func TestPartsWithSlotsEndAlone(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.twoResources()
		req := partly("a", 2)
		req.Also = []limiter.Part{{Resource: "b", Consume: tokens{"rph": 2}, Slots: tokens{"inflight": 1}}}
		lease := w.lease(req)
		w.keeps("user", "b", 3)
		b, err := lease.Resource("b")
		w.Must(err)
		if n := b.Consumed()["rph"]; n != 2 || len(lease.Consumed()) > 0 {
			t.Errorf("the part has %d tokens, and the lease %v", n, lease.Consumed())
		}
		w.Must(b.Rollback(w.Context()))
		w.keeps("user", "b", 5)
		time.Sleep(2 * time.Second)
		w.occupied("a", 2, "b", 0)
		w.Must(lease.Take(w.Context(), tokens{"rph": 1}))
		w.keeps("user", "a", 4)
		w.Must(lease.Commit(w.Context()))
		time.Sleep(2 * time.Second)
		w.occupied("a", 0, "b", 0)
	})
}

// Callers that wait for slots of the same resources in different order do not wait for each other.
func TestWaitersForSlotsOfSeveralResources(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 1000))
		w.slots(store.ConfigKey{}, 1)
		reversed := together("user", "b", 1, "a", 1)
		reversed.Slots, reversed.Also[0].Slots = tokens{"inflight": 1}, tokens{"inflight": 1}
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		others := []*limiter.Limiter{w.Limiter, w.NewLimiter(w.OpenOn(w.API), limiter.Options{})}
		done := make(chan error)
		for i := range 8 {
			req := both()
			if i%2 == 0 {
				req = reversed
			}
			go func() {
				lease, err := others[i/4].Wait(ctx, req)
				if err == nil {
					time.Sleep(time.Second)
					err = lease.Commit(ctx)
				}
				done <- err
			}()
		}
		for range 8 {
			w.Check(<-done)
		}
	})
}

// The context of the work ends if the slots of any part are lost.
func TestLostSlotsOfAPart(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.twoResources()
		lease := w.lease(both())
		ctx, cancel := lease.Context(w.Context())
		defer cancel()
		_, err := w.Store.DeleteEntity(w.Context(), "user")
		w.Must(err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		if !errors.Is(context.Cause(ctx), limiter.ErrSlotsLost) {
			t.Errorf("the context ends with %v", context.Cause(ctx))
		}
	})
}

// A part that names neither tokens nor slots is invalid; so are slots of a part that no level has.
func TestInvalidParts(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 5))
		w.slots(store.ConfigKey{Resource: "a"}, 2)
		for name, part := range map[string]limiter.Part{
			"nothing": {Resource: "b"}, "no slot": {Resource: "b", Slots: tokens{"inflight": 0}}, "no resource": {Slots: tokens{"inflight": 1}},
		} {
			req := partly("a", 1)
			req.Also = []limiter.Part{part}
			if _, err := w.Acquire(w.Context(), req); !errors.Is(err, limiter.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := w.Acquire(w.Context(), both())
		if unknown, ok := errors.AsType[*limiter.NotConfiguredError](err); !ok || unknown.Resource != "b" || !unknown.Slots {
			t.Errorf("got %v", err)
		}
		w.keeps("user", "a", 5)
		if err := w.Return(w.Context(), both()); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("return of slots: %v", err)
		}
	})
}
