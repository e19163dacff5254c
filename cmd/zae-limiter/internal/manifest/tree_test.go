package manifest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// treeOf is a manifest of records, each written as "key: {parent: team}".
func treeOf(tb testing.TB, entities ...string) *manifest.Manifest {
	tb.Helper()
	return parse(tb, "name: a\nnamespace: default\nentities: {"+strings.Join(entities, ", ")+"}\n")
}

// record compares an entity's record, written as "parent+" if it cascades, "-" if it does not
// exist.
func (w *world) record(id, want string) {
	w.Helper()
	got := "-"
	if e, err := w.Store.Entity(w.Context(), id); err == nil {
		got = e.Parent
		if e.Cascade {
			got += "+"
		}
	} else if !errors.Is(err, store.ErrNotFound) {
		w.Must(err)
	}
	if got != want {
		w.Errorf("the record of %s is %q, want %q", id, got, want)
	}
}

// inTime runs a test in virtual time: a move takes a second.
func inTime(t *testing.T, run func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(newWorld(t)) })
}

// An apply creates the entities of a tree, and moves them. Everything that a file does not declare stays.
func TestAManifestHasATree(t *testing.T) {
	inTime(t, func(w *world) {
		m := treeOf(t, "org: {parent: ''}", "team: {parent: org}", "key: {parent: team, cascade: true, resources: {gpt-4: {limits: {rpm: {rate: 5}}}}}")
		w.apply(m, false, "create key", "create key/gpt-4", "create org", "create team")
		w.record("key", "team+")
		w.record("team", "org")
		w.plan(m, false, "unchanged key", "unchanged key/gpt-4", "unchanged org", "unchanged team")

		m = treeOf(t, "org: {cascade: false}", "key: {cascade: false}", "team: {parent: ''}")
		p := w.plan(m, false, "update key", "keep key/gpt-4", "unchanged org", "update team")
		if p.Changes[0].Entity.Parent != "team" || !p.HasChanges() {
			t.Errorf("got %+v", p.Changes[0])
		}
		w.apply(m, false, "update key", "keep key/gpt-4", "unchanged org", "update team")
		w.record("key", "team")
		w.record("team", "")

		_, err := w.Store.SetParent(w.Context(), "key", dynamo.Move{Parent: "org"}, nil)
		w.Must(err)
		w.plan(m, false, "unchanged key", "keep key/gpt-4", "unchanged org", "unchanged team")
		_, err = w.Store.SetParent(w.Context(), "team", dynamo.Move{Parent: "org"}, nil)
		w.Must(err)
		w.apply(m, false, "unchanged key", "keep key/gpt-4", "unchanged org", "update team!")
		w.record("key", "org")
		w.record("team", "")
	})
}

// An entity that the file no longer names stays as it is, also where the manifest created it.
func TestAnApplyDeletesNoEntity(t *testing.T) {
	inTime(t, func(w *world) {
		w.apply(treeOf(t, "org: {parent: ''}", "key: {parent: org, cascade: true}"), false, "create key", "create org")
		none := &manifest.Manifest{Name: "a", Namespace: "default"}
		w.apply(none, false, "keep key", "keep org")
		w.owned(map[string][]string{"a": {"key/", "org/"}})
		if p := w.plan(none, true, "forget key", "forget org"); p.HasChanges() {
			t.Error("the plan has changes")
		}
		w.apply(none, true, "forget key", "forget org")
		w.owned(nil)
		w.record("key", "org+")
		w.record("org", "")
	})
}

// A record belongs to one manifest. One that exists is taken over.
func TestARecordHasOneOwner(t *testing.T) {
	inTime(t, func(w *world) {
		for _, e := range []store.Entity{{ID: "org"}, {ID: "key", Parent: "org"}} {
			_, err := w.Store.CreateEntity(w.Context(), e)
			w.Must(err)
		}
		w.apply(treeOf(t, "org: {parent: ''}", "key: {parent: ''}"), false, "update key?", "adopt org")
		b := parse(t, "name: b\nnamespace: default\nentities: {key: {parent: org}}\n")
		w.plan(b, false, "conflict key of a")
		r, err := w.manager.Import(w.Context(), b, true)
		if w.Must(err); len(r.Failures()) > 0 || r.Count(manifest.Adopt) != 1 {
			t.Errorf("got %+v", r)
		}
		w.apply(b, false, "update key")
		w.record("key", "org")
		w.owned(map[string][]string{"a": {"org/"}, "b": {"key/"}})
	})
}

