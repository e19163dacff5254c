package usage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// wantEvents checks how many acquires the usage of an entity has.
func wantEvents(t *testing.T, s *dynamo.Store, what, entity string, want int64) {
	t.Helper()
	sum, err := s.Usage().Sum(t.Context(), usage.Query{Entity: entity, Window: usage.Monthly, Now: true})
	if err != nil || sum.Events != want {
		t.Errorf("%s: %d acquires, want %d, %v", what, sum.Events, want, err)
	}
}

// lived is the last page of an entity's bucket that was made at an instant.
func lived(entity string, at time.Time) usage.Diary {
	return usage.Diary{Bucket: store.Bucket{Entity: entity, Resource: "gpt-4"}, Life: at.UnixMilli(), Text: textOf(hoursUntil(thisHour, 3)), Gone: true}
}

// The record of a bucket comes after the deletion of its entity, and again hours later. A
// limiter saves what it remembers of the item.
func TestWhatWasDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	s, _ := fixture.NewStore(t)
	old, again := lived("user", start.Add(-time.Hour)), lived("user", start.Add(time.Minute))
	unknown, remembered := old, old
	unknown.Life, remembered.Gone = 0, false
	other := lived("user-1", start.Add(-time.Hour))
	save := func(save func() error) {
		t.Helper()
		if err := save(); err != nil {
			t.Fatal(err)
		}
	}
	save(func() error { return s.Usage().Save(t.Context(), old) })
	wantEvents(t, s, "before", "user", 3)
	if n, err := s.DeleteEntity(t.Context(), "user"); n != 1 || err != nil {
		t.Fatalf("%d deleted, %v", n, err)
	}
	for range 2 {
		save(func() error { return s.Usage().Save(t.Context(), old, other, unknown) })
		save(func() error { return s.Usage().Save(t.Context(), remembered) })
		wantEvents(t, s, "after", "user", 0)
		wantEvents(t, s, "after", "user-1", 3)
	}
	save(func() error { return s.Usage().Save(t.Context(), old, again) })
	wantEvents(t, s, "used again", "user", 3)
}

// Nobody keeps anything of the entity, but its last bucket has just expired.
func TestWhatHasGoneIsDeleted(t *testing.T) {
	t.Parallel()
	s, _ := fixture.NewStore(t)
	_, err := s.DeleteEntity(t.Context(), "user")
	fixture.WantErr(t, err, store.ErrNotFound)
	if err := s.Usage().Save(t.Context(), lived("user", start.Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, s, "after", "user", 0)
}

// The aggregator saves at every moment of a deletion.
func TestADeletionRacesWithTheRecord(t *testing.T) {
	t.Parallel()
	const moments = 12
	last := 0
	for moment := range moments {
		s, f := fixture.NewStore(t)
		_, ns := s.Namespace()
		d := bucketOf("user", 3)
		fixture.Put(t, f, d.item(ns))
		page := lived("user", start.Add(-time.Hour))
		call := 0
		f.Set(faults.Before(func(*faults.Call) error {
			if call++; call-1 == moment {
				last = moment
				f.Set(nil)
				return s.Usage().Save(t.Context(), page)
			}
			return nil
		}))
		if _, err := s.DeleteEntity(t.Context(), "user"); err != nil {
			t.Fatal(err)
		}
		f.Set(nil)
		wantEvents(t, s, fmt.Sprint("moment ", moment), "user", 0)
	}
	if last < 4 || last == moments-1 {
		t.Errorf("the last of %d moments is %d", moments, last)
	}
}

// A purge deletes buckets, and their records come while it goes on, and after it. A
// namespace that may be recovered keeps its usage.
func TestAPurgeLeavesNoPages(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	f := faults.NewTap(db)
	o := dynamo.Options{API: fixture.AtOnce(f), Table: table, Now: now, Principal: "tester"}
	namespaces, err := admin.NewNamespaces(o)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := namespaces.Register(t.Context(), "tenant")
	if err != nil {
		t.Fatal(err)
	}
	o.Namespace = "tenant"
	s, err := dynamo.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	save := func(entity string) {
		t.Helper()
		if err := s.Usage().Save(t.Context(), lived(entity, start)); err != nil {
			t.Fatal(err)
		}
	}
	save("user")
	wantEvents(t, s, "in use", "user", 3)
	if err := namespaces.Delete(t.Context(), "tenant"); err != nil {
		t.Fatal(err)
	}
	save("user-1")
	wantEvents(t, s, "deleted", "user-1", 3)
	if _, err := namespaces.Purge(t.Context(), ns.ID, admin.PurgeOptions{Quiet: -1, Progress: func(admin.Purged) { save("user-2") }}); err != nil {
		t.Fatal(err)
	}
	save("user-2")
	wantEvents(t, s, "purged", "user-2", 0)
	if it := fixture.Get(t, db, schema.PageMonthKey(ns.ID, schema.Month(thisHour))); it != nil {
		t.Errorf("left over: %v", it)
	}
}
