package admin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A tenancy is a table with the namespace tenant-a, which has an entity, limits, buckets
// and an item that is not in the index of namespaces.
type tenancy struct {
	*testing.T
	*faults.Tap

	namespaces *admin.Namespaces
	ns         admin.Namespace
	store      *dynamo.Store // a client that has resolved the name
	clock      time.Time
}

const tenant = "tenant-a"

func newTenancy(t *testing.T) *tenancy {
	t.Helper()
	w := &tenancy{T: t, Tap: faults.NewTap(fixture.NewTable(t)), clock: fixture.Start.Add(2 * time.Hour)}
	o := dynamo.Options{API: fixture.AtOnce(w.Tap), Table: table, Now: func() time.Time { return w.clock }, Principal: "tester"}
	var err error
	w.namespaces, err = admin.NewNamespaces(o)
	w.must(err)
	w.ns, err = w.namespaces.Register(t.Context(), tenant)
	w.must(err)
	o.Namespace = tenant
	w.store, err = dynamo.Open(t.Context(), o)
	w.must(err)
	fixture.CreateEntity(t, w.store, store.Entity{ID: "user"})
	fixture.SetLimits(t, w.store, store.ConfigKey{Resource: "gpt-4"}, []store.Limit{{Name: "rpm", Capacity: 10, Amount: 10, Period: time.Minute}})
	for i := range 30 {
		fixture.PutBucket(t, w.store, w.Table, fmt.Sprintf("user-%d", i), "gpt-4", 0, 1)
	}
	for i := range 30 {
		hour := diary.HourOf(fixture.Start.UnixMilli()) + int32(100*i) // of several months
		w.must(w.store.Usage().Save(t.Context(), usage.Diary{
			Bucket: store.Bucket{Entity: fmt.Sprintf("user-%d", i), Resource: []string{"gpt-4", "a/b"}[i%2]},
			Text:   diary.Append("", diary.Entry{Hour: hour, Amounts: []store.Amount{{Milli: 1}}}),
		}))
	}
	_, err = w.store.Hold(t.Context(), &store.Hold{
		SlotKey: store.SlotKey{Entity: "user", Resource: "gpt-4", Limit: "inflight"}, Cap: 1, Next: store.Holding{Process: "a", Held: 1, Seq: 1},
	})
	w.must(err)
	fixture.Put(t, w.Table, schema.Item{"PK": schema.S(w.ns.ID + "/SYSTEM#"), "SK": schema.S("#PROVISIONER"), "state": schema.S("{}")})
	return w
}

func (w *tenancy) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// left returns the keys of the namespace's items.
func (w *tenancy) left() (keys []string) {
	w.Helper()
	in := &dynamodb.ScanInput{TableName: aws.String(table)}
	out, err := w.Table.Scan(w.Context(), in)
	w.must(err)
	for _, it := range out.Items {
		if k := schema.KeyOf(it); strings.HasPrefix(k.PK, w.ns.ID+"/") {
			keys = append(keys, k.String())
		}
	}
	return keys
}

// strand leaves the records as a crash of the peer does: the name is gone, the ID active.
func (w *tenancy) strand() {
	w.Helper()
	_, err := w.Table.BatchWriteItem(w.Context(), deletion(schema.NamespaceKey(tenant)))
	w.must(err)
}

func (w *tenancy) purge(o admin.PurgeOptions) (admin.Purged, error) {
	return w.namespaces.Purge(w.Context(), w.ns.ID, o)
}

func (w *tenancy) wantStates(want ...admin.OrphanState) {
	w.Helper()
	orphans, err := w.namespaces.Orphans(w.Context())
	w.must(err)
	var got []admin.OrphanState
	for _, o := range orphans {
		if o.ID != w.ns.ID || o.Name != tenant {
			w.Errorf("listed %+v", o)
		}
		got = append(got, o.State)
	}
	if !slices.Equal(got, want) {
		w.Errorf("orphans are %q, want %q", got, want)
	}
}