// Moves that are refused in a wrong order happen in the right one: no state in between has a
// circle, or two cascades in a row.
func TestMovesHappenInOrder(t *testing.T) {
	for name, c := range map[string]struct{ before, after []string }{
		"a chain turns round":           {[]string{"a: {parent: ''}", "b: {parent: a}", "c: {parent: b}"}, []string{"c: {parent: ''}", "b: {parent: c}", "a: {parent: b}"}},
		"a cascade rises":               {[]string{"a: {parent: ''}", "b: {parent: a}", "c: {parent: b, cascade: true}"}, []string{"a: {parent: ''}", "b: {parent: a, cascade: true}", "c: {parent: b, cascade: false}"}},
		"a cascade sinks":               {[]string{"a: {parent: ''}", "b: {parent: a, cascade: true}", "c: {parent: b}"}, []string{"a: {parent: ''}", "b: {parent: a, cascade: false}", "c: {parent: b, cascade: true}"}},
		"the child becomes grandparent": {[]string{"a: {parent: b, cascade: true}", "b: {parent: c}", "c: {parent: ''}"}, []string{"a: {parent: '', cascade: true}", "b: {parent: a, cascade: true}", "c: {parent: b, cascade: false}"}},
		"the child moves deeper":        {[]string{"e: {parent: ''}", "c: {parent: e, cascade: true}", "r: {parent: ''}"}, []string{"r: {parent: ''}", "e: {parent: r, cascade: true}", "d: {parent: e}", "c: {parent: d, cascade: true}"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(w *world) {
				for _, m := range []*manifest.Manifest{treeOf(t, c.before...), treeOf(t, c.after...)} {
					r, err := w.manager.Apply(w.Context(), m, manifest.ApplyOptions{})
					w.Must(err)
					for _, f := range r.Failures() {
						t.Errorf("%s: %v", f.Key.Entity, f.Err)
					}
					if p, err := w.manager.Plan(w.Context(), m, false); err != nil || p.HasChanges() {
						t.Errorf("%v, and then %v", err, actions(p.Changes))
					}
				}
			})
		})
	}
}

// From any tree an apply makes any other one.
func TestAnyTreeBecomesAnyOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		before, after := anyTree(r, "before"), anyTree(r, "after")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			for _, m := range []*manifest.Manifest{before, after} {
				result, err := w.manager.Apply(w.Context(), m, manifest.ApplyOptions{Prune: true})
				if err != nil {
					r.Fatal(err)
				}
				for _, f := range result.Failures() {
					r.Errorf("%s: %v", f.Key.Entity, f.Err)
				}
			}
			exported, _, err := w.manager.Export(w.Context(), "a")
			w.Must(err)
			for k, l := range exported.Levels {
				of := after.Levels[k]
				if of.Parent == nil {
					of = before.Levels[k]
				}
				if *l.Parent != *of.Parent || l.Cascade == store.Yes != (of.Cascade == store.Yes) {
					r.Errorf("%s is %v", k.Entity, l)
				}
			}
			if p, err := w.manager.Plan(w.Context(), exported, false); err != nil || p.HasChanges() {
				r.Errorf("a plan of the export: %v, %v", err, p)
			}
		})
	})
}

// anyTree is a tree of all of seven entities, so that none keeps what another tree gave it.
func anyTree(r *rapid.T, label string) *manifest.Manifest {
	ids := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(r, label)
	m := &manifest.Manifest{Name: "a", Namespace: "default", Levels: map[store.ConfigKey]manifest.Level{}}
	cascades := map[string]bool{}
	for i, id := range ids {
		parent := ""
		if n := rapid.IntRange(-1, i-1).Draw(r, "parent of "+id); n >= 0 {
			parent = ids[n]
		}
		l := manifest.Level{Parent: &parent}
		l.Cascade = store.No
		if rapid.Bool().Draw(r, id+" cascades") && !cascades[parent] {
			l.Cascade, cascades[id] = store.Yes, parent != ""
		}
		m.Levels[store.ConfigKey{Entity: id}] = l
	}
	return m
}

