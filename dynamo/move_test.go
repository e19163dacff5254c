package dynamo_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// family gives everybody 1000 tokens an hour. The user cascades to a; b could be its parent, too.
func (w *township) family() {
	w.Helper()
	fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
	for _, e := range []store.Entity{{ID: "a"}, {ID: "b"}, {ID: "user", Parent: "a", Cascade: true}} {
		fixture.CreateEntity(w.T, w.Store, e)
	}
}

func (w *township) moves(entity, parent string) dynamo.Switched {
	w.Helper()
	n, err := w.SetParent(w.Context(), entity, dynamo.Move{Parent: parent}, nil)
	w.must(err)
	return n
}

func (w *township) cascades(k store.ConfigKey, p store.Policy) dynamo.Switched {
	w.Helper()
	n, err := w.SetCascade(w.Context(), k, dynamo.Cascade{Policy: p}, nil)
	w.must(err)
	return n
}

// spent is what an entity's bucket has consumed and not got back, in tokens.
func (w *township) spent(entity string) (n int64) {
	w.Helper()
	images, err := w.Buckets(w.Context(), entity, "gpt-4", 1)
	w.must(err)
	for _, img := range images {
		for _, l := range img.Limits {
			n += l.Consumed / 1000
		}
	}
	return n
}

// wantSpent checks what the user and both parents have spent.
func (w *township) wantSpent(when string, user, a, b int64) {
	w.Helper()
	got, want := [3]int64{w.spent("user"), w.spent("a"), w.spent("b")}, [3]int64{user, a, b}
	if got != want {
		w.Errorf("%s: user, a and b have spent %v, want %v", when, got, want)
	}
}

// payers tells to whom the shards of an entity's bucket cascade.
func (w *township) payers(entity, resource string) string {
	w.Helper()
	images, err := w.Buckets(w.Context(), entity, resource, 1)
	w.must(err)
	var shards []string
	for _, img := range images {
		who := "-"
		if img.Cascade {
			who = img.Parent
		}
		shards = append(shards, who)
	}
	return strings.Join(shards, "+")
}

func (w *township) wantPayers(want string) {
	w.Helper()
	if got := w.payers("user", "gpt-4"); got != want {
		w.Errorf("the bucket cascades to %q, want %q", got, want)
	}
}

// children names the children of an entity.
func (w *township) children(parent string) (names []string) {
	w.Helper()
	children, err := w.Children(w.Context(), parent)
	w.must(err)
	for _, c := range children {
		names = append(names, c.ID)
	}
	return names
}

// A move changes the record, and what the index shows, and has an event. A move to where the
// entity is has none.
func TestAMoveChangesTheRecord(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		was, err := w.Entity(w.Context(), "user")
		w.must(err)
		want := *was
		for _, to := range []string{"b", "b", "", "", "a"} {
			if want.Parent != to {
				want.Parent, want.Generation = to, want.Generation+1
			}
			_, err := w.SetParent(w.Context(), "user", dynamo.Move{Parent: to, Cause: dynamo.Cause{Reason: "to " + to}}, nil)
			w.must(err)
			got, err := w.Entity(w.Context(), "user")
			w.must(err)
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("moved to %q (-want +got):\n%s", to, diff)
			}
			for _, parent := range []string{"a", "b"} {
				if got := w.children(parent); slices.Contains(got, "user") != (parent == to) {
					t.Errorf("moved to %q: the children of %s are %v", to, parent, got)
				}
			}
		}
		page, err := w.AuditEvents(w.Context(), audit.Query{Entity: "user"})
		w.must(err)
		var events []string
		for _, e := range slices.Backward(page.Events) {
			events = append(events, fmt.Sprint(e.Action, e.Details))
		}
		g := was.Generation
		wantEvents := []string{
			events[0], // its creation
			fmt.Sprint("entity_parent_changed", map[string]any{"old_parent_id": "a", "parent_id": "b", "pgen": g + 1, "reason": "to b"}),
			fmt.Sprint("entity_parent_changed", map[string]any{"old_parent_id": "b", "parent_id": nil, "pgen": g + 2, "reason": "to "}),
			fmt.Sprint("entity_parent_changed", map[string]any{"old_parent_id": nil, "parent_id": "a", "pgen": g + 3, "reason": "to a"}),
		}
		if diff := cmp.Diff(wantEvents, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A record without what later versions of the Python package write can be moved: it gets its
// first generation.
func TestAnOldRecordMoves(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		old := fixture.Get(w.T, w.api.Table, schema.MetaKey(w.ns, "user"))
		for _, attr := range []string{schema.ParentID, schema.PGen, schema.PInc, schema.GSI1PK, schema.GSI1SK} {
			delete(old, attr)
		}
		fixture.Put(w.T, w.api.Table, old)
		w.must(w.asks(w.client(w.api.Table), "user"))
		w.moves("user", "b")
		got, err := w.Entity(w.Context(), "user")
		w.must(err)
		if got.Parent != "b" || got.Generation != 1 || got.Incarnation != schema.Timestamp(got.Created) {
			t.Errorf("got %+v", got)
		}
		w.wantPayers("b")
	})
}

