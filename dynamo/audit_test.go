package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// newAuditedStore returns a store with a named principal.
func newAuditedStore(t *testing.T) (*dynamo.Store, *faults.Tap) {
	t.Helper()
	f := faults.NewTap(fixture.NewTable(t))
	s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: f, Table: table, Now: now, Principal: "jo@example.com"}))
	if err != nil {
		t.Fatal(err)
	}
	f.Take()
	return s, f
}

func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	s, _ := newAuditedStore(t)
	fixture.CreateEntity(t, s, store.Entity{ID: "proj"})
	fixture.CreateEntity(t, s, store.Entity{ID: "user", Parent: "proj", Cascade: true, Metadata: map[string]string{"plan": "free"}})
	entity, resource := store.ConfigKey{Entity: "user", Resource: "gpt-4"}, store.ConfigKey{Resource: "gpt-4"}
	fixture.SetLimits(t, s, entity, rpm10)
	fixture.SetLimits(t, s, resource, tpm20)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.SetSystem(t.Context(), rpm10, store.Allow))
	must(s.SetAuditRetention(t.Context(), 7))
	must(s.DeleteLimits(t.Context(), store.ConfigKey{}))
	must(s.DeleteLimits(t.Context(), resource))
	must(errOf(s.DeleteEntity(t.Context(), "user")))

	rpm := []any{map[string]any{"name": "rpm", "capacity": int64(10), "refill_amount": int64(10), "refill_period_seconds": int64(60)}}
	tpm := []any{map[string]any{"name": "tpm", "capacity": int64(20), "refill_amount": int64(20), "refill_period_seconds": int64(60)}}
	event := func(entity, action, resource string, days int, details map[string]any) audit.Event {
		at := start.UTC().Truncate(time.Second)
		return audit.Event{
			Time: at, Action: action, Entity: entity, Principal: "jo@example.com", Resource: resource,
			Details: details, Expires: at.Add(time.Duration(days) * 24 * time.Hour),
		}
	}
	gpt4 := audit.Resource("gpt-4")
	want := map[string][]audit.Event{
		"user": {
			event("user", "entity_created", "", 90, map[string]any{
				"name": "user", "parent_id": "proj", "cascade": true, "metadata": map[string]any{"plan": "free"},
			}),
			event("user", "limits_set", "gpt-4", 90, map[string]any{"limits": rpm}),
			event("user", "limits_deleted", "gpt-4", 7, map[string]any{"limits": []any{"rpm"}}),
			event("user", "entity_deleted", "", 7, map[string]any{"records_deleted": int64(2), "complete": true}),
		},
		gpt4: {
			event(gpt4, "limits_set", "gpt-4", 90, map[string]any{"limits": tpm}),
			event(gpt4, "limits_deleted", "gpt-4", 7, map[string]any{"limits": []any{"tpm"}}),
		},
		audit.System: {
			event("$SYSTEM", "limits_set", "", 90, map[string]any{"limits": rpm, "on_unavailable": "allow"}),
			event("$SYSTEM", "audit_retention_set", "", 7, map[string]any{"days": int64(7), "old_days": int64(90)}),
			event("$SYSTEM", "limits_deleted", "", 7, map[string]any{"limits": []any{"rpm"}, "on_unavailable": "allow"}),
		},
	}
	ids := map[string]bool{}
	for entity, want := range want {
		got := fixture.Trail(t, s, entity)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(audit.Event{}, "ID")); diff != "" {
			t.Errorf("events about %s (-want +got):\n%s", entity, diff)
		}
		for _, e := range got {
			if len(e.ID) != 26 || ids[e.ID] {
				t.Errorf("event id %q", e.ID)
			}
			ids[e.ID] = true
		}
	}
}

