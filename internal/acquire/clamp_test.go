package acquire_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

var errAway = errors.New("the store is away")

// clamped is a request for tokens of tph, cut to half of the capacity.
func clamped(entity string, n int64) limiter.Request {
	req := askAll(entity, tokens{"rph": 1, "tph": n})
	req.ClampPercent = 50
	return req
}

// An estimate takes no more than a part of the capacity. The commit takes the rest, into debt.
func TestAnEstimateIsClamped(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100), limiter.PerHour("tph", 1001))
		for _, end := range []struct {
			how  func(*limiter.Lease) error
			left int
		}{
			{func(l *limiter.Lease) error { return l.Rollback(w.Context()) }, 1001},
			{func(l *limiter.Lease) error { return errors.Join(l.Settle("tph", 40), l.Commit(w.Context())) }, 961},
			{func(l *limiter.Lease) error { return errors.Join(l.Settle("tph", 700), l.Commit(w.Context())) }, 261},
		} {
			lease := w.lease(clamped("user", 900))
			if diff := cmp.Diff(map[string]int64{"tph": 400}, lease.Clamped()); diff != "" {
				t.Errorf("clamped (-want +got):\n%s", diff)
			}
			if n := lease.Consumed()["tph"]; n != 900 {
				t.Errorf("the lease takes %d tokens, want the estimate", n)
			}
			w.Must(end.how(lease))
			w.holds("user", "tph", end.left)
		}
		if w.Take(w.Limiter, clamped("user", 900)) == nil {
			t.Error("half of the capacity is not there, and was taken")
		}
		w.holds("user", "rph", 98)
		time.Sleep(time.Hour)
		first := w.lease(clamped("user", 900))
		w.Must(first.Commit(w.Context()))
		w.Must(w.lease(askAll("user", tokens{"tph": 101})).Commit(w.Context()))
		w.Must(first.Commit(w.Context()))
		w.holds("user", "tph", 0)
	})
}

// The rest of an estimate may lead into debt, and one above the capacity is admitted.
func TestAClampedEstimateMayExceedTheCapacity(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100), limiter.PerHour("tph", 1000))
		lease := w.lease(clamped("user", 5000))
		w.holds("user", "tph", 500)
		w.Must(lease.Commit(w.Context()))
		w.holds("user", "tph", -4000)
	})
}

// The smaller capacity counts, of a child and its parent; both take the same, and the rest.
func TestAnEstimateIsClampedByTheSmallerCapacity(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		for i, c := range []struct{ child, parent, taken int }{{100, 1000, 50}, {1000, 100, 50}, {1, 1000, 1}} {
			child, project := fmt.Sprintf("key-%d", i), fmt.Sprintf("project-%d", i)
			w.Entities(limiter.Entity{ID: project}, testbed.Child(child, project))
			w.System(limiter.PerHour("rph", 100), limiter.PerHour("tph", int64(c.child)))
			w.Must(w.Store.SetLimits(w.Context(), store.ConfigKey{Entity: project, Resource: testbed.Resource}, []limiter.Limit{limiter.PerHour("rph", 100), limiter.PerHour("tph", int64(c.parent))}))
			lease := w.lease(clamped(child, 60))
			w.holds(child, "tph", c.child-c.taken, project, "tph", c.parent-c.taken)
			w.Must(lease.Commit(w.Context()))
			w.holds(child, "tph", c.child-60, project, "tph", c.parent-60)
		}
	})
}

// Fallback limits, further resources, Wait and Do are clamped as well; balances and waits say so.
func TestWhereEstimatesAreClamped(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		req := limiter.Request{
			Entity: "user", Resource: "a", Consume: tokens{"tph": 80}, Fallback: []limiter.Limit{limiter.PerHour("tph", 100)}, ClampPercent: 20,
			Also: []limiter.Part{{Resource: "b", Consume: tokens{"tph": 80}, Fallback: []limiter.Limit{limiter.PerHour("tph", 50)}}},
		}
		statuses, err := w.Available(w.Context(), req)
		w.Must(err)
		if statuses[0].Requested != 20 || statuses[1].Requested != 10 || statuses[1].Exceeded {
			t.Errorf("statuses %+v", statuses)
		}
		lease, err := w.Wait(w.Context(), req)
		w.Must(err)
		b, err := lease.Resource("b")
		w.Must(err)
		if diff := cmp.Diff([]map[string]int64{{"tph": 60}, {"tph": 70}}, []map[string]int64{lease.Clamped(), b.Clamped()}); diff != "" {
			t.Errorf("clamped (-want +got):\n%s", diff)
		}
		w.Must(b.Settle("tph", 5))
		w.Must(lease.Commit(w.Context()))
		statuses, err = w.Available(w.Context(), req)
		w.Must(err)
		if a, b := statuses[0].Available, statuses[1].Available; a != 20 || b != 45 {
			t.Errorf("%d and %d tokens are left, want 20 and 45", a, b)
		}
	})
}

