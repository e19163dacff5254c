package dynamo_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A decision about the parent of an entity: a move, or a policy of the level of everything that the
// entity uses.
type ownerChange struct {
	name        string
	once, other func(*dynamo.Store, string) (dynamo.Switched, error) // with a key, "" for none
	used        string
}

func ownerChanges(w *township) [2]ownerChange {
	move := func(parent string) func(*dynamo.Store, string) (dynamo.Switched, error) {
		return func(s *dynamo.Store, key string) (dynamo.Switched, error) {
			return s.SetParent(w.Context(), "user", dynamo.Move{Parent: parent, Cause: dynamo.Cause{Key: key}}, nil)
		}
	}
	policy := func(p store.Policy) func(*dynamo.Store, string) (dynamo.Switched, error) {
		return func(s *dynamo.Store, key string) (dynamo.Switched, error) {
			return s.SetCascade(w.Context(), everything, dynamo.Cascade{Policy: p, Cause: dynamo.Cause{Key: key}}, nil)
		}
	}
	return [2]ownerChange{
		{"parent", move("b"), move("a"), "used to move user"},
		{"cascade", policy(store.No), policy(store.Yes), "used to set the cascade policy of entity user"},
	}
}

// eachOwnerChange plays a test with a bucket of the user, whose parent is a.
func eachOwnerChange(t *testing.T, play func(*township, ownerChange)) {
	t.Helper()
	for i := range 2 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.family()
				w.must(w.asks(w.client(w.api.Table), "user"))
				play(w, ownerChanges(w)[i])
			})
		})
	}
}

// payer is the parent that the bucket of the user takes from, "" if none.
func (w *township) payer() string {
	w.Helper()
	images, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
	if w.must(err); !images[0].Cascade {
		return ""
	}
	return images[0].Parent
}

// wantOnce makes a change with a key, and checks whether an earlier call had made it.
func (w *township) wantOnce(change func(*dynamo.Store, string) (dynamo.Switched, error), s *dynamo.Store, key string, before bool) {
	w.Helper()
	if n, err := change(s, key); err != nil || n.Repeated != before {
		w.Errorf("got %+v, %v; made before: want %t", n, err, before)
	}
}

// A move and a cascade policy with a key are made once, also if an operator has changed them since.
func TestAnOwnerChangesOnceForItsKey(t *testing.T) {
	eachOwnerChange(t, func(w *township, c ownerChange) {
		w.wantOnce(c.once, w.Store, "ticket-1", false)
		after := w.payer()
		if after == "a" {
			t.Fatalf("%s: nothing has changed", c.name)
		}
		w.wantOnce(c.other, w.Store, "", false)
		w.wantOnce(c.once, w.Store, "ticket-1", true)
		if got := w.payer(); got != "a" {
			t.Errorf("%s: a repetition made it %q", c.name, got)
		}
		// What changes nothing needs no event, but its key a record.
		events := len(fixture.Trail(w.T, w.Store, "user"))
		w.wantOnce(c.other, w.Store, "ticket-2", false)
		w.wantOnce(c.once, w.Store, "", false)
		w.wantOnce(c.other, w.Store, "ticket-2", true)
		if got := w.payer(); got != after {
			t.Errorf("%s: a repetition made it %q", c.name, got)
		}
		if n := len(fixture.Trail(w.T, w.Store, "user")); n != events+1 {
			t.Errorf("%s: %d events, want 1", c.name, n-events)
		}
	})
}

// A key is for one change, and is looked at before anything is written.
func TestAKeyOfAnOwnerIsForOneChange(t *testing.T) {
	eachOwnerChange(t, func(w *township, c ownerChange) {
		w.wantOnce(c.once, w.Store, "ticket-1", false)
		after := w.payer()
		_, err := c.other(w.Store, "ticket-1")
		if !errors.Is(err, dynamo.ErrKeyUsed) || !strings.Contains(err.Error(), c.used) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := w.SetSwitch(w.Context(), everything, onceTo(store.Yes, time.Time{}), nil); !errors.Is(err, dynamo.ErrKeyUsed) {
			t.Errorf("%s: a switch with its key: %v", c.name, err)
		}
		if _, err := c.once(w.Store, "a b"); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: a bad key: %v", c.name, err)
		}
		if got := w.payer(); got != after {
			t.Errorf("%s: it is %q", c.name, got)
		}
	})
}

// Of two calls with one key that meet, one makes the change.
func TestTwoOwnersWithOneKey(t *testing.T) {
	eachOwnerChange(t, func(w *township, c ownerChange) {
		s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() {
			w.wantOnce(c.once, w.Store, "ticket-1", false)
			w.wantOnce(c.other, w.Store, "", false)
		})))
		w.wantOnce(c.once, s, "ticket-1", true)
		if got := w.payer(); got != "a" {
			t.Errorf("%s: it is %q", c.name, got)
		}
	})
}