// A move that makes no sense is refused with the field, and changes nothing.
func TestBadMovesAreRefused(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		fixture.CreateEntity(w.T, w.Store, store.Entity{ID: "under", Parent: "user"})
		last := "a"
		for i := range 34 {
			id := fmt.Sprint("level-", i)
			fixture.CreateEntity(w.T, w.Store, store.Entity{ID: id, Parent: last})
			last = id
		}
		for _, tt := range []struct{ name, entity, parent, reason, field string }{
			{"itself", "user", "user", "", "parent"},
			{"its child", "user", "under", "", "parent"},
			{"its grandchild", "a", "under", "", "parent"},
			{"too deep", "b", "level-32", "", "parent"},
			{"a bad name", "us#er", "b", "", "entity"},
			{"a bad parent", "user", "b#", "", "entity"},
			{"a long reason", "user", "b", strings.Repeat("é", 257), "reason"},
		} {
			_, err := w.SetParent(w.Context(), tt.entity, dynamo.Move{Parent: tt.parent, Cause: dynamo.Cause{Reason: tt.reason}}, nil)
			var invalid *store.ValidationError
			if !errors.As(err, &invalid) || invalid.Field != tt.field {
				t.Errorf("%s: got %v", tt.name, err)
			}
		}
		w.moves("b", "level-31") // 32 ancestors
		for name, move := range map[string][2]string{"no entity": {"nobody", "a"}, "no parent": {"user", "nobody"}} {
			_, err := w.SetParent(w.Context(), move[0], dynamo.Move{Parent: move[1]}, nil)
			var missing *store.NotFoundError
			if !errors.As(err, &missing) || missing.Name != "nobody" {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if e, err := w.Entity(w.Context(), "user"); err != nil || e.Parent != "a" {
			t.Errorf("the user is %+v, %v", e, err)
		}
	})
}

// No move makes an entity cascade to one that cascades itself.
func TestAMoveMakesNoNestedCascade(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		fixture.CreateEntity(w.T, w.Store, store.Entity{ID: "key", Cascade: true})
		fixture.CreateEntity(w.T, w.Store, store.Entity{ID: "reader", Parent: "a"})
		refused := func(entity, parent string, want store.NestedCascadeError) {
			t.Helper()
			_, err := w.SetParent(w.Context(), entity, dynamo.Move{Parent: parent}, nil)
			var nested *store.NestedCascadeError
			if !errors.As(err, &nested) || *nested != want {
				t.Errorf("%s to %s: got %v", entity, parent, err)
			}
		}
		refused("key", "user", store.NestedCascadeError{Child: "key", Entity: "user", Parent: "a"})
		w.moves("reader", "user") // it does not cascade
		w.moves("user", "")
		w.moves("key", "user")
		refused("user", "b", store.NestedCascadeError{Child: "key", Entity: "user", Parent: "b"})
	})
}

// An entity whose parent was deleted can be moved, and so can one below it.
func TestAMoveFromADeletedParent(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		w.must(w.asks(w.client(w.api.Table), "user"))
		w.must(errOf(w.DeleteEntity(w.Context(), "a")))
		w.moves("b", "user")
		w.moves("b", "")
		w.moves("user", "b")
		w.wantPayers("b")
	})
}

