package dynamo_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestCreateEntity(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	parent := fixture.CreateEntity(t, s, store.Entity{ID: "proj-1"})
	if diff := cmp.Diff([]string{"GetItem", "TransactWriteItems"}, f.Ops()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	child := fixture.CreateEntity(t, s, store.Entity{
		ID: "key-1", Name: "a key", Parent: "proj-1", Cascade: true, Metadata: map[string]string{"plan": "free"},
	})
	want := &store.Entity{
		ID: "key-1", Name: "a key", Parent: "proj-1", Cascade: true, Metadata: map[string]string{"plan": "free"},
		Created: start.UTC().Truncate(time.Second), Generation: start.UnixMilli(), Incarnation: child.Incarnation,
	}
	if diff := cmp.Diff(want, child); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	for _, e := range []*store.Entity{parent, child} {
		got, err := s.Entity(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("read (-created +read):\n%s", diff)
		}
		if len(e.Incarnation) != 16 {
			t.Errorf("incarnation %q", e.Incarnation)
		}
	}
	if parent.Incarnation == child.Incarnation {
		t.Errorf("both are incarnation %q", parent.Incarnation)
	}
}

func TestCreateEntityIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := fixture.NewStore(t)
	fixture.CreateEntity(t, s, store.Entity{ID: "a"})
	fixture.CreateEntity(t, s, store.Entity{ID: "b", Parent: "a"})
	for _, c := range []struct {
		e    store.Entity
		want error
	}{
		{store.Entity{ID: "a"}, &store.ExistsError{Kind: "entity", Name: "a"}},
		{store.Entity{ID: "b", Parent: "a"}, &store.ExistsError{Kind: "entity", Name: "b"}},
		{store.Entity{ID: "c", Parent: "nobody"}, &store.NotFoundError{Kind: "entity", Name: "nobody", Hint: "create the parent first"}},
		{store.Entity{ID: "c", Parent: "c"}, &store.ValidationError{Field: "parent", Value: "c", Reason: "an entity cannot be its own parent"}},
	} {
		_, err := s.CreateEntity(t.Context(), c.e)
		if diff := cmp.Diff(c.want.Error(), fmt.Sprint(err)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.e, diff)
		}
	}
	_, err := s.Entity(t.Context(), "c")
	fixture.WantErr(t, err, store.ErrNotFound)
}

func TestCreateEntityWaitsForOtherTransactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := fixture.NewStore(t)
		fixture.CreateEntity(t, s, store.Entity{ID: "a"})
		in := 2
		f.Set(faults.Before(func(c *faults.Call) error {
			if c.Op != "TransactWriteItems" {
				return nil
			}
			if in--; c.Op == "TransactWriteItems" && in >= 0 {
				return cancelled("None", "TransactionConflict")
			}
			return nil
		}))
		fixture.CreateEntity(t, s, store.Entity{ID: "b", Parent: "a"})
		f.Set(faults.Before(func(*faults.Call) error { return cancelled("None", "TransactionConflict") }))
		_, err := s.CreateEntity(t.Context(), store.Entity{ID: "c", Parent: "a"})
		fixture.WantErr(t, err, store.ErrConflict)
	})
}

