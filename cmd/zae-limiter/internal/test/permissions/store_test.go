package permissions_test

import (
	"errors"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// stored records a call of the world's store.
func (w *world) stored(method, name string, f func() error) {
	w.Helper()
	w.record("dynamo.Store."+method, name, func() { w.Must(f()) })
}

// tables has the calls that create and open.
func tables(w *world) {
	again := dynamo.TableOptions{Name: testbed.Table, Principal: "tester", Stream: true}
	w.record("dynamo.CreateTable", "it exists", func() { w.Must(dynamo.CreateTable(w.Context(), w.API, again)) })
	again.Name = "other"
	w.record("dynamo.CreateTable", "a new one", func() { w.Must(dynamo.CreateTable(w.Context(), w.API, again)) })
	w.record("dynamo.Open", always, func() { w.Open(dynamo.Options{}) })
	w.record("dynamo.ReadVersion", always, func() {
		_, _, err := dynamo.ReadVersion(w.Context(), w.StoreOptions(dynamo.Options{}))
		w.Must(err)
	})
	w.record("dynamo.RaiseVersions", always, func() {
		w.Must(errOf(dynamo.RaiseVersions(w.Context(), w.StoreOptions(dynamo.Options{}), dynamo.Versions{Lambda: "99.0.0"})))
	})
	_, id := w.Store.Namespace()
	w.record("dynamo.OpenID", always, func() {
		_, err := dynamo.OpenID(w.Context(), w.StoreOptions(dynamo.Options{}), id)
		w.Must(err)
	})
}

// namespaces has the calls about namespaces.
func namespaces(w *world) {
	n, err := admin.NewNamespaces(w.StoreOptions(dynamo.Options{}))
	w.Must(err)
	var ns admin.Namespace
	at := func(method, name string, f func() error) {
		w.record("admin.Namespaces."+method, name, func() { w.Must(f()) })
	}
	at("Register", "a new one", func() (err error) { ns, err = n.Register(w.Context(), "team"); return err })
	at("Register", "it exists", func() error { return errOf(n.Register(w.Context(), "team")) })
	at("Get", always, func() error { return errOf(n.Get(w.Context(), "team")) })
	at("List", always, func() error { return errOf(n.List(w.Context())) })
	at("NameOf", always, func() error { return errOf(n.NameOf(w.Context(), ns.ID)) })
	at("AuditEvents", always, func() error { return errOf(n.AuditEvents(w.Context(), "team", audit.Query{})) })
	at("Delete", always, func() error { return n.Delete(w.Context(), "team") })
	at("Orphans", always, func() error { return errOf(n.Orphans(w.Context())) })
	at("Orphan", always, func() error { return errOf(n.Orphan(w.Context(), ns.ID)) })
	at("Recover", always, func() error { return errOf(n.Recover(w.Context(), ns.ID, "team")) })
	s := w.Open(dynamo.Options{Namespace: "team"})
	w.Must(s.SetSystem(w.Context(), []limiter.Limit{hourly}, ""))
	w.Must(errOf(s.CreateEntity(w.Context(), limiter.Entity{ID: "user"})))
	w.Must(n.Delete(w.Context(), "team"))
	at("Purge", always, func() error { return errOf(n.Purge(w.Context(), ns.ID, admin.PurgeOptions{})) })
}

// configuration has the calls about limits.
func configuration(w *world) {
	ctx, s := w.Context(), w.Store
	resource := store.ConfigKey{Resource: testbed.Resource}
	own := store.ConfigKey{Entity: "user", Resource: testbed.Resource}
	all := store.ConfigKey{Entity: "user", Resource: store.DefaultResource}
	limits := []limiter.Limit{hourly}
	w.stored("SetSystem", always, func() error { return s.SetSystem(ctx, limits, "") })
	w.stored("SetLimits", "of a resource", func() error { return s.SetLimits(ctx, resource, limits) })
	w.double("user")
	w.stored("SetLimits", "of an entity, for a resource", func() error { return s.SetLimits(ctx, own, []limiter.Limit{limiter.PerHour("rph", 1800)}) })
	w.stored("SetLimits", "of an entity", func() error { return s.SetLimits(ctx, all, []limiter.Limit{limiter.PerHour("rph", 900)}) })
	w.stored("SetLimits", "unchanged", func() error { return s.SetLimits(ctx, all, []limiter.Limit{limiter.PerHour("rph", 900)}) })
	off := dynamo.Switch{Policy: store.Yes}
	w.stored("CountBuckets", "of an entity", func() error { return errOf(s.CountBuckets(ctx, all)) })
	w.stored("CountBuckets", "of a resource", func() error { return errOf(s.CountBuckets(ctx, resource)) })
	w.stored("SetSwitch", "of an entity, for a resource", func() error { return errOf(s.SetSwitch(ctx, own, off, nil)) })
	w.stored("SetSwitch", "of an entity", func() error { return errOf(s.SetSwitch(ctx, all, off, nil)) })
	w.stored("SetSwitch", "of a resource", func() error { return errOf(s.SetSwitch(ctx, resource, off, nil)) })
	off.Key = "ticket-1"
	w.stored("SetSwitch", "of an entity, with a key", func() error { return errOf(s.SetSwitch(ctx, all, off, nil)) })
	w.stored("SetSwitch", "of a resource, with a key", func() error { return errOf(s.SetSwitch(ctx, resource, off, nil)) })
	for _, k := range []store.ConfigKey{own, all, resource} {
		w.stored("SetSwitch", "removed", func() error { return errOf(s.SetSwitch(ctx, k, dynamo.Switch{}, nil)) })
	}
	double := dynamo.Raise{Limits: map[string]int64{"rph": 2000}, Until: time.Now().Add(time.Hour)}
	w.stored("RaiseLimits", "of an entity", func() error { return errOf(s.RaiseLimits(ctx, own, double)) })
	double.Key = "ticket-5"
	w.stored("RaiseLimits", "of an entity, with a key", func() error { return errOf(s.RaiseLimits(ctx, own, double)) })
	w.stored("RaiseLimits", "of a resource, with a key", func() error { return errOf(s.RaiseLimits(ctx, resource, double)) })
	apart := dynamo.Cascade{Policy: store.No}
	w.stored("SetCascade", "of an entity, for a resource", func() error { return errOf(s.SetCascade(ctx, own, apart, nil)) })
	w.stored("SetCascade", "of an entity", func() error { return errOf(s.SetCascade(ctx, all, apart, nil)) })
	w.stored("SetCascade", "of a resource", func() error { return errOf(s.SetCascade(ctx, resource, apart, nil)) })
	once := dynamo.Cause{Key: "ticket-9"}
	w.stored("SetCascade", "of an entity, with a key", func() error {
		return errOf(s.SetCascade(ctx, all, dynamo.Cascade{Policy: store.Yes, Cause: once}, nil))
	})
	for _, k := range []store.ConfigKey{own, all, resource} {
		w.stored("SetCascade", "removed", func() error { return errOf(s.SetCascade(ctx, k, dynamo.Cascade{}, nil)) })
	}
	slots := []store.SlotLimit{limiter.Slots("inflight", 2)}
	w.stored("SetSlots", "of an entity", func() error { return s.SetSlots(ctx, own, slots, "") })
	w.stored("SetSlots", "of a resource", func() error { return s.SetSlots(ctx, resource, slots, "") })
	w.stored("SetSlots", "of the system", func() error { return s.SetSlots(ctx, store.ConfigKey{}, slots, "") })
	w.stored("SetSlotsIf", always, func() error { return s.SetSlotsIf(ctx, all, slots, "", func(*store.Config) error { return nil }) })
	for _, k := range []store.ConfigKey{own, all, resource, {}} {
		w.stored("SetSlots", "removed", func() error { return s.SetSlots(ctx, k, nil, "") })
	}
	held := store.SlotKey{Entity: own.Entity, Resource: own.Resource, Limit: "inflight"}
	w.stored("Hold", always, func() error {
		return errOf(s.Hold(ctx, &store.Hold{SlotKey: held, Cap: 2, Next: store.Holding{Process: "a", Held: 1, Seq: 1}}))
	})
	settled := &store.Settlement{Record: store.SettlementRecord{
		Bucket: store.Bucket{Entity: own.Entity, Resource: own.Resource}, Key: "k", Totals: map[string]int64{"rph": 1}, ExpiresAt: time.Now().Add(time.Hour),
	}}
	w.stored("SettleOnce", "for the first time", func() error { return errOf(s.SettleOnce(ctx, settled)) })
	w.stored("SettleOnce", "settled before", func() error { return errOf(s.SettleOnce(ctx, settled)) })
	w.stored("Slots", always, func() error { return errOf(s.Slots(ctx, held)) })
	w.stored("ResourceSlots", always, func() (failed error) {
		for _, err := range s.ResourceSlots(ctx, "") {
			failed = errors.Join(failed, err)
		}
		return failed
	})
	w.stored("Limits", always, func() error { return errOf(s.Limits(ctx, own)) })
	w.stored("ResourcesWithDefaults", always, func() error { return errOf(s.ResourcesWithDefaults(ctx)) })
	w.stored("ResourcesWithEntityLimits", always, func() error { return errOf(s.ResourcesWithEntityLimits(ctx)) })
	w.stored("EntitiesWithLimits", always, func() error { return errOf(s.EntitiesWithLimits(ctx, testbed.Resource)) })
	w.stored("DeleteLimits", "of an entity, for a resource", func() error { return s.DeleteLimits(ctx, own) })
	w.stored("DeleteLimits", "of an entity", func() error { return s.DeleteLimits(ctx, all) })
	w.stored("DeleteLimits", "of a resource", func() error { return s.DeleteLimits(ctx, resource) })
	w.stored("DeleteLimits", "of the system", func() error { return s.DeleteLimits(ctx, store.ConfigKey{}) })
	w.Must(s.SetLimits(ctx, all, limits))
	w.stored("DeleteLimitsIf", always, func() error { return s.DeleteLimitsIf(ctx, all, func(*store.Config) error { return nil }) })
	w.stored("SetAuditRetention", always, func() error { return s.SetAuditRetention(ctx, 7) })
	w.stored("AuditRetention", always, func() error { return errOf(s.AuditRetention(ctx)) })
	w.stored("AuditEvents", always, func() error { return errOf(s.AuditEvents(ctx, audit.Query{Entity: "user"})) })
}

// entities has the calls about entities and their buckets.
func entities(w *world) {
	ctx, s := w.Context(), w.Store
	w.System(hourly)
	w.stored("CreateEntity", always, func() error { return errOf(s.CreateEntity(ctx, limiter.Entity{ID: "project"})) })
	w.stored("CreateEntity", "with a parent", func() error {
		return errOf(s.CreateEntity(ctx, limiter.Entity{ID: "reader", Parent: "project"}))
	})
	w.stored("CreateEntity", "cascading to a parent", func() error {
		return errOf(s.CreateEntity(ctx, limiter.Entity{ID: "key", Parent: "project", Cascade: true}))
	})
	w.acquire(w.Limiter, "key", 1)
	w.double("key")
	w.Must(s.SetLimits(ctx, store.ConfigKey{Entity: "key", Resource: testbed.Resource}, []limiter.Limit{hourly}))
	w.Must(s.SetLimits(ctx, store.ConfigKey{Entity: "key", Resource: store.DefaultResource}, []limiter.Limit{hourly}))
	w.save(time.Now())
	w.stored("Entity", always, func() error { return errOf(s.Entity(ctx, "key")) })
	w.stored("Children", always, func() error { return errOf(s.Children(ctx, "project")) })
	w.stored("EntityRecords", always, func() error { return errOf(s.EntityRecords(ctx, []string{"key", "project"})) })
	for _, parent := range []string{"", "project"} {
		name := map[bool]string{true: "to none", false: "to a parent"}[parent == ""]
		w.stored("SetParent", name, func() error { return errOf(s.SetParent(ctx, "key", dynamo.Move{Parent: parent}, nil)) })
	}
	once := dynamo.Move{Parent: "project", Cause: dynamo.Cause{Key: "ticket-9"}}
	w.stored("SetParent", "with a key", func() error { return errOf(s.SetParent(ctx, "key", once, nil)) })
	w.stored("Entities", always, func() error { return errOf(s.Entities(ctx, dynamo.EntityQuery{})) })
	w.stored("EntityIDs", always, func() error { return errOf(s.EntityIDs(ctx, "")) })
	w.stored("EntityResources", always, func() error { return errOf(s.EntityResources(ctx, "key")) })
	w.stored("EntityBuckets", always, func() error { return errOf(s.EntityBuckets(ctx, "key")) })
	w.stored("ResourceBuckets", always, func() error {
		for _, err := range s.ResourceBuckets(ctx, testbed.Resource) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	cause := dynamo.Cause{Key: "once"}
	w.stored("ResetBucket", always, func() error {
		return errOf(s.ResetBucket(ctx, dynamo.Reset{Entity: "key", Resource: testbed.Resource, Cause: cause}))
	})
	w.stored("TopUpBucket", always, func() error {
		return errOf(s.TopUpBucket(ctx, dynamo.TopUp{Entity: "key", Resource: testbed.Resource, Amounts: map[string]int64{"rph": 1}}))
	})
	w.stored("TopUpBucket", "if its level is as seen", func() error {
		seen := func(*store.Config) error { return nil }
		return errOf(s.TopUpBucket(ctx, dynamo.TopUp{Entity: "key", Resource: testbed.Resource, Amounts: map[string]int64{"rph": 1}, If: seen}))
	})
	w.stored("DeleteEntity", always, func() error { return errOf(s.DeleteEntity(ctx, "key")) })
}

func errOf[T any](_ T, err error) error { return err }