// A move reaches all shards of all buckets of the entity, and counts them.
func TestAMoveReachesTheBuckets(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		shardsOf(w.T, w.Store, "user", 4)
		w.took("gpt-3", 1)
		w.must(w.asks(w.client(w.api.Table), "b"))
		for i, want := range []dynamo.Switched{{Reached: 2, Changed: 2}, {Reached: 2}} {
			if n := w.moves("user", "b"); n != want {
				t.Errorf("move %d: counted %+v, want %+v", i, n, want)
			}
		}
		record, err := w.Entity(w.Context(), "user")
		w.must(err)
		for resource, shards := range map[string]int{"gpt-4": 4, "gpt-3": 1} {
			images, err := w.Buckets(w.Context(), "user", resource, 1)
			w.must(err)
			for _, img := range images {
				if want := (store.Owner{Cascade: true, Parent: "b", Generation: record.Generation, Incarnation: record.Incarnation}); img.Owner() != want {
					t.Errorf("shard %d of %s has %+v, want %+v", img.Shard, resource, img.Owner(), want)
				}
			}
			if len(images) != shards {
				t.Errorf("%s has %d shards", resource, len(images))
			}
		}
		if got := w.payers("b", "gpt-4"); got != "-" {
			t.Errorf("the parent cascades to %q", got)
		}
		w.moves("user", "")
		w.wantPayers("-+-+-+-")
	})
}

// A policy of a level decides for the buckets below whose levels before it have none. A level
// without one leaves it to the next, and then to the record.
func TestTheFirstCascadePolicyDecides(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		fixture.CreateEntity(w.T, w.Store, store.Entity{ID: "other", Parent: "a"}) // by itself it does not
		l := w.client(w.api.Table)
		for _, e := range []string{"user", "other", "a"} {
			w.must(w.asks(l, e))
		}
		w.took("gpt-3", 1)
		for _, step := range []struct {
			k    store.ConfigKey
			p    store.Policy
			want string
			n    dynamo.Switched
		}{
			{theResource, store.No, "user -, its gpt-3 a, other -", dynamo.Switched{Reached: 3, Changed: 1}},
			{theResource, store.Yes, "user a, its gpt-3 a, other a", dynamo.Switched{Reached: 3, Changed: 2}},
			{everything, store.No, "user -, its gpt-3 -, other a", dynamo.Switched{Reached: 2, Changed: 2}},
			{theEntity, store.Yes, "user a, its gpt-3 -, other a", dynamo.Switched{Reached: 1, Changed: 1}},
			{theEntity, store.Yes, "user a, its gpt-3 -, other a", dynamo.Switched{Reached: 1}},
			{everything, store.Inherit, "user a, its gpt-3 a, other a", dynamo.Switched{Reached: 2, Changed: 1}},
			{theResource, store.No, "user a, its gpt-3 a, other -", dynamo.Switched{Reached: 3, Changed: 1}},
			{theEntity, store.Inherit, "user -, its gpt-3 a, other -", dynamo.Switched{Reached: 1, Changed: 1}},
			{theResource, store.Inherit, "user a, its gpt-3 a, other -", dynamo.Switched{Reached: 3, Changed: 1}},
		} {
			n := w.cascades(step.k, step.p)
			got := fmt.Sprintf("user %s, its gpt-3 %s, other %s", w.payers("user", "gpt-4"), w.payers("user", "gpt-3"), w.payers("other", "gpt-4"))
			if got != step.want || n != step.n {
				t.Errorf("%s %v: the buckets are %q, counted %+v, want %q and %+v", step.k, step.p, got, n, step.want, step.n)
			}
			if got := w.payers("a", "gpt-4"); got != "-" {
				t.Errorf("%s %v: the parent cascades to %q", step.k, step.p, got)
			}
		}
		page, err := w.AuditEvents(w.Context(), audit.Query{Entity: "user"})
		w.must(err)
		if got := fmt.Sprint(page.Events[0].Action, page.Events[0].Details, len(page.Events)); got != fmt.Sprint("limits_set", map[string]any{"cascade": nil}, 5) {
			t.Errorf("the events are %s", got)
		}
	})
}

