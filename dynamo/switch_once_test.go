package dynamo_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// onceTo is a switch that is set once for its key.
func onceTo(p store.Policy, until time.Time) dynamo.Switch {
	return dynamo.Switch{Policy: p, Until: until, Cause: dynamo.Cause{Key: "ticket-1"}}
}

// setsOnce sets a switch with a key, and checks whether an earlier call had done so.
func (w *township) setsOnce(s *dynamo.Store, k store.ConfigKey, to dynamo.Switch, before bool) dynamo.Switched {
	w.Helper()
	n, err := s.SetSwitch(w.Context(), k, to, nil)
	if w.must(err); n.Repeated != before {
		w.Errorf("set before: %t, want %t", n.Repeated, before)
	}
	return n
}

// A switch with a key is set once, also if another operator has changed it since. A key is of
// its level.
func TestASwitchIsSetOnceForItsKey(t *testing.T) {
	for _, k := range []store.ConfigKey{theEntity, everything, theResource} {
		t.Run(k.String(), func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				w.must(w.asks(w.client(w.api.Table), "user"))
				w.setsOnce(w.Store, k, onceTo(store.Yes, time.Time{}), false)
				w.wantMarks("user", "off")
				w.setsOnce(w.Store, k, onceTo(store.Yes, time.Time{}), true)
				w.sets(k, store.Inherit)
				w.setsOnce(w.Store, k, onceTo(store.Yes, time.Time{}), true)
				w.wantMarks("user", "on")
				w.setsOnce(w.Store, store.ConfigKey{Resource: "another"}, onceTo(store.Yes, time.Time{}), false)
			})
		})
	}
}

// The same call completes what was interrupted between the level and its buckets.
func TestAKeyCompletesAnInterruptedSwitch(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		w.must(w.asks(w.client(w.api.Table), "user"))
		s := w.open(faults.Wrap(w.api.Table, faults.Before(func(c *faults.Call) error {
			if isMark(c) {
				return errors.New("gone")
			}
			return nil
		})))
		if _, err := s.SetSwitch(w.Context(), theEntity, onceTo(store.Yes, time.Time{}), nil); !errors.Is(err, store.ErrIncomplete) {
			t.Fatalf("got %v", err)
		}
		w.wantMarks("user", "on")
		w.setsOnce(w.Store, theEntity, onceTo(store.Yes, time.Time{}), true)
		w.wantMarks("user", "off")
		event := fixture.Trail(w.T, w.Store, "user")
		if len(event) != 1 || event[0].Action != audit.LimitsSet || event[0].Details["idempotency_key"] != "ticket-1" {
			t.Errorf("the events are %+v", event)
		}
	})
}

// Of two calls with one key, one changes the level. So does one whose answer is lost.
func TestTwoSwitchesWithOneKey(t *testing.T) {
	inTownship(t, func(w *township) {
		s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() {
			w.setsOnce(w.Store, theEntity, onceTo(store.Yes, time.Time{}), false)
			w.sets(theEntity, store.Inherit)
		})))
		w.setsOnce(s, theEntity, onceTo(store.Yes, time.Time{}), true)
		c, err := w.Limits(w.Context(), theEntity)
		if w.must(err); c.Disabled.Policy != store.Inherit {
			t.Errorf("the level is %+v", c.Disabled)
		}
		lost := w.open(faults.Wrap(w.api.Table, faults.On(faults.LoseAnswer(context.DeadlineExceeded), faults.TransactWriteItems)))
		if _, err := lost.SetSwitch(w.Context(), everything, onceTo(store.Yes, time.Time{}), nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("no answer: %v", err)
		}
		w.setsOnce(w.Store, everything, onceTo(store.Yes, time.Time{}), true)
	})
}

// A key for another change is refused. Of two ends the first one holds.
func TestAKeyOfASwitchIsForOneChange(t *testing.T) {
	inTownship(t, func(w *township) {
		until := time.Now().Add(time.Hour)
		w.setsOnce(w.Store, theEntity, onceTo(store.Yes, until), false)
		if n := w.setsOnce(w.Store, theEntity, onceTo(store.Yes, until.Add(time.Minute)), true); !n.Until.Equal(until) {
			t.Errorf("it ends at %v, want %v", n.Until, until)
		}
		for what, to := range map[string]dynamo.Switch{"another policy": onceTo(store.No, until), "no end": onceTo(store.Yes, time.Time{})} {
			_, err := w.SetSwitch(w.Context(), theEntity, to, nil)
			if used := (*dynamo.KeyUsedError)(nil); !errors.As(err, &used) || used.Operation != "disable" || !strings.Contains(err.Error(), "used to disable entity user for gpt-4") {
				t.Errorf("%s: %v", what, err)
			}
		}
		bad := onceTo(store.Yes, time.Time{})
		bad.Key = "a b"
		if _, err := w.SetSwitch(w.Context(), theEntity, bad, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a bad key: %v", err)
		}
		// The switch that is set already needs no event, but its key a record.
		same := onceTo(store.Yes, until)
		same.Key = "ticket-2"
		w.setsOnce(w.Store, theEntity, same, false)
		w.setsOnce(w.Store, theEntity, same, true)
	})
}

// Deleting an entity deletes the records of its keys, and another entity of that name begins
// without them.
func TestKeysOfSwitchesEndWithTheirEntity(t *testing.T) {
	inTownship(t, func(w *township) {
		w.must(errOf(w.CreateEntity(w.Context(), limiter.Entity{ID: "user"})))
		w.setsOnce(w.Store, everything, onceTo(store.Yes, time.Time{}), false)
		_, err := w.DeleteEntity(w.Context(), "user")
		w.must(err)
		w.setsOnce(w.Store, everything, onceTo(store.Yes, time.Time{}), false)
	})
}

// A record that another call with the key writes meanwhile is not written over, also one of before
// the entity was created. One of an entity that was deleted counts as none.
func TestARecordThatComesMeanwhile(t *testing.T) {
	for name, ofDeleted := range map[string]bool{"of the entity": false, "of before it was created": false, "of a deleted one": true} {
		t.Run(name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				user, err := w.CreateEntity(w.Context(), limiter.Entity{ID: "user"})
				w.must(err)
				was := map[string]string{"of the entity": user.Incarnation, "of before it was created": schema.NoIncarnation, "of a deleted one": "0123456789abcdef"}[name]
				s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() {
					fixture.Put(w.T, w.api, schema.EncodeOperation(w.ns, schema.LevelOperationKey(w.ns, theEntity, "ticket-1"), &schema.Operation{
						ID: "ticket-1", Entity: "user", Resource: theEntity.Resource, Kind: schema.OperationDisable, Incarnation: was,
						Writer: "another", Expires: time.Now().Add(time.Hour),
					}))
				})))
				w.setsOnce(s, theEntity, onceTo(store.Yes, time.Time{}), !ofDeleted)
				c, err := w.Limits(w.Context(), theEntity)
				if isSet := err == nil && c.Disabled.Policy == store.Yes; isSet != ofDeleted {
					t.Errorf("the level is %+v, %v", c, err)
				}
			})
		})
	}
}