func TestChildrenOverPages(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	f.Set(faults.Pages(2))
	fixture.CreateEntity(t, s, store.Entity{ID: "proj"})
	fixture.CreateEntity(t, s, store.Entity{ID: "proj-2"})
	fixture.CreateEntity(t, s, store.Entity{ID: "other", Parent: "proj-2"})
	var want []string
	for i := range 7 {
		e := fixture.CreateEntity(t, s, store.Entity{ID: fmt.Sprintf("key-%d", i), Parent: "proj"})
		want = append(want, e.ID)
	}
	children, err := s.Children(t.Context(), "proj")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range children {
		got = append(got, c.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none, err := s.Children(t.Context(), "key-1"); err != nil || len(none) != 0 {
		t.Errorf("children of a child: %v, %v", none, err)
	}
}

func TestDeleteEntityDeletesAllButAudit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := fixture.NewStore(t)
		_, ns := s.Namespace()
		fixture.CreateEntity(t, s, store.Entity{ID: "user"})
		fixture.CreateEntity(t, s, store.Entity{ID: "user2"})
		limits := []store.Limit{limiter.PerMinute("rpm", 10)}
		for _, r := range []string{"gpt-4", store.DefaultResource} {
			for _, e := range []string{"user", "user2"} {
				if err := s.SetLimits(t.Context(), store.ConfigKey{Entity: e, Resource: r}, limits); err != nil {
					t.Fatal(err)
				}
			}
		}
		for shard := range 40 {
			fixture.PutBucket(t, s, f, "user", "gpt-4", shard, 40)
		}
		fixture.PutBucket(t, s, f, "user", "a/b", 1, 2) // shard 0 is gone, its records are not
		fixture.PutBucket(t, s, f, "user2", "gpt-4", 0, 1)
		for _, k := range []schema.Key{
			{PK: schema.BucketKey(ns, store.Bucket{Entity: "user", Resource: "gpt-4"}).PK, SK: "#OP#k1"},
			{PK: schema.BucketKey(ns, store.Bucket{Entity: "user", Resource: "a/b"}).PK, SK: "#OP#k2"},
			{PK: schema.EntityPK(ns, "user"), SK: "#USAGE#gpt-4#2026-01-01T00:00:00Z"},
			{PK: ns + "/AUDIT#user", SK: "#AUDIT#01"},
		} {
			fixture.Put(t, f, k.Item())
		}
		f.Take()
		f.Set(faults.Chain(faults.Pages(10), faults.Batches(20)))
		deleted, err := s.DeleteEntity(t.Context(), "user")
		if err != nil {
			t.Fatal(err)
		}
		if want := 40 + 1 + 2 + 1 + 2 + 1; deleted != want {
			t.Errorf("%d items deleted, want %d", deleted, want)
		}
		checkBatches(t, f, schema.MetaKey(ns, "user"))
		f.Set(nil)
		if left := scan(t, f, ns, "user"); len(left) != 0 {
			t.Errorf("left over: %v", left)
		}
		if fixture.Get(t, f, schema.Key{PK: ns + "/AUDIT#user", SK: "#AUDIT#01"}) == nil {
			t.Error("the audit event is gone")
		}
		if left := scan(t, f, ns, "user2"); len(left) != 4 {
			t.Errorf("of another entity: %v", left)
		}
		registry := fixture.Get(t, f, schema.EntityConfigRegistryKey(ns))
		for _, r := range []string{"gpt-4", store.DefaultResource} {
			if n, ok := registry[r].(*types.AttributeValueMemberN); !ok || n.Value != "1" {
				t.Errorf("registry counts %s as %v, want the other entity's", r, registry[r])
			}
		}
		_, err = s.DeleteEntity(t.Context(), "user")
		fixture.WantErr(t, err, store.ErrNotFound)
	})
}

// The pages with usage of an entity are in no index.
func TestDeleteEntityDeletesItsPages(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	page := func(entity, resource string) schema.Key {
		b := store.Bucket{Entity: entity, Resource: resource}
		entry := diary.Entry{Hour: diary.HourOf(fixture.Start.UnixMilli()), Amounts: []store.Amount{{Milli: 1}}}
		if err := s.Usage().Save(t.Context(), usage.Diary{Bucket: b, Text: diary.Append("", entry)}); err != nil {
			t.Fatal(err)
		}
		p := schema.Page{Bucket: b, Entries: []diary.Entry{entry}}
		return p.Key(ns)
	}
	own := []schema.Key{page("user", "gpt-4"), page("user", "a/b")}
	other := page("user2", "gpt-4")
	if n, err := s.DeleteEntity(t.Context(), "user"); n != len(own) || err != nil {
		t.Errorf("%d items deleted, %v", n, err)
	}
	for _, k := range own {
		if fixture.Get(t, f, k) != nil {
			t.Errorf("left over: %s", k)
		}
	}
	if fixture.Get(t, f, other) == nil {
		t.Errorf("%s of another entity is gone", other)
	}
}

// checkBatches checks that deletes came in chunks of 25 at most, the record last.
func checkBatches(t *testing.T, f *faults.Tap, record schema.Key) {
	t.Helper()
	batches := 0
	for _, in := range f.Inputs() {
		if batch, ok := in.(*dynamodb.BatchWriteItemInput); ok {
			batches++
			if n := len(batch.RequestItems[table]); n > 25 {
				t.Errorf("a batch of %d", n)
			}
		}
	}
	last, ok := f.Inputs()[len(f.Inputs())-1].(*dynamodb.TransactWriteItemsInput)
	if batches == 0 || !ok || schema.KeyOf(last.TransactItems[0].Delete.Key) != record {
		t.Errorf("the record is not the last item deleted: %q", f.Ops())
	}
}

