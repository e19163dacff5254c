package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// newVictim returns a store of the namespace tenant-a, which has one item of each kind
// that an index lists.
func newVictim(t *testing.T) *tenancy {
	t.Helper()
	w := newTenancy(t)
	fixture.CreateEntity(t, w.store, store.Entity{ID: "child", Parent: "user"})
	fixture.PutBucket(t, w.store, w.Table, "user", "gpt-4", 0, 1)
	fixture.SetLimits(t, w.store, store.ConfigKey{Entity: "user", Resource: "gpt-4"}, []store.Limit{{Name: "rpm", Capacity: 10, Amount: 10, Period: time.Minute}})
	fixture.Put(t, w.Table, schema.Item{
		"PK": schema.S(w.ns.ID + "/ENTITY#user"), "SK": schema.S("#USAGE#gpt-4#2026-01-01T00:00:00Z"),
		"entity_id": schema.S("user"), "resource": schema.S("gpt-4"), "window": schema.S("daily"), "window_start": schema.S("2026-01-01T00:00:00Z"),
		"GSI2PK": schema.S(w.ns.ID + "/RESOURCE#gpt-4"), "GSI2SK": schema.S("USAGE#2026-01-01T00:00:00Z#user"),
		"GSI4PK": schema.S(w.ns.ID), "GSI4SK": schema.S(w.ns.ID + "/ENTITY#user"),
		"rpm": schema.N(1), "total_events": schema.N(1),
	})
	return w
}

// intrude writes, for each item of the namespace, an item of another namespace that has the
// same index keys. A tenant of the other one may do so: IAM sees only partition keys.
func (w *tenancy) intrude() (foreign string) {
	w.Helper()
	other, err := w.namespaces.Register(w.Context(), "tenant-b")
	w.must(err)
	foreign = other.ID + "/"
	out, err := w.Table.Scan(w.Context(), &dynamodb.ScanInput{TableName: aws.String(table)})
	w.must(err)
	for _, it := range out.Items {
		if path, ok := strings.CutPrefix(schema.KeyOf(it).PK, w.ns.ID+"/"); ok {
			it["PK"] = schema.S(foreign + strings.Replace(path, "user", "ghost", 1))
			fixture.Put(w.T, w.Table, it)
		}
	}
	return foreign
}

// listings calls everything that lists items through an index.
func (w *tenancy) listings() map[string]string {
	ctx, all := w.Context(), map[string]string{}
	add := func(name string, v any, err error) { all[name] = fmt.Sprintf("%+v, error %v", v, err) }
	children, err := w.store.Children(ctx, "user")
	var names []string
	for _, c := range children {
		names = append(names, c.ID)
	}
	add("Children", names, err)
	var buckets []string
	for shards, err := range w.store.ResourceBuckets(ctx, "gpt-4") {
		w.must(err)
		buckets = append(buckets, fmt.Sprint(len(shards), shards[0].Entity))
	}
	add("ResourceBuckets", buckets, nil)
	images, err := w.store.EntityBuckets(ctx, "user")
	add("EntityBuckets", len(images), err)
	images, err = w.store.Buckets(ctx, "user", "gpt-4", 0)
	add("Buckets", len(images), err)
	resources, err := w.store.EntityResources(ctx, "user")
	add("EntityResources", resources, err)
	page, err := w.store.Entities(ctx, dynamo.EntityQuery{})
	names = nil
	for _, e := range page.Entities {
		names = append(names, e.ID)
	}
	add("Entities", names, err)
	limited, err := w.store.EntitiesWithLimits(ctx, "gpt-4")
	add("EntitiesWithLimits", limited, err)
	levels, err := w.store.ConfiguredLevels(ctx)
	add("ConfiguredLevels", levels, err)
	read, err := w.store.Usage().Read(ctx, usage.Query{Resource: "gpt-4", Window: usage.Daily})
	add("Read", read, err)
	return all
}

// A tenant can put items of its own into the index partitions of others. They are in no
// listing. No request asks for them: the policy of a tenant refuses a whole batch that
// names the item of another one.
func TestAnotherTenantIsInNoListing(t *testing.T) {
	t.Parallel()
	w := newVictim(t)
	want := w.listings()
	foreign := w.intrude()
	w.Set(faults.Before(func(c *faults.Call) error {
		for _, k := range c.Keys() {
			if strings.HasPrefix(k.PK, foreign) {
				t.Errorf("%s of %s", c.Op, k)
			}
		}
		return nil
	}))
	if diff := cmp.Diff(want, w.listings()); diff != "" {
		t.Errorf("listings (-without +with items of another tenant):\n%s", diff)
	}
	if _, err := w.store.DeleteEntity(t.Context(), "user"); err != nil {
		t.Error(err)
	}
	w.must(w.namespaces.Delete(t.Context(), tenant))
	if _, err := w.purge(admin.PurgeOptions{}); err != nil {
		t.Error(err)
	}
	if left := w.left(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
