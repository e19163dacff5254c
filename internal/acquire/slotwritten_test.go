package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// inUse checks how many slots of an entity are held.
func (w *world) inUse(entity string, want int64) {
	w.Helper()
	if got := w.slotsOf(entity); got != want {
		w.Errorf("%d slots of %s are held, want %d", got, entity, want)
	}
}

// justSlots is a request for slots alone.
func justSlots(n int64) limiter.Request {
	return limiter.Request{Entity: "user", Resource: testbed.Resource, Slots: tokens{"inflight": n}}
}

// The slots of a lease that is written down do not end with its process, and are held however long
// nobody renews them. Another process gives them back, once. All slots may be held meanwhile.
func TestSlotsOutliveTheirProcess(t *testing.T) {
	inEachWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		w.slots(store.ConfigKey{}, 3)
		gateway, worker := w.another(), w.another()
		lease, err := gateway.Acquire(w.Context(), inflight("user", 2))
		w.Must(err)
		own := w.lease(justSlots(1))
		text := w.token(lease)
		if err := lease.Commit(w.Context()); !errors.Is(err, limiter.ErrHandedOver) {
			t.Errorf("its own commit: %v", err)
		}
		w.Must(lease.Rollback(w.Context()))
		w.Must(gateway.Close())
		w.inUse("user", 3)
		time.Sleep(40 * time.Second)
		w.inUse("user", 3)
		w.full(justSlots(1), "user")
		w.Must(own.Commit(w.Context()))
		time.Sleep(2 * time.Second)
		w.inUse("user", 2)
		for range 2 {
			resumed := w.resume(worker, text)
			w.Must(resumed.Commit(w.Context()))
			w.inUse("user", 0)
			w.holds("user", "rph", 9)
		}
		w.lease(justSlots(3))
		w.Must(w.resume(worker, text).Commit(w.Context())) // once more, and others have them
		w.inUse("user", 3)
	})
}

// Nobody settles the lease: its slots are held until the deadline, and come back after it, for whoever wants them.
// The work of whoever resumes it ends before.
func TestWrittenSlotsEndAtTheirDeadline(t *testing.T) {
	inEachWorld(t, withKeys(tokenKey), func(w *world) {
		w.slots(store.ConfigKey{}, 1)
		gateway := w.another()
		lease, err := gateway.Acquire(w.Context(), justSlots(1))
		w.Must(err)
		began := time.Now()
		text := w.token(lease)
		w.Must(gateway.Close())
		for range 2 {
			ctx, cancel := w.resume(w.Limiter, text).Context(w.Context())
			defer cancel()
			go func() {
				<-ctx.Done()
				if took := time.Since(began); !errors.Is(context.Cause(ctx), limiter.ErrSlotsLost) || took < 50*time.Second || took > time.Minute {
					w.Errorf("the work ends after %v by %v", took, context.Cause(ctx))
				}
			}()
		}
		next, err := w.Wait(w.Context(), justSlots(1))
		w.Must(err)
		if took := time.Since(began); took < time.Minute || took > time.Minute+10*time.Second {
			w.Errorf("the slot is back after %v", took)
		}
		for range 2 { // too late, and it takes nothing away
			w.Must(w.resume(w.another(), text).Rollback(w.Context()))
		}
		w.inUse("user", 1)
		w.Must(next.Commit(w.Context()))
	})
}

// A token of a later time extends the slots. Any of the tokens ends them. Then they cannot be extended, and the
// tokens of the lease can still be settled.
func TestWrittenSlotsAreExtended(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		w.slots(store.ConfigKey{}, 1)
		gateway := w.another()
		lease, err := gateway.Acquire(w.Context(), inflight("user", 1))
		w.Must(err)
		first := w.token(lease)
		w.Must(gateway.Close())
		time.Sleep(30 * time.Second)
		extended, err := w.resume(w.another(), first).Token(w.Context(), 5*time.Minute)
		w.Must(err)
		again, err := w.resume(w.another(), first).Token(w.Context(), time.Minute) // of the first, and not as late
		w.Must(err)
		time.Sleep(4 * time.Minute)
		w.full(inflight("user", 1), "user")
		w.Must(w.resume(w.Limiter, first).Rollback(w.Context()))
		w.inUse("user", 0)
		for _, text := range []string{first, extended, again} {
			late := w.resume(w.another(), text)
			if _, err := late.Token(w.Context(), 10*time.Minute); !errors.Is(err, limiter.ErrSlotsLost) {
				w.Errorf("extended after the end: %v", err)
			}
			w.Must(late.Rollback(w.Context()))
		}
		w.holds("user", "rph", 10)
	})
}