// scan finds the items of an entity by the index that contains all of them.
func scan(t *testing.T, f *faults.Tap, ns, entity string) []schema.Key {
	t.Helper()
	out, err := f.Table.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String(table), IndexName: aws.String("GSI4"), KeyConditionExpression: aws.String("GSI4PK = :ns"),
		ExpressionAttributeValues: schema.Item{":ns": schema.S(ns)},
	})
	if err != nil {
		t.Fatal(err)
	}
	var keys []schema.Key
	for _, it := range out.Items {
		k := schema.KeyOf(it)
		if strings.HasPrefix(k.PK, ns+"/BUCKET#"+entity+"#") || k.PK == schema.EntityPK(ns, entity) {
			keys = append(keys, k)
		}
	}
	return keys
}

func TestDeleteEntityGivesUpOnAThrottledTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := fixture.NewStore(t)
		fixture.CreateEntity(t, s, store.Entity{ID: "user"})
		fixture.PutBucket(t, s, f, "user", "gpt-4", 0, 1)
		stuck := faults.NewTap(f.Table)
		stuck.Set(faults.On(faults.Batches(0), faults.BatchWriteItem))
		s = fixture.OpenStore(t, stuck)
		_, err := s.DeleteEntity(t.Context(), "user")
		fixture.WantErr(t, err, store.ErrThrottled)
		fixture.WantErr(t, err, store.ErrUnavailable)
		if n := stuck.Count(faults.BatchWriteItem); n != 10 {
			t.Errorf("%d attempts, want 10", n)
		}
	})
}

func TestEntityNamesAreCheckedOnEveryPath(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	for _, id := range []string{"", "bad#id", "user\n", "a/b", strings.Repeat("x", 257)} {
		_, create := s.CreateEntity(t.Context(), store.Entity{ID: id})
		_, read := s.Entity(t.Context(), id)
		_, children := s.Children(t.Context(), id)
		_, remove := s.DeleteEntity(t.Context(), id)
		_, buckets := s.Buckets(t.Context(), id, "gpt-4", 1)
		_, entityBuckets := s.EntityBuckets(t.Context(), id)
		_, image := s.Load(t.Context(), &store.Load{Bucket: &store.Bucket{Entity: id, Resource: "gpt-4"}})
		for _, err := range []error{create, read, children, remove, buckets, entityBuckets, image} {
			fixture.WantErr(t, err, store.ErrInvalid)
		}
		if id != "" { // this load asks for no entity, and this creation names no parent
			_, load := s.Load(t.Context(), &store.Load{Entity: id})
			_, parent := s.CreateEntity(t.Context(), store.Entity{ID: "x", Parent: id})
			fixture.WantErr(t, load, store.ErrInvalid)
			fixture.WantErr(t, parent, store.ErrInvalid)
		}
	}
	for _, resource := range []string{"", "r#x", "r\n", "1r", store.DefaultResource} {
		_, buckets := s.Buckets(t.Context(), "user", resource, 1)
		_, image := s.Load(t.Context(), &store.Load{Bucket: &store.Bucket{Entity: "user", Resource: resource}})
		fixture.WantErr(t, image, store.ErrInvalid)
		fixture.WantErr(t, buckets, store.ErrInvalid)
		if resource != "" { // which means all resources
			_, listing := resourceBuckets(t.Context(), s, resource)
			fixture.WantErr(t, listing, store.ErrInvalid)
		}
	}
	if len(f.Ops()) != 0 {
		t.Errorf("requests were sent: %q", f.Ops())
	}
}

// If two callers delete an entity at once, only one deletion leaves an event. The other
// caller finds it deleted.
func TestTwoDeletionsAreToldOfOnce(t *testing.T) {
	t.Parallel()
	s, f := newAuditedStore(t)
	fixture.CreateEntity(t, s, store.Entity{ID: "user"})
	// Events of two processes in one millisecond have no order.
	later := dynamo.Following(dynamo.Options{API: f.Table, Table: table, Now: func() time.Time { return now().Add(time.Millisecond) }})
	other, err := dynamo.Open(t.Context(), later)
	if err != nil {
		t.Fatal(err)
	}
	f.Set(faults.Before(func(c *faults.Call) error {
		if c.Op != "TransactWriteItems" {
			return nil
		}
		f.Set(nil)
		_, err := other.DeleteEntity(t.Context(), "user")
		return err
	}))
	if _, err := s.DeleteEntity(t.Context(), "user"); err != nil {
		t.Errorf("the second one: %v", err)
	}
	fixture.WantActions(t, s, "user", audit.EntityCreated, audit.EntityDeleted)
}

func cancelled(codes ...string) error {
	err := &types.TransactionCanceledException{}
	for _, c := range codes {
		err.CancellationReasons = append(err.CancellationReasons, types.CancellationReason{Code: aws.String(c)})
	}
	return err
}