// The index and the months find all items but one, so one scan finds that one, and another
// one finds nothing.
func TestAPurgeFindsPagesWithoutAScan(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.must(w.namespaces.Delete(t.Context(), tenant))
	w.Take()
	left := -1
	w.Set(faults.Before(func(c *faults.Call) error {
		if c.Op == "Scan" && left < 0 {
			left = len(w.left())
		}
		return nil
	}))
	done, err := w.purge(admin.PurgeOptions{Quiet: -1})
	if err != nil || left != 1 || len(w.left()) != 0 {
		t.Errorf("%+v, %v: the scan had %d items to find, and %q is left", done, err, left, w.left())
	}
}

func TestANamespaceInUseIsNeverAnOrphan(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.wantStates()
	_, err := w.purge(admin.PurgeOptions{Quiet: -1})
	fixture.WantErr(t, err, admin.ErrNamespaceInUse)
	if len(w.left()) == 0 {
		t.Error("its items are gone")
	}
	got, err := w.namespaces.Recover(t.Context(), w.ns.ID, "")
	if err != nil || got != w.ns {
		t.Errorf("recovering it changed %+v, %v", got, err)
	}
}

// A damaged record does not hide the other orphans.
func TestADamagedRecordHidesNoOrphan(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.must(w.namespaces.Delete(t.Context(), tenant))
	for _, id := range []string{"0", "zzz"} { // before and after the other
		broken := schema.NamespaceIDKey(id).Item()
		broken[schema.NamespaceID], broken[schema.CreatedAt] = schema.S(id), schema.S("yesterday")
		fixture.Put(t, w, broken)
	}
	orphans, err := w.namespaces.Orphans(t.Context())
	fixture.WantErr(t, err, store.ErrCorrupt)
	if len(orphans) != 1 || orphans[0].ID != w.ns.ID {
		t.Errorf("listed %+v", orphans)
	}
	if err == nil || strings.Count(err.Error(), "created_at") != 2 {
		t.Errorf("got %v, want an error that names both records", err)
	}
}

// A deletion between the reads of Orphans shows the namespace as deleted, not as stranded.
func TestADeletionDuringTheListIsNotStranded(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	var once sync.Once
	w.Set(faults.On(faults.Before(func(*faults.Call) (err error) {
		once.Do(func() {
			w.Set(nil)
			err = w.namespaces.Delete(t.Context(), tenant)
		})
		return err
	}), faults.BatchGetItem))
	w.wantStates(admin.OrphanDeleted)
}

func TestADeletedNamespaceIsRecovered(t *testing.T) {
	t.Parallel()
	for _, how := range []admin.OrphanState{admin.OrphanDeleted, admin.OrphanStranded} {
		w := newTenancy(t)
		if how == admin.OrphanStranded {
			w.strand()
		} else {
			w.must(w.namespaces.Delete(t.Context(), tenant))
		}
		w.wantStates(how)
		// The answer is lost, and the second call changes nothing.
		w.Set(faults.On(faults.LoseAnswer(errors.New("lost")), faults.TransactWriteItems))
		_, err := w.namespaces.Recover(t.Context(), w.ns.ID, "")
		fixture.WantErr(t, err, store.ErrUnavailable)
		w.Set(nil)
		got, err := w.namespaces.Recover(t.Context(), w.ns.ID, "")
		if err != nil || got != w.ns {
			t.Errorf("%s: recovered %+v, %v, want %+v", how, got, err, w.ns)
		}
		w.wantStates()
		if found, err := w.namespaces.Get(t.Context(), tenant); err != nil || found != w.ns {
			t.Errorf("%s: the name leads to %+v, %v", how, found, err)
		}
		reverse := fixture.Get(t, w.Table, schema.NamespaceIDKey(w.ns.ID))
		if reverse[schema.DeletedAt] != nil {
			t.Errorf("%s: the record of the ID is %v", how, reverse)
		}
		w.wantEvent(audit.NamespaceRecovered)
	}
}