// A tree that cannot be is reported with file, line and field: circles by the file alone, the
// rest by the table. The table stays as it is.
func TestFindingsOfATree(t *testing.T) {
	inTime(t, func(w *world) {
		w.apply(treeOf(t, "org: {parent: ''}", "team: {parent: org, cascade: true}", "key: {parent: team}"), false, "create key", "create org", "create team")
		for text, want := range map[string]string{
			"a: {parent: a}": "f:3:14: entities.a.parent: an entity cannot be its own parent",
			"b: {parent: c}\n c: {parent: a}\n a: {parent: b}":                "f:5:14: entities.a.parent: a, b, c, a make a circle: give one of them another parent",
			"x: {parent: nobody}":                                             `f:3:14: entities.x.parent: there is no entity "nobody": declare it, too, with parent: "" for instance, or create it first`,
			"org: {parent: key}":                                              "f:3:16: entities.org.parent: org, key, team, org make a circle: give one of them another parent",
			"key: {cascade: true}":                                            "f:3:17: entities.key.cascade: a cascade has one level: team cascades to org, and key would cascade to team: let one of the two not cascade",
			"x: {parent: team, cascade: true}":                                "f:3:29: entities.x.cascade: a cascade has one level: team cascades to org, and x would cascade to team: let one of the two not cascade",
			"x: {parent: y, cascade: true}\n y: {cascade: true}":              "",
			"x: {parent: y, cascade: true}\n y: {cascade: true, parent: org}": "f:3:26: entities.x.cascade: a cascade has one level: y cascades to org, and x would cascade to y: let one of the two not cascade",
		} {
			m, err := manifest.Parse("f", []byte("namespace: default\nentities:\n "+text+"\n"))
			if err == nil {
				_, err = w.manager.Plan(w.Context(), m, false)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil && !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s (-want +got):\n%s", text, diff)
			}
		}
		made := treeOf(t, "x: {parent: ''}")
		made.Source = manifest.Source{}
		nobody := "nobody"
		made.Levels[store.ConfigKey{Entity: "x"}] = manifest.Level{Parent: &nobody}
		if _, err := w.manager.Plan(w.Context(), made, false); err == nil || !strings.HasPrefix(err.Error(), "manifest a: entities.x.parent: there is no") {
			t.Errorf("got %v", err)
		}
	})
}

// A tree that another client has made stays exportable: an apply is not asked to change it.
func TestATreeThatIsThereAlreadyIsNoFinding(t *testing.T) {
	inTime(t, func(w *world) {
		for _, e := range []store.Entity{{ID: "org"}, {ID: "team", Parent: "org"}, {ID: "key", Parent: "team"}} {
			_, err := w.Store.CreateEntity(w.Context(), e)
			w.Must(err)
		}
		_, err := w.Store.DeleteEntity(w.Context(), "team")
		w.Must(err)
		exported, skipped, err := w.manager.Export(w.Context(), "a")
		if w.Must(err); len(skipped) > 0 {
			t.Errorf("skipped %v", skipped)
		}
		w.apply(exported, false, "adopt key")
	})
}

// An apply that ends between a record and its buckets is completed by the next one.
func TestAnInterruptedMoveIsResumed(t *testing.T) {
	inTime(t, func(w *world) {
		w.set("gpt-4", 10)
		w.apply(treeOf(t, "a: {parent: ''}", "b: {parent: ''}", "e: {parent: a, cascade: true}"), false, "create a", "create b", "create e")
		w.Lease(w.Limiter, testbed.Ask("e", "rpm", 1))
		failing := managerOf(w, w.OpenOn(faults.Wrap(w.API, faults.Before(func(c *faults.Call) error {
			if update, ok := c.Input.(*dynamodb.UpdateItemInput); ok && update.ExpressionAttributeNames["#s0"] == schema.Cascade {
				return errors.New("gone")
			}
			return nil
		}))))
		to := treeOf(t, "a: {parent: ''}", "b: {parent: ''}", "e: {parent: b}")
		r, err := failing.Apply(w.Context(), to, manifest.ApplyOptions{})
		if w.Must(err); len(r.Failures()) != 1 || !errors.Is(r.Failures()[0].Err, store.ErrIncomplete) {
			t.Fatalf("got %+v", r.Failures())
		}
		w.record("e", "b+")
		payer := func() string {
			images, err := w.Store.Buckets(w.Context(), "e", "gpt-4", 1)
			w.Must(err)
			return images[0].Parent
		}
		if got := payer(); got != "a" {
			t.Errorf("the bucket already names %q", got)
		}
		w.apply(to, false, "unchanged a", "unchanged b", "resume e")
		if got := payer(); got != "b" {
			t.Errorf("the bucket names %q", got)
		}
		w.plan(to, false, "unchanged a", "unchanged b", "unchanged e")
	})
}

