package dynamo_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// IDs are those of every entity that left something in the namespace, once each, and of no
// other namespace. One may be the beginning of the next.
func TestEntityIDsAreOfAllForms(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, db)
	rpm := []store.Limit{limiter.PerMinute("rpm", 1)}
	fixture.CreateEntity(t, s, store.Entity{ID: "with-record"})
	fixture.SetLimits(t, s, store.ConfigKey{Entity: "with-limits", Resource: "gpt-4"}, rpm)
	fixture.SetLimits(t, s, store.ConfigKey{Entity: "with-limits", Resource: "a/b"}, rpm)
	fixture.SetLimits(t, s, store.ConfigKey{Entity: "with-limits-for-all", Resource: store.DefaultResource}, rpm)
	for shard := range 2 {
		fixture.PutBucket(t, s, db, "with-bucket", "a/b", shard, 2)
	}
	for _, id := range []string{"with-bucket-", "with-bucket.", "with-bucket0", "with-bucket:a", "with-bucket@a", "with-bucketZ", "with-bucketz"} {
		fixture.PutBucket(t, s, db, id, "gpt-4", 0, 1)
	}
	addUsage(t, s, db, "with-usage", time.Hour, 1)
	fixture.SetLimits(t, s, store.ConfigKey{Resource: "resource"}, rpm)
	want := []string{
		"with-bucket", "with-bucket-", "with-bucket.", "with-bucket0", "with-bucket:a", "with-bucket@a", "with-bucketZ", "with-bucketz",
		"with-limits", "with-limits-for-all", "with-record", "with-usage",
	}
	slices.Sort(want)
	wantIDs(t, s, "", want...)
	wantIDs(t, s, "with-bucket:", "with-bucket:a")
	wantIDs(t, s, "with-u", "with-usage")
	wantIDs(t, s, "with-record0")
	if _, err := s.EntityIDs(t.Context(), "a|b"); err == nil {
		t.Error("a prefix of no ID is accepted")
	}

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
	wantIDs(t, other, "")
}

// An entity with many entries hides none behind it, and costs one request or two. The number of
// requests has a bound, whatever the table has.
func TestEntityIDsSendFewRequests(t *testing.T) {
	t.Parallel()
	s, tap := fixture.NewStore(t)
	var want []string
	for i := range 3 {
		id := fmt.Sprintf("busy-%d", i)
		want = append(want, id)
		addUsage(t, s, tap, id, time.Hour, 250)
	}
	tap.Take()
	wantIDs(t, s, "", want...)
	if n := len(tap.Take()); n != 4+17 { // for their snapshots, and the partitions of buckets
		t.Errorf("%d requests, want 21", n)
	}
	for i := range 2 * dynamo.MaxEntityIDRequests {
		addUsage(t, s, tap, fmt.Sprintf("key-%02d", i), time.Hour, 100)
	}
	tap.Take()
	got, err := s.EntityIDs(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tap.Take()); n != dynamo.MaxEntityIDRequests {
		t.Errorf("%d requests, want %d", n, dynamo.MaxEntityIDRequests)
	}
	if want := dynamo.MaxEntityIDRequests - 17; len(got) != want { // a request each
		t.Errorf("%d IDs, want %d: %v", len(got), want, got)
	}
}

// addUsage makes hourly snapshots of an entity.
func addUsage(t *testing.T, s *dynamo.Store, api dynamo.API, entity string, step time.Duration, n int) {
	t.Helper()
	_, ns := s.Namespace()
	for i := range n {
		start := usage.Hourly.Start(fixture.Start.Add(time.Duration(i) * step))
		fixture.Put(t, api, fixture.OldUsage(ns, &schema.Usage{Entity: entity, Resource: "gpt-4", Window: "hourly", Start: start, Events: 1}))
	}
}

func wantIDs(t *testing.T, s *dynamo.Store, prefix string, want ...string) {
	t.Helper()
	got, err := s.EntityIDs(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("with prefix %q (-want +got): %s", prefix, d)
	}
}
