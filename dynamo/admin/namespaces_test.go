package admin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

func newNamespaces(t *testing.T) (*admin.Namespaces, *faults.Tap) {
	t.Helper()
	f := faults.NewTap(fixture.NewTable(t))
	n, err := admin.NewNamespaces(dynamo.Options{API: fixture.AtOnce(f), Table: table, Now: fixture.Now})
	if err != nil {
		t.Fatal(err)
	}
	return n, f
}

func TestRegisterIsIdempotent(t *testing.T) {
	t.Parallel()
	n, f := newNamespaces(t)
	first, err := n.Register(t.Context(), "tenant-a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"TransactWriteItems"}, f.Ops()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	again, err := n.Register(t.Context(), "tenant-a")
	if err != nil || again != first {
		t.Errorf("again: %+v, %v, want %+v", again, err, first)
	}
	if len(first.ID) != 11 || strings.HasPrefix(first.ID, "-") || first.Name != "tenant-a" || !first.Created.Equal(fixture.Start) {
		t.Errorf("got %+v", first)
	}
	for _, k := range []schema.Key{schema.NamespaceKey("tenant-a"), schema.NamespaceIDKey(first.ID)} {
		ns, err := schema.DecodeNamespace(fixture.Get(t, f, k))
		if err != nil || ns.ID != first.ID || ns.Name != "tenant-a" || ns.Status != schema.StatusActive {
			t.Errorf("%s is %+v, %v", k, ns, err)
		}
	}
}

// No namespace ID begins with "-". One random ID in 64 would, and a command line would
// take it for a flag.
func TestNamespaceIDsAreTokens(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2000 {
		id := namespace.NewID()
		if len(id) != 11 || id[0] == '-' || strings.ContainsAny(id, "/+=#") || seen[id] {
			t.Fatalf("got id %q", id)
		}
		seen[id] = true
	}
}

func TestRegisteringAtOnceAgreesOnOneID(t *testing.T) {
	t.Parallel()
	n, _ := newNamespaces(t)
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			ns, err := n.Register(t.Context(), "tenant-a")
			if err != nil {
				t.Error(err)
			}
			ids[i] = ns.ID
		})
	}
	wg.Wait()
	if slices.Sort(ids); ids[0] != ids[len(ids)-1] {
		t.Errorf("got ids %q", ids)
	}
}

func TestNamespacesAreListedOverPages(t *testing.T) {
	t.Parallel()
	n, f := newNamespaces(t)
	f.Set(faults.Pages(2))
	want := []string{"default"}
	for i := range 7 {
		name := fmt.Sprintf("tenant-%d", i)
		if _, err := n.Register(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	all, err := n.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ns := range all {
		got = append(got, ns.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A crash leaves no namespace that has lost its name and is not deleted. Both records
// change in one transaction.
func TestDeletingANamespaceIsAtomic(t *testing.T) {
	t.Parallel()
	n, f := newNamespaces(t)
	ns, err := n.Register(t.Context(), "tenant-a")
	if err != nil {
		t.Fatal(err)
	}
	f.Take()
	f.Set(faults.Before(func(c *faults.Call) error {
		if c.Op == "TransactWriteItems" {
			return errors.New("crash")
		}
		return nil
	}))
	fixture.WantErr(t, n.Delete(t.Context(), "tenant-a"), store.ErrUnavailable)
	f.Set(nil)
	if still, err := n.Get(t.Context(), "tenant-a"); err != nil || still != ns {
		t.Errorf("after the crash: %+v, %v", still, err)
	}
	if err := n.Delete(t.Context(), "tenant-a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GetItem", "GetItem", "TransactWriteItems", "GetItem", "GetItem", "GetItem", "TransactWriteItems"}, f.Ops()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if it := fixture.Get(t, f, schema.NamespaceKey("tenant-a")); it != nil {
		t.Errorf("the name is still there: %v", it)
	}
	reverse, err := schema.DecodeNamespace(fixture.Get(t, f, schema.NamespaceIDKey(ns.ID)))
	if err != nil || reverse.Status != schema.StatusDeleted || reverse.Name != "tenant-a" {
		t.Errorf("the id is %+v, %v", reverse, err)
	}
	fixture.WantErr(t, n.Delete(t.Context(), "tenant-a"), store.ErrNotFound)
	_, err = dynamo.Open(t.Context(), dynamo.Options{API: f, Table: table, Namespace: "tenant-a"})
	fixture.WantErr(t, err, store.ErrNotFound)

	again, err := n.Register(t.Context(), "tenant-a")
	if err != nil || again.ID == ns.ID {
		t.Errorf("registered again: %+v, %v, want another id than %q", again, err, ns.ID)
	}
}

func TestNamespacesBeingDeletedAreAbsent(t *testing.T) {
	t.Parallel()
	for _, status := range []string{schema.StatusDeleted, schema.StatusPurging} {
		n, f := newNamespaces(t)
		forward, _ := schema.EncodeNamespace(schema.Namespace{ID: "abc", Name: "gone", Status: status})
		fixture.Put(t, f, forward)
		_, err := n.Get(t.Context(), "gone")
		fixture.WantErr(t, err, store.ErrNotFound)
		_, err = dynamo.Open(t.Context(), dynamo.Options{API: f, Table: table, Namespace: "gone"})
		fixture.WantErr(t, err, store.ErrNotFound)
		if all, err := n.List(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("%s: listed %+v, %v", status, all, err)
		}
	}
}

func TestNamespaceNamesAreChecked(t *testing.T) {
	t.Parallel()
	n, f := newNamespaces(t)
	for _, name := range []string{"", "_", "a#b", "a\n"} {
		_, err := n.Register(t.Context(), name)
		fixture.WantErr(t, err, store.ErrInvalid)
		_, err = n.Get(t.Context(), name)
		fixture.WantErr(t, err, store.ErrInvalid)
		fixture.WantErr(t, n.Delete(t.Context(), name), store.ErrInvalid)
	}
	if len(f.Ops()) != 0 {
		t.Errorf("requests were sent: %q", f.Ops())
	}
}

// The name of a namespace ID is known until the ID is purged.
func TestNameOf(t *testing.T) {
	t.Parallel()
	n, _ := newNamespaces(t)
	ns, err := n.Register(t.Context(), "team/a")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if name, err := n.NameOf(t.Context(), ns.ID); name != "team/a" || err != nil {
			t.Errorf("%q, %v", name, err)
		}
		_ = n.Delete(t.Context(), "team/a") // the second time there is none
	}
	_, err = n.NameOf(t.Context(), "other")
	fixture.WantErr(t, err, store.ErrNotFound)
}
