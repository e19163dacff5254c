package acquire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// uses are the slots of a standing, without names that differ from run to run.
func uses(all []limiter.SlotUse) []limiter.SlotUse {
	for i := range all {
		for j := range all[i].Holders {
			all[i].Holders[j].Process = ""
		}
	}
	return all
}

// A standing says who holds how many slots, since when they are renewed, and who is gone; of the
// parent, too.
func TestAStandingShowsWhoHoldsSlots(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100))
		w.Entities(limiter.Entity{ID: "project"}, testbed.Child("user", "project"))
		w.slots(store.ConfigKey{}, 8)
		w.slots(store.ConfigKey{Entity: "user", Resource: testbed.Resource}, 4)
		var link faults.Slot
		dies := w.NewLimiter(w.OpenOn(faults.Wrap(w.API, link.Apply)), limiter.Options{})
		w.Lease(dies, inflight("user", 1))
		lease := w.lease(inflight("user", 3))
		ctx, cancel := context.WithCancel(w.Context())
		waited := make(chan error)
		go func() {
			_, err := w.Wait(ctx, inflight("user", 2))
			waited <- err
		}()
		time.Sleep(2 * time.Second)
		s, err := w.Standing(w.Context(), "user", testbed.Resource)
		w.Must(err)
		now := time.Now()
		about := cmp.Options{cmpopts.EquateApproxTime(3 * time.Second)}
		holder := func(held, waiting int64) limiter.SlotHolder {
			return limiter.SlotHolder{Held: held, Waiting: waiting, RenewedAt: now, LeaseEnd: now.Add(15 * time.Second)}
		}
		want := []limiter.SlotUse{{
			Entity: "user", Resource: testbed.Resource, Limit: limiter.Slots("inflight", 4), Level: limiter.LevelEntityResource,
			Held: 4, Waiting: 2, Used: 1, Holders: []limiter.SlotHolder{holder(3, 2), holder(1, 0)},
		}}
		if diff := cmp.Diff(want, uses(s.Slots), about); diff != "" {
			t.Errorf("the slots (-want +got):\n%s", diff)
		}
		want = []limiter.SlotUse{{
			Entity: "project", Resource: testbed.Resource, Limit: limiter.Slots("inflight", 8), Level: limiter.LevelSystem,
			Held: 4, Used: 0.5, Holders: []limiter.SlotHolder{holder(3, 0), holder(1, 0)},
		}}
		if diff := cmp.Diff(want, uses(s.Parent.Slots), about); diff != "" {
			t.Errorf("the parent's slots (-want +got):\n%s", diff)
		}
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		w.Must(lease.Commit(w.Context()))
		link.Set(faults.Hang) // and nobody wants slots, so nobody removes its entry
		time.Sleep(time.Minute)
		s, err = w.Standing(w.Context(), "user", testbed.Resource)
		w.Must(err)
		if u := s.Slots[0]; u.Held != 1 || len(u.Holders) != 1 || !u.Holders[0].Gone {
			t.Errorf("after its death: %+v", u)
		}
		link.Set(nil)
	})
}

// The most used slots are first. Those that nobody holds are left out, and those of children, too,
// if that is asked for.
func TestTopSlots(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100))
		w.Entities(limiter.Entity{ID: "project"}, testbed.Child("child", "project"))
		w.slots(store.ConfigKey{}, 8)
		w.slots(store.ConfigKey{Entity: "b", Resource: testbed.Resource}, 2)
		brought := limiter.Request{
			Entity: "d", Resource: testbed.Resource, Slots: tokens{"batch": 5}, SlotFallback: []limiter.SlotLimit{limiter.Slots("batch", 5)},
		}
		_, err := w.Acquire(w.Context(), brought)
		if !errors.Is(err, limiter.ErrNotConfigured) {
			t.Errorf("got %v", err)
		}
		for entity, n := range map[string]int64{"a": 5, "b": 2, "child": 1} {
			w.lease(inflight(entity, n))
		}
		w.Must(w.lease(inflight("c", 1)).Commit(w.Context()))
		time.Sleep(2 * time.Second)
		names := func(q limiter.TopQuery) (all []string) {
			top, err := w.TopSlots(w.Context(), q)
			w.Must(err)
			for _, u := range top {
				all = append(all, u.Entity)
			}
			return all
		}
		for _, c := range []struct {
			q    limiter.TopQuery
			want []string
		}{
			{limiter.TopQuery{Resource: testbed.Resource, Most: 10}, []string{"b", "a", "child", "project"}},
			{limiter.TopQuery{Most: 2}, []string{"b", "a"}},
			{limiter.TopQuery{Most: 10, WithoutParent: true}, []string{"b", "a", "project"}},
			{limiter.TopQuery{Resource: "other", Most: 10}, nil},
		} {
			if diff := cmp.Diff(c.want, names(c.q)); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", c.q, diff)
			}
		}
		if _, err := w.TopSlots(w.Context(), limiter.TopQuery{}); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	})
}

// Slots that requests bring have no number for who only looks.
func TestTopSlotsThatRequestsBring(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.lease(limiter.Request{
			Entity: "user", Resource: testbed.Resource, Slots: tokens{"batch": 5}, SlotFallback: []limiter.SlotLimit{limiter.Slots("batch", 5)},
		})
		top, err := w.TopSlots(w.Context(), limiter.TopQuery{Most: 10})
		w.Must(err)
		if len(top) != 1 || top[0].Limit != (limiter.SlotLimit{Name: "batch"}) || top[0].Level != limiter.LevelNone || top[0].Held != 5 || top[0].Used != 0 {
			t.Errorf("got %+v", top)
		}
	})
}