// If an entity cannot be created, those below it fail, too, and the rest is done. The next apply
// completes it.
func TestAFailureOfOneEntityLeavesTheOthers(t *testing.T) {
	inTime(t, func(w *world) {
		failing := managerOf(w, w.OpenOn(faults.Wrap(w.API, faults.Before(func(c *faults.Call) error {
			in, ok := c.Input.(*dynamodb.TransactWriteItemsInput)
			if !ok || in.TransactItems[0].Put == nil {
				return nil
			}
			if _, id, _ := schema.ParseEntityPK(schema.KeyOf(in.TransactItems[0].Put.Item).PK); id == "team" {
				return errors.New("gone")
			}
			return nil
		}))))
		m := treeOf(t, "org: {parent: ''}", "team: {parent: org}", "key: {parent: team}", "other: {parent: org}")
		r, err := failing.Apply(w.Context(), m, manifest.ApplyOptions{})
		w.Must(err)
		var failed []string
		for _, f := range r.Failures() {
			failed = append(failed, f.Key.Entity)
		}
		w.want("failed", failed, []string{"key", "team"})
		w.record("other", "org")
		w.apply(m, false, "create key", "unchanged org", "unchanged other", "create team")
	})
}

// A level's cascade policy is set, kept and removed as a switch is.
func TestAManifestHasCascadePolicies(t *testing.T) {
	inWorld(t, func(w *world) {
		policy := func(want store.Policy) {
			w.Helper()
			c, err := w.Store.Limits(w.Context(), ofE)
			if err == nil && c.Cascade != want {
				w.Errorf("the policy is %v, want %v", c.Cascade, want)
			}
		}
		on := withSwitch(w, limited+"cascade: true")
		w.apply(on, false, "update e/gpt-4")
		policy(store.Yes)
		w.plan(on, false, "unchanged e/gpt-4")
		_, err := w.Store.SetCascade(w.Context(), ofE, dynamo.Cascade{Policy: store.No}, nil)
		w.Must(err)
		w.plan(on, false, "update e/gpt-4!")
		w.apply(withSwitch(w, limited), false, "unchanged e/gpt-4!")
		policy(store.No)
		w.apply(withSwitch(w, limited+"cascade: false, disabled: true"), false, "update e/gpt-4!")
		exported, _, err := w.manager.Export(w.Context(), "a")
		if w.Must(err); exported.Levels[ofE].Cascade != store.No {
			w.Errorf("exported %+v", exported.Levels[ofE])
		}
		w.apply(withSwitch(w, limited+"disabled: true"), false, "update e/gpt-4")
		policy(store.Inherit)
		w.switched(store.Yes, true)
		w.apply(withSwitch(w, "cascade: true"), false, "update e/gpt-4")
		w.apply(&manifest.Manifest{Name: "a", Namespace: "default"}, true, "delete e/gpt-4")
		policy(store.Inherit)
		w.owned(nil)
	})
}

// An operator who moves an entity after the plan is not undone where the file declares no parent.
func TestAParentThatIsNotDeclaredStays(t *testing.T) {
	inTime(t, func(w *world) {
		w.apply(treeOf(t, "a: {parent: ''}", "b: {parent: ''}", "key: {parent: a}"), false, "create a", "create b", "create key")
		moved := false
		racing := managerOf(w, w.OpenOn(faults.Wrap(w.API, faults.Before(func(c *faults.Call) error {
			if _, ok := c.Input.(*dynamodb.TransactWriteItemsInput); ok && !moved {
				moved = true
				_, err := w.Store.SetParent(w.Context(), "key", dynamo.Move{Parent: "b"}, nil)
				return err
			}
			return nil
		}))))
		r, err := racing.Apply(w.Context(), treeOf(t, "key: {cascade: true}"), manifest.ApplyOptions{})
		if w.Must(err); len(r.Failures()) > 0 {
			t.Errorf("got %+v", r.Failures())
		}
		w.record("key", "b+")
	})
}