func TestWhatChangesNothingIsNotAudited(t *testing.T) {
	t.Parallel()
	for _, k := range levels {
		s, f := fixture.NewStore(t)
		del := func() {
			t.Helper()
			if err := s.DeleteLimits(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		del()
		_, err := s.DeleteEntity(t.Context(), "user")
		fixture.WantErr(t, err, store.ErrNotFound)
		fixture.SetLimits(t, s, k, append(rpm10, tpm20...))
		fixture.SetLimits(t, s, k, append(tpm20, rpm10...))
		if err := s.SetAuditRetention(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		f.Take()
		if err := s.SetAuditRetention(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"GetItem"}, f.Ops()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		del()
		del()
		want := []string{"limits_set", "limits_deleted"}
		if k == (store.ConfigKey{}) {
			want = []string{"limits_set", "audit_retention_set", "limits_deleted"}
		}
		fixture.WantActions(t, s, schema.AuditLevel(k), want...)
	}
	s, _ := fixture.NewStore(t)
	fixture.CreateEntity(t, s, store.Entity{ID: "user"})
	_, err := s.CreateEntity(t.Context(), store.Entity{ID: "user"})
	fixture.WantErr(t, err, store.ErrExists)
	_, err = s.CreateEntity(t.Context(), store.Entity{ID: "orphan", Parent: "nobody"})
	fixture.WantErr(t, err, store.ErrNotFound)
	fixture.WantActions(t, s, "user", "entity_created")
	fixture.WantActions(t, s, "orphan")
}

// Setting limits that are already set still repairs the list of resources.
func TestSettingWhatIsSetRepairsTheRegistry(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	k := store.ConfigKey{Resource: "gpt-4"}
	fixture.Put(t, f, schema.EncodeConfig(ns, k, &store.Config{Limits: rpm10}))
	fixture.SetLimits(t, s, k, rpm10)
	if got, err := s.ResourcesWithDefaults(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("listed %q, %v", got, err)
	}
	fixture.WantActions(t, s, audit.Resource("gpt-4"))
}

// A change that is interrupted at any of its requests never lacks its event, and no
// event lacks its change.
func TestACrashLeavesNoChangeWithoutItsEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entity := store.ConfigKey{Entity: "user", Resource: "gpt-4"}
		for name, c := range map[string]struct {
			entity string
			do     func(context.Context, *dynamo.Store) error
			key    func(ns string) schema.Key // of the item that changes
			action string
		}{
			"create an entity": {
				"new", func(ctx context.Context, s *dynamo.Store) error {
					return errOf(s.CreateEntity(ctx, store.Entity{ID: "new", Parent: "user"}))
				}, func(ns string) schema.Key { return schema.MetaKey(ns, "new") }, "entity_created",
			},
			"delete an entity": {
				"user", func(ctx context.Context, s *dynamo.Store) error { return errOf(s.DeleteEntity(ctx, "user")) },
				func(ns string) schema.Key { return schema.MetaKey(ns, "user") }, "entity_deleted",
			},
			"delete an entity's limits with it": {
				"user", func(ctx context.Context, s *dynamo.Store) error { return errOf(s.DeleteEntity(ctx, "user")) },
				func(ns string) schema.Key { return schema.ConfigKey(ns, entity) }, "limits_deleted",
			},
			"set limits": {
				"user", func(ctx context.Context, s *dynamo.Store) error { return s.SetLimits(ctx, entity, tpm20) },
				func(ns string) schema.Key { return schema.ConfigKey(ns, entity) }, "limits_set",
			},
			"delete limits": {
				"user", func(ctx context.Context, s *dynamo.Store) error { return s.DeleteLimits(ctx, entity) },
				func(ns string) schema.Key { return schema.ConfigKey(ns, entity) }, "limits_deleted",
			},
			"delete the system's limits": {
				"$SYSTEM", func(ctx context.Context, s *dynamo.Store) error { return s.DeleteLimits(ctx, store.ConfigKey{}) },
				func(ns string) schema.Key { return schema.ConfigKey(ns, store.ConfigKey{}) }, "limits_deleted",
			},
			"set the retention": {
				"$SYSTEM", func(ctx context.Context, s *dynamo.Store) error { return s.SetAuditRetention(ctx, 3) },
				func(ns string) schema.Key { return schema.ConfigKey(ns, store.ConfigKey{}) }, "audit_retention_set",
			},
		} {
			for through := 0; ; through++ {
				s, f := fixture.NewStore(t)
				_, ns := s.Namespace()
				fixture.CreateEntity(t, s, store.Entity{ID: "user"})
				fixture.SetLimits(t, s, entity, rpm10)
				fixture.SetLimits(t, s, store.ConfigKey{}, rpm10)
				fixture.PutBucket(t, s, f, "user", "gpt-4", 0, 1)
				before, events := notations(fixture.Get(t, f, c.key(ns))), len(fixture.Trail(t, s, c.entity))
				f.Take()
				f.Set(faults.Before(func(*faults.Call) error {
					if len(f.Ops()) > through {
						return errors.New("crash")
					}
					return nil
				}))
				err := c.do(t.Context(), s)
				sent := len(f.Ops())
				f.Set(nil)
				changed := notations(fixture.Get(t, f, c.key(ns))) != before
				told := slices.Contains(fixture.Actions(fixture.Trail(t, s, c.entity)[events:]), c.action)
				if changed != told {
					t.Errorf("%s, crash after %d requests: changed is %v, the event is there is %v", name, through, changed, told)
				}
				if err == nil && sent <= through {
					if !changed {
						t.Errorf("%s: nothing changed", name)
					}
					break
				}
			}
		}
	})
}

// notations returns an item as text.
func notations(it schema.Item) string { return fmt.Sprint(schema.PlainMap(it)) }