// A lease with slots of several resources and of a parent is written down as a whole.
func TestSlotsOfAllResourcesAreWrittenDown(t *testing.T) {
	inEachWorld(t, withKeys(tokenKey), func(w *world) {
		w.family(limiter.PerHour("rph", 10))
		w.slots(store.ConfigKey{}, 4)
		w.slots(store.ConfigKey{Entity: "project", Resource: testbed.Resource}, 3)
		req := inflight("key", 2)
		req.Also = []limiter.Part{{Resource: "gpu", Slots: tokens{"seats": 1}, SlotFallback: []limiter.SlotLimit{limiter.Slots("seats", 1)}}}
		w.Must(w.Store.SetSlots(w.Context(), store.ConfigKey{Resource: "gpu"}, []store.SlotLimit{limiter.Slots("seats", 1)}, ""))
		w.Must(w.Store.SetSlots(w.Context(), store.ConfigKey{Entity: "project", Resource: "gpu"}, []store.SlotLimit{limiter.Slots("seats", 1)}, ""))
		gateway := w.another()
		lease, err := gateway.Acquire(w.Context(), req)
		w.Must(err)
		text := w.token(lease)
		w.Must(gateway.Close())
		time.Sleep(20 * time.Second)
		w.inUse("key", 2)
		w.inUse("project", 2)
		seats := limiter.Request{Entity: "key", Resource: "gpu", Slots: tokens{"seats": 1}}
		if _, err := w.Acquire(w.Context(), seats); !errors.Is(err, limiter.ErrSlotsFull) {
			t.Errorf("got %v", err)
		}
		w.Must(w.resume(w.another(), text).Commit(w.Context()))
		w.inUse("key", 0)
		w.inUse("project", 0)
		time.Sleep(time.Second) // longer than an image refuses
		w.Must(w.lease(seats).Commit(w.Context()))
	})
}

// A deadline of a lease with slots leaves time for those that see it late.
func TestSlotsAreWrittenDownForAWhile(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.slots(store.ConfigKey{}, 1)
		lease := w.lease(justSlots(1))
		for _, within := range []time.Duration{time.Second, limiter.MinSlotsToken - 1, limiter.MaxTokenTime + 1} {
			_, err := lease.Token(w.Context(), within)
			if invalid, is := errors.AsType[*limiter.ValidationError](err); !is || invalid.Field != "within" {
				t.Errorf("%v: got %v", within, err)
			}
		}
		w.inUse("user", 1)
		text, err := lease.Token(w.Context(), limiter.MinSlotsToken)
		w.Must(err)
		w.Must(w.resume(w.another(), text).Commit(w.Context()))
	})
}

