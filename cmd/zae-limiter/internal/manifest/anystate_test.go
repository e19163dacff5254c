package manifest_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Names that YAML reads as something else than text if nothing quotes them, and others.
var (
	oddEntities  = []string{"123", "1.5", "1e3", "0x10", "0o7", "010", "2026-01-02", "12:30:45", "null", "true", "no", "y", "user@example.com", "a:", "A", "a"}
	oddResources = []string{"null", "Null", "true", "FALSE", "yes", "off", "n", "e1", "gpt-4", "openai/gpt-4", "a:b", "a:", "a.b", "A", "a"}
	oddLimits    = []string{"null", "yes", "rpm", "a.b", "a-b", "a_b", "E1", "capacity"}
)

// The manifest that an export writes, in both encodings, declares what is in the table,
// whatever that is: a plan of it has no changes, and applied, it writes no level.
func TestAnExportOfAnyStatePlansNoChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		want := map[store.ConfigKey]manifest.Level{}
		for key, limits := range rapid.MapOf(anyKey(), anyLimits()).Draw(r, "levels") {
			w.Must(w.Store.SetLimits(w.Context(), key, limits))
			want[key] = manifest.Level{Limits: limits}
		}
		if outage := rapid.SampledFrom([]store.OnUnavailable{"", store.Block, store.Allow}).Draw(r, "on_unavailable"); outage != "" {
			system := manifest.Level{Limits: want[store.ConfigKey{}].Limits, OnUnavailable: outage}
			w.Must(w.Store.SetSystem(w.Context(), system.Limits, outage))
			want[store.ConfigKey{}] = system
		}
		for key := range rapid.MapOf(anyKey(), rapid.Just(true)).Draw(r, "switches") {
			to := dynamo.Switch{Policy: rapid.SampledFrom([]store.Policy{store.No, store.Inherit}).Draw(r, "policy")}
			if key == (store.ConfigKey{}) {
				continue
			}
			if to.Policy != store.Inherit && rapid.Bool().Draw(r, "ends") {
				to.Until = time.UnixMilli(time.Now().Add(time.Hour).UnixMilli())
			}
			_, err := w.Store.SetSwitch(w.Context(), key, to, nil)
			w.Must(err)
			if l := want[key]; to.Policy != store.Inherit {
				l.Disabled.Policy = to.Policy
				if !to.Until.IsZero() {
					l.Disabled.Until = to.Until.UnixMilli()
				}
				want[key] = l
			}
		}
		m, skipped, err := w.manager.Export(w.Context(), "a")
		if err != nil || len(skipped) > 0 {
			r.Fatalf("skipped %v, error %v", skipped, err)
		}
		if diff := gocmp.Diff(want, m.Levels); diff != "" {
			r.Fatalf("levels (-set +exported):\n%s", diff)
		}
		yaml, err := m.YAML()
		w.Must(err)
		json, err := m.MarshalJSON()
		w.Must(err)
		for form, text := range map[string][]byte{"YAML": yaml, "JSON": json} {
			again, err := manifest.Parse(form, text)
			if err != nil {
				r.Fatalf("%v\n%s", err, text)
			}
			if diff := gocmp.Diff(m, again); diff != "" {
				r.Fatalf("%s (-exported +parsed):\n%s\n%s", form, diff, text)
			}
		}
		p, err := w.manager.Plan(w.Context(), m, true)
		if err != nil || p.HasChanges() {
			r.Fatalf("the plan has %v, error %v\n%s", actions(p.Changes), err, yaml)
		}
	})
}

// anyKey is the system, a resource, or an entity with a resource or without.
func anyKey() *rapid.Generator[store.ConfigKey] {
	return rapid.Custom(func(r *rapid.T) store.ConfigKey {
		k := store.ConfigKey{Resource: rapid.SampledFrom(append([]string{""}, oddResources...)).Draw(r, "resource")}
		if rapid.Bool().Draw(r, "of an entity") {
			k.Entity, k.Resource = rapid.SampledFrom(oddEntities).Draw(r, "entity"), cmp.Or(k.Resource, store.DefaultResource)
		}
		return k
	})
}

// anyLimits are one to three limits.
func anyLimits() *rapid.Generator[[]store.Limit] {
	const most, longest = 1_000_000_000_000_000, 1_000_000_000
	return rapid.Map(rapid.MapOfN(rapid.SampledFrom(oddLimits), rapid.Custom(func(r *rapid.T) store.Limit {
		amount := rapid.Int64Range(1, most).Draw(r, "amount")
		l := store.Limit{Capacity: amount, Amount: amount, Period: time.Duration(rapid.Int64Range(1, longest).Draw(r, "seconds")) * time.Second}
		if rapid.Bool().Draw(r, "burst") {
			l.Capacity = rapid.Int64Range(1, most).Draw(r, "capacity")
		}
		return l
	}), 1, 3), func(by map[string]store.Limit) (limits []store.Limit) { //nolint:mnd // see above
		for name, l := range by {
			l.Name = name
			limits = append(limits, l)
		}
		slices.SortFunc(limits, func(a, b store.Limit) int { return cmp.Compare(a.Name, b.Name) })
		return limits
	})
}