// The capacity in force counts.
func TestAnEstimateIsClampedByTheCapacityInForce(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100), limiter.PerHour("tph", 1000))
		w.Must(w.lease(clamped("user", 900)).Rollback(w.Context()))
		w.System(limiter.PerHour("rph", 100), limiter.PerHour("tph", 100))
		time.Sleep(2 * time.Minute)
		lease := w.lease(clamped("user", 900))
		if n := lease.Clamped()["tph"]; n != 850 {
			t.Errorf("clamped by %d tokens, want 850", n)
		}
		w.Must(lease.Rollback(w.Context()))
	})
}

// A clamp of what is not a percentage is invalid, and what nobody configured is refused as ever.
func TestInvalidClamps(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100))
		for _, percent := range []int{-1, 101} {
			req := clamped("user", 1)
			req.ClampPercent = percent
			_, err := w.Acquire(w.Context(), req)
			invalid, ok := errors.AsType[*limiter.ValidationError](err)
			if !ok || invalid.Field != "clamp percent" {
				t.Errorf("%d: %v", percent, err)
			}
		}
		if _, err := w.Acquire(w.Context(), clamped("user", 1)); !errors.Is(err, limiter.ErrNotConfigured) {
			t.Errorf("a limit that nobody configured: %v", err)
		}
		w.Must(w.Store.SetSlots(w.Context(), store.ConfigKey{}, nil, "test"))
		w.Must(w.Close())
		if _, err := w.Acquire(w.Context(), clamped("user", 1)); !errors.Is(err, limiter.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A store that is away gives what an outage gives: an error, or a degraded lease.
func TestAClampInAnOutage(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100), limiter.PerHour("tph", 100))
		var isAway atomic.Bool
		away := w.NewLimiter(w.OpenOn(faults.Wrap(w.API, faults.Before(func(*faults.Call) error {
			if isAway.Load() {
				return errAway
			}
			return nil
		}))), limiter.Options{})
		isAway.Store(true)
		if _, err := away.Acquire(w.Context(), clamped("user", 90)); !errors.Is(err, limiter.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		req := clamped("user", 90)
		req.OnUnavailable = limiter.Allow
		lease, err := away.Acquire(w.Context(), req)
		w.Must(err)
		if !lease.Degraded() {
			t.Error("the lease is not degraded")
		}
		w.Must(lease.Commit(w.Context()))
	})
}

// A lease that was clamped is written down with the rest of its estimate. Whoever resumes it takes
// that, or settles what was used.
func TestAClampedLeaseIsWrittenDown(t *testing.T) {
	inWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(limiter.PerHour("rph", 100), limiter.PerHour("tph", 1000))
		end := func(how func(*limiter.Lease) error, left int) {
			w.Helper()
			text := w.token(w.resume(w.another(), w.token(w.lease(clamped("user", 700))))) // extended once
			for range 2 {
				lease := w.resume(w.another(), text)
				if c, all := lease.Clamped()["tph"], lease.Consumed()["tph"]; c != 200 || all != 700 {
					t.Errorf("clamped by %d of %d", c, all)
				}
				w.Must(how(lease))
				w.holds("user", "tph", left)
			}
		}
		end(func(l *limiter.Lease) error { return l.Rollback(w.Context()) }, 1000)
		end(func(l *limiter.Lease) error { return errors.Join(l.Settle("tph", 100), l.Commit(w.Context())) }, 900)
		end(func(l *limiter.Lease) error { return l.Commit(w.Context()) }, 200)
		time.Sleep(time.Hour)
		lease := w.lease(clamped("user", 700))
		w.Must(lease.Settle("tph", 600))
		if _, err := lease.Token(w.Context(), time.Minute); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("a lease with an adjustment that is not written: %v", err)
		}
	})
}

// A clamp costs a warm acquire no request.
func TestAClampCostsNoRequest(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100), limiter.PerHour("tph", 1000))
		w.Must(w.lease(clamped("user", 700)).Rollback(w.Context()))
		before := w.requests()
		lease := w.lease(clamped("user", 700))
		if n := w.requests() - before; n != 1 {
			t.Errorf("a warm acquire sent %d requests, want 1", n)
		}
		w.Must(lease.Rollback(w.Context()))
	})
}