// wantEvent compares the newest event about the namespace.
func (w *tenancy) wantEvent(action string) {
	w.Helper()
	page, err := w.namespaces.AuditEvents(w.Context(), tenant, audit.Query{})
	w.must(err)
	if len(page.Events) == 0 || page.Events[0].Action != action {
		w.Errorf("the events are %q, want %s first", fixture.Actions(page.Events), action)
	}
}

func TestRecoverNeedsAnotherNameIfItsNameWasTaken(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.must(w.namespaces.Delete(t.Context(), tenant))
	taken, err := w.namespaces.Register(t.Context(), tenant)
	w.must(err)
	_, err = w.namespaces.Recover(t.Context(), w.ns.ID, "")
	fixture.WantErr(t, err, store.ErrExists)
	if err == nil || !strings.Contains(err.Error(), "--as") {
		t.Errorf("the error offers no other name: %v", err)
	}
	w.wantStates(admin.OrphanDeleted)
	got, err := w.namespaces.Recover(t.Context(), w.ns.ID, "tenant-b")
	if err != nil || got.Name != "tenant-b" || got.ID != w.ns.ID {
		t.Errorf("recovered %+v, %v", got, err)
	}
	if name, err := w.namespaces.NameOf(t.Context(), w.ns.ID); name != "tenant-b" || err != nil {
		t.Errorf("the ID has the name %q, %v", name, err)
	}
	if now, err := w.namespaces.Get(t.Context(), tenant); err != nil || now.ID != taken.ID {
		t.Errorf("the old name leads to %+v, %v", now, err)
	}
}

func TestPurgeDeletesEverythingAndTheRecordLast(t *testing.T) {
	t.Parallel()
	for _, how := range []admin.OrphanState{admin.OrphanDeleted, admin.OrphanStranded} {
		w := newTenancy(t)
		other, err := w.namespaces.Register(t.Context(), "tenant-b")
		w.must(err)
		fixture.Put(t, w.Table, schema.Item{"PK": schema.S(other.ID + "/SYSTEM#"), "SK": schema.S("#PROVISIONER")})
		if how == admin.OrphanStranded {
			w.strand()
		} else {
			w.must(w.namespaces.Delete(t.Context(), tenant))
		}
		before := len(w.left())
		w.Set(faults.Chain(faults.Pages(7), faults.Batches(20))) // DynamoDB leaves items unprocessed
		var told []int64
		got, err := w.purge(admin.PurgeOptions{Progress: func(p admin.Purged) { told = append(told, p.Items) }})
		if err != nil || got.Items != int64(before) || got.Passes != 3 {
			t.Errorf("%s: %+v, %v, want %d items", how, got, err, before)
		}
		if !slices.IsSorted(told) || len(told) == 0 || told[len(told)-1] != got.Items {
			t.Errorf("%s: progress %v", how, told)
		}
		w.Set(nil)
		if left := w.left(); len(left) > 0 {
			t.Errorf("%s: left are %q", how, left)
		}
		w.wantStates()
		w.wantEvent(audit.NamespacePurged)
		if fixture.Get(t, w.Table, schema.Key{PK: other.ID + "/SYSTEM#", SK: "#PROVISIONER"}) == nil {
			t.Errorf("%s: an item of another namespace is gone", how)
		}
		_, err = w.purge(admin.PurgeOptions{})
		fixture.WantErr(t, err, store.ErrNotFound)
	}
}

func TestPurgeRefusesWhatItCannotName(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.Take()
	for _, id := range []string{"", "_", "a/b", "a#"} {
		_, err := w.namespaces.Purge(t.Context(), id, admin.PurgeOptions{})
		fixture.WantErr(t, err, store.ErrInvalid)
		_, err = w.namespaces.Recover(t.Context(), id, "")
		fixture.WantErr(t, err, store.ErrInvalid)
	}
	if ops := w.Ops(); len(ops) > 0 {
		t.Errorf("requests were sent: %q", ops)
	}
	_, err := w.namespaces.Purge(t.Context(), "unknown", admin.PurgeOptions{})
	fixture.WantErr(t, err, store.ErrNotFound)
}