// The table fails at each of the requests with which a lease is written down, in each way. Token then leaves
// the lease as it was, and its slots are held, or it has written it down. Never are more held than there are, and
// all come back once the lease ends, or its process does.
func TestWritingSlotsDownFails(t *testing.T) {
	for name, how := range map[string]faults.Hook{
		"not sent": faults.Fail(errNoRoute), "silent": faults.Hang, "lost": faults.LoseAnswer(errCut), "busy": faults.Fail(faults.BusyTable()),
	} {
		for step := range 4 {
			for _, dies := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, after %d, dies %v", name, step, dies), func(t *testing.T) {
					inWorld(t, limiter.Options{}, func(w *world) {
						w.slots(store.ConfigKey{}, 2)
						var link faults.Slot
						own := w.NewLimiter(w.OpenOn(faults.Wrap(w.API, link.Apply)), withKeys(tokenKey))
						lease, err := own.Acquire(w.Context(), justSlots(1))
						w.Must(err)
						w.lease(justSlots(1))
						synctest.Wait()
						n := 0
						link.Set(func(ctx context.Context, c *faults.Call, next faults.Next) error {
							if n++; n > step {
								return how(ctx, c, next)
							}
							return next(ctx)
						})
						began := time.Now()
						text, err := lease.Token(w.Context(), time.Minute)
						if took := time.Since(began); took > 6*time.Second || err == nil && took > time.Second {
							w.Errorf("it took %v", took)
						}
						w.full(justSlots(1), "user")
						switch {
						case err == nil:
							w.Must(own.Close())
							time.Sleep(20 * time.Second)
							w.inUse("user", 2)
							w.Must(w.resume(w.another(), text).Commit(w.Context()))
						case step > 0 || !errors.Is(err, limiter.ErrUnavailable):
							w.Errorf("the write was answered: %v", err)
						case dies:
							time.Sleep(2 * time.Minute) // longer than what may have been written
							w.Must(own.Close())
						default:
							link.Set(nil)
							ctx, cancel := lease.Context(w.Context())
							defer cancel()
							time.Sleep(20 * time.Second)
							w.Must(context.Cause(ctx))
							w.inUse("user", 2)
							w.full(justSlots(1), "user")
							again := w.token(lease) // it can be written down later
							w.Must(w.resume(w.another(), again).Commit(w.Context()))
							w.inUse("user", 1)
						}
						time.Sleep(time.Second) // longer than an image refuses
						next, err := w.Acquire(w.Context(), justSlots(1))
						w.Must(err)
						w.full(justSlots(1), "user")
						w.Must(next.Commit(w.Context()))
					})
				})
			}
		}
	}
}

// Slots that are lost cannot be written down.
func TestLostSlotsAreNotWrittenDown(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.slots(store.ConfigKey{}, 1)
		var link faults.Slot
		own := w.NewLimiter(w.OpenOn(faults.Wrap(w.API, link.Apply)), withKeys(tokenKey))
		lease, err := own.Acquire(w.Context(), justSlots(1))
		w.Must(err)
		link.Set(faults.Fail(errNoRoute))
		time.Sleep(30 * time.Second)
		link.Set(nil)
		next, err := w.Wait(w.Context(), justSlots(1))
		w.Must(err)
		if _, err := lease.Token(w.Context(), time.Minute); !errors.Is(err, limiter.ErrSlotsLost) {
			t.Errorf("got %v", err)
		}
		w.inUse("user", 1)
		w.Must(next.Commit(w.Context()))
	})
}

// Leases that are written down are no processes: neither the share of a process in an outage nor that of its
// callers in line is smaller for them. Standing tells them apart.
func TestWrittenSlotsAreNoProcesses(t *testing.T) {
	o := withKeys(tokenKey)
	inSevered(t, 1, o, func(s *severed) {
		c := &outageCase{severed: s, own: s.all[0]}
		c.System(limiter.PerDay("rph", 100))
		c.slots(store.ConfigKey{}, 9)
		c.Take(c.own, ask("user", "rph", 0))
		for range 3 {
			c.token(c.Lease(c.own, justSlots(1)))
		}
		c.Lease(c.own, justSlots(2))
		standing, err := c.own.Standing(c.Context(), "user", testbed.Resource)
		c.Must(err)
		leases := 0
		for _, h := range standing.Slots[0].Holders {
			if h.IsLease {
				leases++
			}
			if h.IsLease != h.RenewedAt.IsZero() || h.Gone || h.IsLease && h.Held != 1 {
				c.Errorf("a holder is %+v", h)
			}
		}
		if leases != 3 || standing.Slots[0].Held < 5 {
			c.Errorf("%d leases, and %d are held", leases, standing.Slots[0].Held)
		}
		c.away.Set(faults.Fail(errNoRoute))
		c.take(ask("user", "rph", 100))
		c.find()
		time.Sleep(time.Second)
	})
}
