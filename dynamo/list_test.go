package dynamo_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// ids reads all pages of entities, which must have the given number of entities each.
func ids(t *testing.T, s *dynamo.Store, limit int, sizes ...int) (all []string) {
	t.Helper()
	q := dynamo.EntityQuery{Limit: limit}
	for i := 0; ; i++ {
		page, err := s.Entities(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(sizes) || len(page.Entities) != sizes[i] {
			t.Fatalf("page %d has %d entities, want %v", i, len(page.Entities), sizes)
		}
		for _, e := range page.Entities {
			all = append(all, e.ID)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}

// Entities come page after page by ID, once each, whatever else belongs to them and
// wherever the pages end. Those of other namespaces do not show.
func TestEntitiesComeInPages(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, db)
	ids(t, s, 0, 0)
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: db, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Register(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	other, err := dynamo.Open(t.Context(), dynamo.Options{API: fixture.AtOnce(db), Table: table, Namespace: "other"})
	if err != nil {
		t.Fatal(err)
	}
	fixture.CreateEntity(t, other, store.Entity{ID: "stranger"})
	var want []string
	for i := range 25 {
		id := fmt.Sprintf("user-%02d", i)
		want = append(want, id)
		fixture.CreateEntity(t, s, store.Entity{ID: id})
		fixture.SetLimits(t, s, store.ConfigKey{Entity: id, Resource: "gpt-4"}, []store.Limit{limiter.PerMinute("rpm", 1)})
		fixture.PutBucket(t, s, db, id, "gpt-4", 0, 1)
	}
	fixture.SetLimits(t, s, store.ConfigKey{Entity: "no-record", Resource: "gpt-4"}, []store.Limit{limiter.PerMinute("rpm", 1)})
	for limit, sizes := range map[int][]int{0: {25}, 1000: {25}, 25: {25}, 10: {10, 10, 5}, 24: {24, 1}} {
		if diff := cmp.Diff(want, ids(t, s, limit, sizes...)); diff != "" {
			t.Errorf("in pages of %d (-want +got): %s", limit, diff)
		}
	}
	tens := dynamo.EntityQuery{Limit: 6, Prefix: "user-1"}
	for _, want := range []string{"[user-10 user-11 user-12 user-13 user-14 user-15]", "[user-16 user-17 user-18 user-19]"} {
		page, err := s.Entities(t.Context(), tens)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range page.Entities {
			got = append(got, e.ID)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("the page of %+v has %v, want %s", tens, got, want)
		}
		tens.Cursor = page.Next
	}
	if tens.Cursor != "" {
		t.Error("the last page with a prefix leads on")
	}
	first, err := s.Entities(t.Context(), dynamo.EntityQuery{Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteEntity(t.Context(), "user-04"); err != nil { // where the cursor points
		t.Fatal(err)
	}
	next, err := s.Entities(t.Context(), dynamo.EntityQuery{Limit: 1, Cursor: first.Next})
	if err != nil || len(next.Entities) != 1 || next.Entities[0].ID != "user-05" {
		t.Errorf("after a deletion: %+v, %v", next, err)
	}
}

// Limits and cursors that no page has are refused.
func TestEntitiesRefuseABadQuery(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	for _, q := range []dynamo.EntityQuery{{Limit: -1}, {Limit: dynamo.MaxEntities + 1}, {Cursor: "?"}, {Cursor: "Iw"}, {Prefix: "#"}, {Prefix: "other", Cursor: "a2V5LTE"}} {
		_, err := s.Entities(t.Context(), q)
		fixture.WantErr(t, err, store.ErrInvalid)
	}
	_, err := s.EntityResources(t.Context(), "a#b")
	fixture.WantErr(t, err, store.ErrInvalid)
	if ops := f.Ops(); len(ops) > 0 {
		t.Errorf("sent %v", ops)
	}
}

// The resources of an entity are those with a bucket, with limits of its own, or both.
func TestEntityResources(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, db)
	for _, resource := range []string{"gpt-4", store.DefaultResource} {
		fixture.SetLimits(t, s, store.ConfigKey{Entity: "key", Resource: resource}, []store.Limit{limiter.PerMinute("rpm", 1)})
	}
	fixture.PutBucket(t, s, db, "key", "gpt-4", 0, 2)
	fixture.PutBucket(t, s, db, "key", "gpt-4", 1, 2)
	fixture.PutBucket(t, s, db, "key", "a/b", 0, 1)
	fixture.PutBucket(t, s, db, "other", "c", 0, 1)
	_, ns := s.Namespace()
	fixture.Put(t, db, schema.Key{PK: schema.EntityPK(ns, "key"), SK: "#USAGE#d#x"}.Item())
	got, err := s.EntityResources(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	want := []dynamo.EntityResource{
		{Resource: store.DefaultResource, Limits: true}, {Resource: "a/b", Shards: 1}, {Resource: "gpt-4", Limits: true, Shards: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
	if none, err := s.EntityResources(t.Context(), "nobody"); err != nil || len(none) > 0 {
		t.Errorf("of nobody: %v, %v", none, err)
	}
}