// A policy is kept beside limits and a switch, and leaves them.
func TestACascadePolicyIsKeptBesideLimits(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		w.sets(theEntity, store.No)
		w.cascades(theEntity, store.No)
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(20))
		w.sets(theEntity, store.Yes)
		c, err := w.Limits(w.Context(), theEntity)
		w.must(err)
		want := &store.Config{Limits: perHour(20), Disabled: store.Switch{Policy: store.Yes}, Cascade: store.No}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("the level (-want +got):\n%s", diff)
		}
	})
}

// Bad policies are refused before anything is sent.
func TestBadCascadePoliciesAreRefused(t *testing.T) {
	inTownship(t, func(w *township) {
		for field, bad := range map[string]struct {
			k  store.ConfigKey
			to dynamo.Cascade
		}{
			"level":  {store.ConfigKey{}, dynamo.Cascade{Policy: store.Yes}},
			"policy": {theEntity, dynamo.Cascade{Policy: 7}},
			"reason": {theEntity, dynamo.Cascade{Policy: store.Yes, Cause: dynamo.Cause{Reason: "a\nb"}}},
			"entity": {store.ConfigKey{Entity: "a#b", Resource: "gpt-4"}, dynamo.Cascade{Policy: store.Yes}},
		} {
			sent := len(w.api.Ops())
			_, err := w.SetCascade(w.Context(), bad.k, bad.to, nil)
			var invalid *store.ValidationError
			if !errors.As(err, &invalid) || invalid.Field != field || len(w.api.Ops()) != sent {
				t.Errorf("%s: got %v", field, err)
			}
		}
	})
}

// After a move, every client takes from the new parent: one that knows the bucket, one that is
// new, and one that remembers the old parent as empty. Nothing is left with the old one.
func TestTheNewParentPays(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		warm := w.client(w.api)
		w.must(w.asks(warm, "user"))
		w.wantSpent("before", 1, 1, 0)
		w.moves("user", "b")
		w.must(w.asks(warm, "user"))
		w.wantSpent("warm", 2, 1, 1)
		w.must(w.asks(w.client(w.api.Table), "user"))
		w.wantSpent("cold", 3, 1, 2)
		sent := len(w.api.Ops())
		w.must(w.asks(warm, "user"))
		if n := len(w.api.Ops()) - sent; n > 4 { // it compares its image with the levels, once
			t.Errorf("the second acquire took %d requests", n)
		}
		sent = len(w.api.Ops())
		w.must(w.asks(warm, "user"))
		if got := w.api.Ops()[sent:]; !slices.Equal(got, []string{"UpdateItem", "UpdateItem"}) {
			t.Errorf("the third acquire sent %v", got)
		}
		w.wantSpent("warm again", 5, 1, 4)

		lease, err := warm.Acquire(w.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rph": 10}})
		w.must(err)
		w.moves("user", "a")
		w.must(lease.Settle("rph", 3))
		w.must(lease.Commit(w.Context()))
		w.wantSpent("a lease that returns", 8, 1, 7)
		w.cascades(everything, store.No)
		w.must(w.asks(warm, "user"))
		w.wantSpent("without a cascade", 9, 1, 7)
		w.cascades(everything, store.Inherit)
		w.must(w.asks(warm, "user"))
		w.wantSpent("with a cascade", 10, 2, 7)
	})
}

// A caller who is refused because the old parent is empty is served by the new one: at once
// by a new process, and after the trust in its image by one that remembers.
func TestAnEmptyParentIsLeft(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		l := w.client(w.api.Table)
		w.must(w.asks(l, "user"))
		w.must(errOf(l.Acquire(w.Context(), limiter.Request{Entity: "a", Resource: "gpt-4", Consume: map[string]int64{"rph": 999}})))
		fixture.WantErr(t, w.asks(l, "user"), limiter.ErrExceeded)
		w.moves("user", "b")
		time.Sleep(limiter.DefaultTrust)
		w.must(w.asks(l, "user"))
		w.wantSpent("then", 2, 1000, 1)
	})
}

