package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A second applier of a manifest finds the hold of the first. A crashed one's hold ends.
func TestTwoAppliersOfOneManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := levels("a", "r=10")
	var second error
	meanwhile := faults.Wrap(w.API, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		for _, k := range c.Keys() {
			if c.Writes() && k.PK == w.pk("r") {
				_, second = w.manager.Apply(ctx, levels("a", "r=11"), manifest.ApplyOptions{})
			}
		}
		return next(ctx)
	})
	if _, err := managerOf(t, w.OpenOn(meanwhile)).Apply(t.Context(), m, manifest.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if held, ok := errors.AsType[*manifest.HeldError](second); !ok || held.Name != "a" || !errors.Is(second, store.ErrConflict) {
		t.Errorf("the second got error %v", second)
	}
	w.holds("r", 10)
	w.plan(m, false, "unchanged r")
}

// Two manifests that claim a level at the same time: one gets it.
// The hold of an applier that stood still ends, and another one may have come and gone.
func TestAnApplierThatLostItsHoldToOneThatEndedSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lose := func(int, int) {
		w.Must(w.Store.ChangeManifest(t.Context(), "a", func(own *dynamo.ManifestRecord, _ []dynamo.ManifestRecord) error {
			own.Holder, own.HeldUntil = "", time.Time{}
			return nil
		}))
	}
	_, err := w.manager.Apply(t.Context(), levels("a", "r=1"), manifest.ApplyOptions{Progress: lose})
	const want = `another process took over manifest "a" and has ended: look at a new plan, and apply again`
	if !errors.Is(err, store.ErrConflict) || err.Error() != want {
		t.Errorf("got error %v", err)
	}
}

func TestTwoManifestsClaimOneLevelAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var once sync.Once
	meanwhile := faults.Wrap(w.API, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		if c.Op == faults.TransactWriteItems {
			once.Do(func() { w.apply(levels("b", "r=2"), false, "create r") }) //nolint:contextcheck // the test's
		}
		return next(ctx)
	})
	r, err := managerOf(t, w.OpenOn(meanwhile)).Apply(t.Context(), levels("a", "r=1", "s=1"), manifest.ApplyOptions{})
	if err != nil || len(r.Failures()) != 1 || r.Failures()[0].Key.Resource != "r" {
		t.Fatalf("got %+v, %v", r, err)
	}
	w.holds("r", 2)
	w.owned(map[string][]string{"a": {"s"}, "b": {"r"}})
}

func TestManyAppliersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wait sync.WaitGroup
	for i := range 8 {
		m := levels(fmt.Sprintf("m%d", i%4), fmt.Sprintf("r%d=%d", i%4, 1+i/4), "shared=7")
		wait.Go(func() {
			_, err := managerOf(t, w.Open(dynamo.Options{})).Apply(t.Context(), m, manifest.ApplyOptions{})
			if err != nil && !errors.Is(err, store.ErrConflict) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	records, err := w.Store.Manifests(t.Context())
	w.Must(err)
	var owners []string
	for _, r := range records {
		if _, ok := r.Levels[keyOf("shared")]; ok {
			owners = append(owners, r.Name)
		}
	}
	if len(owners) != 1 {
		t.Errorf("shared belongs to %v", owners)
	}
}

func TestAnApplyOfAPlanThatChangedAppliesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := levels("a", "r=10")
	p := w.plan(m, false, "create r")
	w.set("r", 5)
	if _, err := w.manager.Apply(t.Context(), m, manifest.ApplyOptions{Expected: p}); !errors.Is(err, manifest.ErrChanged) {
		t.Errorf("got error %v", err)
	}
	w.holds("r", 5)
	w.owned(nil)
}

// Otherwise the levels would stay in the table for ever: nobody finds what belongs to the
// ID of a purged namespace.
func TestAnApplyToANamespaceThatWasDeletedWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := levels("a", "r=10")
	p := w.plan(m, false, "create r")
	namespaces, err := admin.NewNamespaces(w.StoreOptions(dynamo.Options{}))
	w.Must(err)
	w.Must(namespaces.Delete(t.Context(), "default"))
	for _, again := range []bool{false, true} {
		if again {
			_, err := namespaces.Register(t.Context(), "default")
			w.Must(err)
		}
		before := w.Meter.Totals()
		if _, err := w.manager.Apply(t.Context(), m, manifest.ApplyOptions{Expected: p}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("apply, name registered again %v: got error %v", again, err)
		}
		if _, err := w.manager.Import(t.Context(), m, false); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("import, name registered again %v: got error %v", again, err)
		}
		if since := w.Meter.Totals().Sub(before); since.Sum().WCU != 0 {
			t.Errorf("writes: %v", since)
		}
	}
}