// A client that resolved the name before the deletion has written a minute ago.
func TestPurgeRefusesANamespaceThatWasJustWritten(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.must(w.namespaces.Delete(t.Context(), tenant))
	w.clock = fixture.Start.Add(time.Minute) // the buckets were refilled at fixture.Start
	_, err := w.purge(admin.PurgeOptions{})
	fixture.WantErr(t, err, admin.ErrNamespaceInUse)
	w.wantStates(admin.OrphanDeleted)
	if _, err := w.purge(admin.PurgeOptions{Quiet: time.Second}); err != nil {
		t.Error(err)
	}
}

// A client with the ID creates its bucket again after each pass. Purge gives up, and the
// next purge completes it once the client has stopped.
func TestPurgeFailsWhileAClientWrites(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.must(w.namespaces.Delete(t.Context(), tenant))
	w.Set(faults.On(faults.After(func(_ *faults.Call, err error) error {
		fixture.PutBucket(t, w.store, w.Table, "user", "gpt-4", 0, 1)
		return err
	}), faults.BatchWriteItem))
	_, err := w.purge(admin.PurgeOptions{})
	fixture.WantErr(t, err, admin.ErrNamespaceInUse)
	w.wantStates(admin.OrphanPurging)
	w.Set(nil)
	if _, err := w.purge(admin.PurgeOptions{}); err != nil || len(w.left()) > 0 {
		t.Errorf("%v, left are %q", err, w.left())
	}
}

// A client that held the ID through a purge leaves items that no record names. Another purge
// of the ID deletes them.
func TestWhatAClientWritesAfterAPurgeIsPurged(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.must(w.namespaces.Delete(t.Context(), tenant))
	if _, err := w.purge(admin.PurgeOptions{}); err != nil {
		t.Fatal(err)
	}
	fixture.PutBucket(t, w.store, w.Table, "user", "gpt-4", 0, 1)
	o, err := w.namespaces.Orphan(t.Context(), w.ns.ID)
	if want := (admin.Orphan{Namespace: admin.Namespace{ID: w.ns.ID}, State: admin.OrphanPurged}); o != want || err != nil {
		t.Errorf("found %+v, %v", o, err)
	}
	_, err = w.namespaces.Recover(t.Context(), w.ns.ID, "again")
	fixture.WantErr(t, err, store.ErrNotFound)
	w.clock = fixture.Start.Add(time.Minute)
	_, err = w.purge(admin.PurgeOptions{})
	fixture.WantErr(t, err, admin.ErrNamespaceInUse) // the client writes still
	w.clock = fixture.Start.Add(2 * time.Hour)

	named, _ := schema.EncodeNamespace(schema.Namespace{ID: w.ns.ID, Name: "by-hand", Status: schema.StatusActive, Created: fixture.Start})
	fixture.Put(t, w.Table, named)
	_, err = w.purge(admin.PurgeOptions{})
	fixture.WantErr(t, err, admin.ErrNamespaceInUse)
	_, err = w.Table.BatchWriteItem(t.Context(), deletion(schema.NamespaceKey("by-hand")))
	w.must(err)

	done, err := w.purge(admin.PurgeOptions{})
	if err != nil || done.Items != 1 || done.State != admin.OrphanPurged || len(w.left()) > 0 {
		t.Errorf("purged %+v, %v, left are %q", done, err, w.left())
	}
	_, err = w.purge(admin.PurgeOptions{})
	fixture.WantErr(t, err, store.ErrNotFound)
}