// A caller who is refused from memory because the old parent is disabled is served after the
// time to live of configuration at the latest.
func TestADisabledParentIsLeft(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		l := w.client(w.api.Table)
		w.must(w.asks(l, "user"))
		w.sets(store.ConfigKey{Entity: "a", Resource: store.DefaultResource}, store.Yes)
		w.wantRefused(w.asks(l, "user"), "disabled")
		w.moves("user", "b")
		w.must(w.asks(w.client(w.api.Table), "user"))
		for range 2 { // memory refuses by the bucket, then by the configuration
			time.Sleep(limiter.DefaultConfigTTL)
			_ = w.asks(l, "user")
		}
		w.must(w.asks(l, "user"))
	})
}

// A limiter on the store that moves the entity knows of the move at once, unless it is just
// reading whether the old parent is disabled.
func TestAMoveIsKnownToItsOwnProcess(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		l, err := limiter.New(w.Store, limiter.Options{})
		w.must(err)
		w.Cleanup(func() { w.must(l.Close()) })
		w.must(w.asks(l, "user"))
		w.must(w.asks(l, "a"))
		w.sets(store.ConfigKey{Entity: "a", Resource: store.DefaultResource}, store.Yes)
		w.wantRefused(w.asks(l, "user"), "disabled")
		synctest.Wait() // until nothing is read any more
		w.moves("user", "b")
		w.must(w.asks(l, "user"))
		w.wantSpent("then", 2, 2, 1)
	})
}

// An aggregator that would undo a change is named, and nothing is changed. Otherwise older
// clients are refused from then on.
func TestMovesNeedAnAggregatorThatKnowsThem(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		for lambda, want := range map[string][2]string{"0.15.9": {"a", ""}, "0.16.2": {"a", "cascade"}, "0.17.0": {"b", "cascade"}} {
			w.moves("user", "a")
			record := schema.Version{Schema: dynamo.SchemaVersion, ClientMin: "0.15.0", Lambda: lambda, Updated: time.Now()}
			fixture.Put(w.T, w.api.Table, schema.EncodeVersion(record)) // without spread index keys, as the Python package has it
			s := w.open(w.api.Table)
			_, moved := s.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)
			_, set := s.SetCascade(w.Context(), everything, dynamo.Cascade{Policy: store.Yes}, nil)
			e, err := w.Entity(w.Context(), "user")
			w.must(err)
			if e.Parent != want[0] || (moved == nil) != (want[0] == "b") || (set == nil) != (want[1] != "") {
				t.Errorf("%s: the parent is %s; errors %v, %v", lambda, e.Parent, moved, set)
			}
			least := map[string]string{"0.15.9": "0.15.0", "0.16.2": "0.16.0", "0.17.0": "0.17.0"}[lambda]
			if v, _, err := dynamo.ReadVersion(w.Context(), dynamo.Options{API: w.api.Table, Table: table}); err != nil || v.ClientMin != least {
				t.Errorf("%s: the record says %+v, %v", lambda, v, err)
			}
		}
	})
}

// A move that cannot reach all buckets says so, and the same call completes it, without a
// second event.
func TestAnIncompleteMoveIsCompletedByMakingItAgain(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		shardsOf(w.T, w.Store, "user", 4)
		left := 2
		w.api.Set(faults.Before(func(c *faults.Call) error {
			if c.Op == "UpdateItem" {
				if left--; left < 0 {
					return errors.New("connection reset")
				}
			}
			return nil
		}))
		_, err := w.SetParent(w.Context(), "user", dynamo.Move{Parent: "b"}, nil)
		var incomplete *store.IncompleteError
		if !errors.As(err, &incomplete) || !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		w.api.Set(nil)
		w.wantPayers("b+b+-+-") // the fixture's shards have no owner
		if n := w.moves("user", "b"); n != (dynamo.Switched{Reached: 1, Changed: 1}) {
			t.Errorf("counted %+v", n)
		}
		w.wantPayers("b+b+b+b")
		page, err := w.AuditEvents(w.Context(), audit.Query{Entity: "user"})
		w.must(err)
		if len(page.Events) != 2 { // and its creation
			t.Errorf("there are %d events", len(page.Events))
		}
	})
}
