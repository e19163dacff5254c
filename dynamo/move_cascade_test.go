package dynamo_test

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A move also changes whether the record cascades, with the buckets, and has an event that says
// so. Where nothing changes there is none.
func TestAMoveChangesWhetherTheRecordCascades(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		w.must(w.asks(w.client(w.api.Table), "user"))
		was, err := w.Entity(w.Context(), "user")
		w.must(err)
		for i, tt := range []struct {
			to        dynamo.Move
			payer     string
			generates int64
		}{
			{dynamo.Move{Parent: "a", Cascade: store.Yes}, "a", 0},
			{dynamo.Move{Parent: "a", Cascade: store.No}, "-", 1},
			{dynamo.Move{Parent: "b"}, "-", 2},
			{dynamo.Move{Parent: "a", Cascade: store.Yes}, "a", 3},
			{dynamo.Move{Parent: "", Cascade: store.Yes}, "-", 4},
		} {
			_, err := w.SetParent(w.Context(), "user", tt.to, nil)
			w.must(err)
			got, err := w.Entity(w.Context(), "user")
			if w.must(err); got.Parent != tt.to.Parent || got.Generation != was.Generation+tt.generates {
				t.Errorf("%d: got %+v", i, got)
			}
			w.wantPayers(tt.payer)
		}
		page, err := w.AuditEvents(w.Context(), audit.Query{Entity: "user"})
		w.must(err)
		var details []string
		for _, e := range page.Events {
			if e.Action == audit.EntityParentChanged {
				details = append(details, fmt.Sprint(e.Details["parent_id"], e.Details["cascade"]))
			}
		}
		if got, want := fmt.Sprint(details), "[<nil> <nil> atrue b<nil> afalse]"; got != want {
			t.Errorf("the events are %s, want %s", got, want)
		}
	})
}

// An entity and its parent that begin to cascade at the same time: each changes what the other
// one checks, so that one is refused.
func TestOfTwoCascadesThatBeginOneIsRefused(t *testing.T) {
	inTownship(t, func(w *township) {
		for _, e := range []store.Entity{{ID: "org"}, {ID: "team", Parent: "org"}, {ID: "user", Parent: "team"}} {
			fixture.CreateEntity(w.T, w.Store, e)
		}
		slow := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() {
			_, err := w.SetParent(w.Context(), "team", dynamo.Move{Parent: "org", Cascade: store.Yes}, nil)
			w.must(err)
		})))
		_, err := slow.SetParent(w.Context(), "user", dynamo.Move{Parent: "team", Cascade: store.Yes}, nil)
		fixture.WantErr(t, err, store.ErrNestedCascade)
		if got, err := w.Entity(w.Context(), "user"); err != nil || got.Cascade {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// An entity can stop cascading to a parent that was deleted.
func TestACascadeToADeletedParentEnds(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		_, err := w.DeleteEntity(w.Context(), "a")
		w.must(err)
		_, err = w.SetParent(w.Context(), "user", dynamo.Move{Parent: "a", Cascade: store.No}, nil)
		w.must(err)
		got, err := w.Entity(w.Context(), "user")
		if w.must(err); got.Cascade || got.Parent != "a" {
			t.Errorf("got %+v", got)
		}
	})
}

// The records of several entities are read together, those without one are missing.
func TestEntityRecords(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		got, err := w.EntityRecords(w.Context(), []string{"user", "b", "nobody"})
		if w.must(err); len(got) != 2 || got["user"].Parent != "a" || got["b"] == nil {
			t.Errorf("got %v", got)
		}
		_, err = w.EntityRecords(w.Context(), []string{"a#"})
		fixture.WantErr(t, err, store.ErrInvalid)
	})
}