// A purge is killed at each of its requests in turn, and the next one completes it.
func TestAPurgeThatWasKilledIsResumed(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	for at := 0; ; at++ {
		w := newTenancy(t)
		w.must(w.namespaces.Delete(t.Context(), tenant))
		var mu sync.Mutex
		requests := 0
		w.Set(faults.Before(func(*faults.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if requests++; requests > at {
				return killed
			}
			return nil
		}))
		_, err := w.purge(admin.PurgeOptions{})
		w.Set(nil)
		if err == nil {
			break
		}
		if !errors.Is(err, killed) {
			t.Fatalf("after %d requests: %v", at, err)
		}
		if _, err := w.purge(admin.PurgeOptions{}); err != nil || len(w.left()) > 0 {
			t.Errorf("resumed after %d requests: %v, left are %q", at, err, w.left())
		}
		w.wantStates()
		w.wantEvent(audit.NamespacePurged)
	}
}

// Recover and Purge race for the record of the ID, each between the reads and the write
// of the other.
func TestOneOfRecoverAndPurgeFails(t *testing.T) {
	t.Parallel()
	for _, how := range []admin.OrphanState{admin.OrphanDeleted, admin.OrphanStranded} {
		for _, first := range []string{"purge", "recover"} {
			w := newTenancy(t)
			if how == admin.OrphanStranded {
				w.strand()
			} else {
				w.must(w.namespaces.Delete(t.Context(), tenant))
			}
			purge := func() error { _, err := w.purge(admin.PurgeOptions{Quiet: -1}); return err }
			again := func() error { _, err := w.namespaces.Recover(t.Context(), w.ns.ID, ""); return err }
			winner, loser := purge, again
			want := store.ErrNotFound
			if first == "recover" {
				winner, loser, want = again, purge, admin.ErrNamespaceInUse
			}
			var once sync.Once
			w.Set(faults.On(faults.Before(func(*faults.Call) error {
				once.Do(func() {
					w.Set(nil)
					if err := winner(); err != nil {
						t.Errorf("%s, first %s: %v", how, first, err)
					}
				})
				return nil
			}), faults.TransactWriteItems))
			if err := loser(); !errors.Is(err, want) {
				t.Errorf("%s, first %s: the other got %v, want %v", how, first, err, want)
			}
			if purged := len(w.left()) == 0; purged != (first == "purge") {
				t.Errorf("%s, first %s: purged is %v", how, first, purged)
			}
		}
	}
}

func TestANamespaceBeingPurgedCannotBeRecovered(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.must(w.namespaces.Delete(t.Context(), tenant))
	w.Set(faults.On(faults.Fail(errors.New("killed")), faults.BatchWriteItem))
	_, err := w.purge(admin.PurgeOptions{})
	fixture.WantErr(t, err, store.ErrUnavailable)
	w.Set(nil)
	_, err = w.namespaces.Recover(t.Context(), w.ns.ID, "")
	fixture.WantErr(t, err, admin.ErrNamespaceInUse)
	w.wantStates(admin.OrphanPurging)
}

// The second purge runs whole, just before the first deletes the record.
func TestTwoPurgesBothSucceed(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.must(w.namespaces.Delete(t.Context(), tenant))
	w.Set(faults.On(faults.Before(func(c *faults.Call) error {
		if c.Keys()[0] != schema.NamespaceIDKey(w.ns.ID) {
			return nil
		}
		w.Set(nil)
		_, err := w.purge(admin.PurgeOptions{})
		return err
	}), faults.TransactWriteItems))
	if _, err := w.purge(admin.PurgeOptions{}); err != nil {
		t.Error(err)
	}
	page, err := w.namespaces.AuditEvents(t.Context(), tenant, audit.Query{})
	w.must(err)
	want := []string{audit.NamespacePurged, audit.NamespacePurging, audit.NamespaceDeleted, audit.NamespaceRegistered}
	if diff := cmp.Diff(want, fixture.Actions(page.Events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// deletion is a batch that deletes an item.
func deletion(k schema.Key) *dynamodb.BatchWriteItemInput {
	return &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
		table: {{DeleteRequest: &types.DeleteRequest{Key: k.Item()}}},
	}}
}
