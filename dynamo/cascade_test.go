package dynamo_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// Two cascades in a row are refused, from below and from above, and nothing is written.
func TestANestedCascadeIsRefused(t *testing.T) {
	t.Parallel()
	checkNestedCascade(t, fixture.NewTable(t))
}

func checkNestedCascade(t *testing.T, api dynamo.API) {
	t.Helper()
	s := fixture.OpenStore(t, api)
	fixture.CreateEntity(t, s, store.Entity{ID: "org"})
	fixture.CreateEntity(t, s, store.Entity{ID: "proj", Parent: "org", Cascade: true})
	refused := func(e store.Entity, want store.NestedCascadeError) {
		t.Helper()
		_, err := s.CreateEntity(t.Context(), e)
		var nested *store.NestedCascadeError
		if !errors.As(err, &nested) || !errors.Is(err, store.ErrNestedCascade) {
			t.Fatalf("create %s: got %v", e.ID, err)
		}
		if diff := cmp.Diff(want, *nested); diff != "" {
			t.Errorf("create %s (-want +got): %s", e.ID, diff)
		}
		_, err = s.Entity(t.Context(), e.ID)
		fixture.WantErr(t, err, store.ErrNotFound)
	}
	refused(store.Entity{ID: "key", Parent: "proj", Cascade: true}, store.NestedCascadeError{Child: "key", Entity: "proj", Parent: "org"})

	// A parent that does not cascade, a child that does not, and a flag without a parent are fine.
	fixture.CreateEntity(t, s, store.Entity{ID: "reader", Parent: "proj"})
	fixture.CreateEntity(t, s, store.Entity{ID: "root", Cascade: true})
	fixture.CreateEntity(t, s, store.Entity{ID: "team", Parent: "root", Cascade: true})

	// A parent that was deleted cannot come back as the second level.
	if _, err := s.DeleteEntity(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	refused(store.Entity{ID: "root", Parent: "org", Cascade: true}, store.NestedCascadeError{Child: "team", Entity: "root", Parent: "org"})
	fixture.CreateEntity(t, s, store.Entity{ID: "root", Parent: "org"})

	_, err := s.CreateEntity(t.Context(), store.Entity{ID: "stray", Parent: "nobody", Cascade: true})
	fixture.WantErr(t, err, store.ErrNotFound)
	_, err = s.CreateEntity(t.Context(), store.Entity{ID: "proj", Parent: "org", Cascade: true})
	fixture.WantErr(t, err, store.ErrExists)
}

// The one race that [dynamo.Store.CreateEntity] documents: a parent that is made again so
// that it cascades, while the index does not yet show its children. The chain is then there,
// and the index shows it later. The transaction sees it from the other side at once.
func TestALaggingIndexLeavesOneRace(t *testing.T) {
	t.Parallel()
	var lag faults.Slot
	s := fixture.OpenStore(t, faults.Wrap(fixture.NewTable(t), lag.Apply))
	fixture.CreateEntity(t, s, store.Entity{ID: "org"})
	fixture.CreateEntity(t, s, store.Entity{ID: "proj"})
	fixture.CreateEntity(t, s, store.Entity{ID: "key", Parent: "proj", Cascade: true})
	if _, err := s.DeleteEntity(t.Context(), "proj"); err != nil {
		t.Fatal(err)
	}
	lag.Set(faults.After(func(c *faults.Call, err error) error {
		if out, ok := c.Output.(*dynamodb.QueryOutput); ok && out != nil {
			out.Items, out.Count = nil, 0
		}
		return err
	}))
	fixture.CreateEntity(t, s, store.Entity{ID: "proj", Parent: "org", Cascade: true})
	_, err := s.CreateEntity(t.Context(), store.Entity{ID: "other", Parent: "proj", Cascade: true})
	fixture.WantErr(t, err, store.ErrNestedCascade) // this needs no index

	lag.Set(nil)
	children, err := s.Children(t.Context(), "proj")
	if err != nil || len(children) != 1 || children[0].ID != "key" {
		t.Errorf("the children are %v, %v", children, err)
	}
	if _, err := s.DeleteEntity(t.Context(), "proj"); err != nil {
		t.Fatal(err)
	}
	_, err = s.CreateEntity(t.Context(), store.Entity{ID: "proj", Parent: "org", Cascade: true})
	fixture.WantErr(t, err, store.ErrNestedCascade)
}

// Whichever of two concurrent creations comes first, no chain is made.
func TestConcurrentCreationsMakeNoChain(t *testing.T) {
	t.Parallel()
	for range 100 {
		s := fixture.OpenStore(t, fixture.NewTable(t))
		fixture.CreateEntity(t, s, store.Entity{ID: "org"})
		var both sync.WaitGroup
		both.Go(func() { _, _ = s.CreateEntity(t.Context(), store.Entity{ID: "proj", Parent: "org", Cascade: true}) })
		both.Go(func() { _, _ = s.CreateEntity(t.Context(), store.Entity{ID: "key", Parent: "proj", Cascade: true}) })
		both.Wait()
		if _, err := s.Entity(t.Context(), "proj"); err != nil {
			t.Fatal(err)
		}
		if key, err := s.Entity(t.Context(), "key"); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("a chain: %+v, %v", key, err)
		}
	}
}
