package dynamo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// doubled is a raise for an hour that happens once for its key.
func doubled() dynamo.Raise {
	return dynamo.Raise{Limits: map[string]int64{"rph": 2000}, Until: time.Now().Add(time.Hour), Cause: dynamo.Cause{Key: "ticket-1"}}
}

// raisesOnce raises with a key, and checks whether an earlier call had done so.
func (w *township) raisesOnce(s *dynamo.Store, k store.ConfigKey, r dynamo.Raise, before bool) dynamo.Raised {
	w.Helper()
	done, err := s.RaiseLimits(w.Context(), k, r)
	if w.must(err); done.Repeated != before {
		w.Errorf("raised before: %t, want %t", done.Repeated, before)
	}
	return done
}

// Limits are raised once for a key, also if another operator has set them since, and after the
// raise has ended. The first of two ends holds. A key is of its level, and of one change.
func TestLimitsAreRaisedOnceForAKey(t *testing.T) {
	for _, k := range []store.ConfigKey{theEntity, theResource} {
		t.Run(k.String(), func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, k, perHour(10))
				first := w.raisesOnce(w.Store, k, doubled(), false)
				time.Sleep(time.Minute)
				if again := w.raisesOnce(w.Store, k, doubled(), true); !again.Until.Equal(first.Until.Truncate(time.Millisecond)) {
					t.Errorf("the raise ends at %v, want %v", again.Until, first.Until)
				}
				time.Sleep(time.Hour)
				fixture.SetLimits(w.T, w.Store, k, perHour(7))
				w.raisesOnce(w.Store, k, doubled(), true)
				c, err := w.Limits(w.Context(), k)
				if w.must(err); c.Limits[0] != limiter.PerHour("rph", 7) {
					t.Errorf("the limit is %v", c.Limits[0])
				}
				tripled := doubled()
				tripled.Limits = map[string]int64{"rph": 3000}
				_, err = w.RaiseLimits(w.Context(), k, tripled)
				if used, ok := errors.AsType[*dynamo.KeyUsedError](err); !ok || used.Operation != "raise" {
					t.Errorf("another factor: %v", err)
				}
				_, err = w.SetSwitch(w.Context(), k, onceTo(store.Yes, time.Time{}), nil)
				fixture.WantErr(t, err, dynamo.ErrKeyUsed)
				fixture.SetLimits(w.T, w.Store, everything, perHour(10))
				w.raisesOnce(w.Store, everything, doubled(), false)
			})
		})
	}
}

// The event of a raise has its key, and the same call completes one that did not reach the buckets.
func TestAKeyCompletesAnInterruptedRaise(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		l := w.client(w.api.Table)
		w.must(w.asks(l, "user"))
		s := w.open(faults.Wrap(w.api.Table, faults.On(faults.Before(func(*faults.Call) error { return errors.New("gone") }), faults.UpdateItem)))
		if _, err := s.RaiseLimits(w.Context(), theEntity, doubled()); err == nil {
			t.Fatal("the buckets were reached")
		}
		w.raisesOnce(w.Store, theEntity, doubled(), true)
		images, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
		if w.must(err); images[0].Limits[0].Varies == nil {
			t.Errorf("the bucket is %+v", images[0].Limits[0])
		}
		events := fixture.Trail(w.T, w.Store, "user")
		if last := events[len(events)-1]; last.Details["idempotency_key"] != "ticket-1" {
			t.Errorf("the event is %+v", last)
		}
	})
}

// A raise that changes nothing writes no event, and uses its key.
func TestARaiseThatChangesNothing(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		r := doubled()
		r.Key = ""
		w.raisesOnce(w.Store, theEntity, r, false)
		events := len(fixture.Trail(w.T, w.Store, "user"))
		r.Key = "ticket-1"
		w.raisesOnce(w.Store, theEntity, r, false)
		w.raisesOnce(w.Store, theEntity, r, true)
		if n := len(fixture.Trail(w.T, w.Store, "user")); n != events {
			t.Errorf("%d events, and there were %d", n, events)
		}
	})
}

// Of two calls with one key, one raises the limits. So does one whose answer is lost.
func TestTwoRaisesWithOneKey(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		fixture.SetLimits(w.T, w.Store, everything, perHour(10))
		s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() {
			w.raisesOnce(w.Store, theEntity, doubled(), false)
			fixture.SetLimits(w.T, w.Store, theEntity, perHour(7))
		})))
		w.raisesOnce(s, theEntity, doubled(), true)
		c, err := w.Limits(w.Context(), theEntity)
		if w.must(err); c.Limits[0] != limiter.PerHour("rph", 7) {
			t.Errorf("the limit is %v", c.Limits[0])
		}
		lost := w.open(faults.Wrap(w.api.Table, faults.On(faults.LoseAnswer(context.DeadlineExceeded), faults.TransactWriteItems)))
		if _, err := lost.RaiseLimits(w.Context(), everything, doubled()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("no answer: %v", err)
		}
		w.raisesOnce(w.Store, everything, doubled(), true)
	})
}

// A raise gives a quota the difference at once, in the period that is under way, and takes it back
// when it ends: what was used above the usual amount is owed until the period ends. So a raise
// that is given again in the same period gives nothing again.
func TestARaiseOfAQuota(t *testing.T) {
	inTownship(t, func(w *township) {
		month, err := limiter.ParseRenewal("month", "")
		w.must(err)
		fixture.SetLimits(w.T, w.Store, theEntity, []store.Limit{limiter.Quota("rph", 10, month)})
		l := w.client(w.api.Table)
		for i, want := range []int{10, 10, 0, 0} {
			if n := w.admits(l); n != want {
				t.Errorf("%d were admitted at step %d, want %d", n, i, want)
			}
			if time.Sleep(3 * time.Hour); i != 1 {
				w.must(w.raises(theEntity, 2000, 2*time.Hour))
				time.Sleep(2 * time.Second) // a client refuses from memory so long
			}
		}
		time.Sleep(40 * 24 * time.Hour)
		if n := w.admits(l); n != 10 {
			t.Errorf("%d were admitted in the next period", n)
		}
	})
}