func TestConcurrentChangesAreAllAudited(t *testing.T) {
	t.Parallel()
	for _, k := range levels {
		s, f := fixture.NewStore(t)
		other := fixture.OpenStore(t, f)
		var wg sync.WaitGroup
		for i, s := range []*dynamo.Store{s, other} {
			wg.Go(func() {
				for n := range 5 {
					if err := s.SetLimits(t.Context(), k, []store.Limit{limiter.PerMinute("rpm", int64(10*i+n+1))}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		c, err := s.Limits(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		told := map[any]bool{}
		for _, e := range fixture.Trail(t, s, schema.AuditLevel(k)) {
			told[fmt.Sprint(e.Details["limits"])] = true
		}
		if len(told) != 10 {
			t.Errorf("%+v: %d of 10 changes are told of", k, len(told))
		}
		if n := c.Limits[0].Capacity; !told[fmt.Sprintf("[map[capacity:%d name:rpm refill_amount:%d refill_period_seconds:60]]", n, n)] {
			t.Errorf("%+v: nobody set %v", k, c.Limits)
		}
	}
}

// Deleting an entity without a record leaves an event too.
func TestDeletingAnEntityWithoutARecordIsAudited(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	fixture.PutBucket(t, s, f, "user", "gpt-4", 0, 2)
	fixture.PutBucket(t, s, f, "user", "gpt-4", 1, 2)
	fixture.SetLimits(t, s, levels[0], rpm10)
	if n, err := s.DeleteEntity(t.Context(), "user"); n != 3 || err != nil {
		t.Fatalf("%d items deleted, %v", n, err)
	}
	fixture.WantActions(t, s, "user", "limits_set", "limits_deleted", "entity_deleted")
	fixture.SetLimits(t, s, levels[0], rpm10)
	if n, err := s.DeleteEntity(t.Context(), "user"); n != 1 || err != nil {
		t.Fatalf("%d items deleted, %v", n, err)
	}
	fixture.WantActions(t, s, "user", "limits_set", "limits_deleted", "entity_deleted", "limits_set", "limits_deleted")
}

func TestNamespacesAreAudited(t *testing.T) {
	t.Parallel()
	f := faults.NewTap(fixture.NewTable(t))
	n, err := admin.NewNamespaces(dynamo.Options{API: fixture.AtOnce(f), Table: table, Now: now, Principal: "jo"})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := n.Register(t.Context(), "team/a")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := n.Register(t.Context(), "team/a"); err != nil || again != ns {
		t.Fatalf("again: %+v, %v", again, err)
	}
	s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: f, Table: table, Now: now, Namespace: "team/a"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetAuditRetention(t.Context(), 400); err != nil {
		t.Fatal(err)
	}
	if err := n.Delete(t.Context(), "team/a"); err != nil {
		t.Fatal(err)
	}
	page, err := n.AuditEvents(t.Context(), "team/a", audit.Query{})
	if err != nil {
		t.Fatal(err)
	}
	at := start.UTC().Truncate(time.Second)
	event := func(action string, days int) audit.Event {
		return audit.Event{
			Time: at, Action: action, Entity: "$NAMESPACE:team/a", Principal: "jo",
			Details: map[string]any{"namespace_id": ns.ID}, Expires: at.Add(time.Duration(days) * 24 * time.Hour),
		}
	}
	want := []audit.Event{event("namespace_deleted", 400), event("namespace_registered", 90)}
	if diff := cmp.Diff(want, page.Events, cmpopts.IgnoreFields(audit.Event{}, "ID")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = n.AuditEvents(t.Context(), "a#b", audit.Query{})
	fixture.WantErr(t, err, store.ErrInvalid)
}

func TestPrincipalsAreChecked(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	for principal, ok := range map[string]bool{
		"jo@example.com": true, "arn:aws:sts::123456789012:assumed-role/admin/jo": true, "Jürgen Groß": true, strings.Repeat("x", 2048): true,
		strings.Repeat("x", 2049): false, "jo\n": false, "jo\x00": false, "\xff": false, "a\u2028b": false,
	} {
		o := dynamo.Options{API: db, Table: table, Principal: principal}
		_, open := dynamo.Open(t.Context(), o)
		_, namespaces := admin.NewNamespaces(o)
		create := dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: table, Principal: principal})
		for _, err := range []error{open, namespaces, create, audit.CheckPrincipal(principal)} {
			invalid := (*store.ValidationError)(nil)
			if ok != (err == nil) || !ok && (!errors.As(err, &invalid) || invalid.Field != "principal") {
				t.Errorf("%.20q: got error %v", principal, err)
			}
		}
	}
}

// No request of an acquire serves the audit trail.
func TestAcquiresAreNotAudited(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	fixture.SetLimits(t, s, store.ConfigKey{}, rpm10)
	l, err := limiter.New(s, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	f.Take()
	if _, err := l.Acquire(context.WithoutCancel(t.Context()), limiter.Request{
		Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1},
	}); err != nil {
		t.Fatal(err)
	}
	for _, in := range f.Inputs() {
		if get, ok := in.(*dynamodb.GetItemInput); ok {
			t.Errorf("read %v", get.Key)
		}
	}
	fixture.WantActions(t, s, "user")
}
