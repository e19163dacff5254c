package manifest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// withSwitch is a manifest of one level of an entity.
func withSwitch(tb testing.TB, level string) *manifest.Manifest {
	tb.Helper()
	return parse(tb, "name: a\nnamespace: default\nentities: {e: {resources: {gpt-4: {"+level+"}}}}\n")
}

const limited = "limits: {rpm: {rate: 10}}, "

var ofE = key("e", "gpt-4")

// switched checks the switch of the level, and whether its bucket is disabled.
func (w *world) switched(want store.Policy, disabled bool) {
	w.Helper()
	c, err := w.Store.Limits(w.Context(), ofE)
	if err == nil && c.Disabled.Policy != want {
		w.Errorf("the level's switch is %v, want %v", c.Disabled, want)
	}
	images, err := w.Store.Buckets(w.Context(), "e", "gpt-4", 1)
	w.Must(err)
	for _, img := range images {
		if img.Disabled != disabled {
			w.Errorf("the bucket is disabled: %t, want %t", img.Disabled, disabled)
		}
	}
}

// inWorld runs a test in virtual time, with a bucket in use.
func inWorld(t *testing.T, run func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.apply(withSwitch(t, limited), false, "create e/gpt-4")
		w.Lease(w.Limiter, testbed.Ask("e", "rpm", 1))
		run(w)
	})
}

// A switch that a file declares is set, kept, and removed when the file no longer declares it.
func TestAManifestHasSwitches(t *testing.T) {
	inWorld(t, func(w *world) {
		off := withSwitch(w, limited+"disabled: true")
		w.apply(off, false, "update e/gpt-4")
		w.switched(store.Yes, true)
		w.apply(off, false, "unchanged e/gpt-4")
		w.apply(withSwitch(w, limited+"disabled: false"), false, "update e/gpt-4")
		w.switched(store.No, false)
		w.apply(off, false, "update e/gpt-4")
		w.apply(withSwitch(w, limited), false, "update e/gpt-4")
		w.switched(store.Inherit, false)
		w.plan(withSwitch(w, limited), false, "unchanged e/gpt-4")
	})
}

// A switch that the manifest has not set stays: an edit of a file does not undo an operator.
func TestAnOperatorsSwitchStays(t *testing.T) {
	byHand := func(w *world, to dynamo.Switch) {
		w.Helper()
		_, err := w.Store.SetSwitch(w.Context(), ofE, to, nil)
		w.Must(err)
	}
	until := dynamo.Switch{Policy: store.Yes, Until: time.Date(2999, 1, 2, 3, 4, 5, 0, time.UTC)}
	inWorld(t, func(w *world) {
		byHand(w, until)
		w.apply(withSwitch(w, "limits: {rpm: {rate: 20}}"), false, "update e/gpt-4")
		w.switched(store.Yes, true)
		w.apply(&manifest.Manifest{Name: "a", Namespace: "default"}, true, "delete e/gpt-4")
		w.switched(store.Yes, true)
	})
	inWorld(t, func(w *world) {
		w.apply(withSwitch(w, limited+"disabled: true"), false, "update e/gpt-4")
		byHand(w, until)
		w.plan(withSwitch(w, limited+"disabled: true"), false, "update e/gpt-4!")
		w.apply(withSwitch(w, limited), false, "unchanged e/gpt-4!")
		w.switched(store.Yes, true)
	})
}

// A level that is pruned loses the switch that the manifest has set. A level may have a switch
// alone.
func TestPruningRemovesTheSwitchThatTheManifestHasSet(t *testing.T) {
	for _, level := range []string{limited + "disabled: true", "disabled: true"} {
		inWorld(t, func(w *world) {
			w.apply(withSwitch(w, level), false, "update e/gpt-4")
			w.switched(store.Yes, true)
			w.plan(withSwitch(w, level), false, "unchanged e/gpt-4")
			w.apply(&manifest.Manifest{Name: "a", Namespace: "default"}, true, "delete e/gpt-4")
			w.switched(store.Inherit, false)
		})
	}
}

// A switch that has ended declares nothing.
func TestADeclaredSwitchEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		end := time.Now().Add(time.Hour).UTC()
		m := withSwitch(w, limited+"disabled: true, until: '"+end.Format(time.RFC3339)+"'")
		w.apply(m, false, "update e/gpt-4")
		w.switched(store.Yes, true)
		exported, skipped, err := w.manager.Export(w.Context(), "a")
		if w.Must(err); len(skipped) > 0 || exported.Levels[ofE].Disabled.Until != end.Truncate(time.Second).UnixMilli() {
			w.Errorf("got %+v, skipped %v", exported, skipped)
		}
		time.Sleep(2 * time.Hour)
		w.plan(m, false, "unchanged e/gpt-4")
		_, err = w.Store.SetSwitch(w.Context(), ofE, dynamo.Switch{}, nil)
		w.Must(err)
		w.plan(m, false, "unchanged e/gpt-4")
		over := withSwitch(w, "disabled: true, until: '2000-01-01T00:00:00Z'")
		over.Levels[key("another", "gpt-4")] = over.Levels[ofE]
		w.plan(over, false, "unchanged another/gpt-4", "unchanged e/gpt-4")
		exported, _, err = w.manager.Export(w.Context(), "a")
		if w.Must(err); exported.Levels[ofE].Any() {
			w.Errorf("got %+v", exported)
		}
	})
}

// An apply that is interrupted between a level and its buckets is completed by the next one,
// whether it sets a switch or removes one.
func TestAnInterruptedSwitchIsResumed(t *testing.T) {
	inWorld(t, func(w *world) {
		failing := managerOf(w, w.OpenOn(faults.Wrap(w.API, faults.Before(func(c *faults.Call) error {
			if update, ok := c.Input.(*dynamodb.UpdateItemInput); ok && strings.Contains(*update.UpdateExpression, "disabled_until") {
				return errors.New("gone")
			}
			return nil
		}))))
		interrupted := func(m *manifest.Manifest) {
			w.Helper()
			r, err := failing.Apply(w.Context(), m, manifest.ApplyOptions{Prune: true})
			if w.Must(err); len(r.Failures()) != 1 || !errors.Is(r.Failures()[0].Err, store.ErrIncomplete) {
				w.Errorf("got %+v", r.Outcomes)
			}
		}
		off, none := withSwitch(w, limited+"disabled: true"), &manifest.Manifest{Name: "a", Namespace: "default"}
		interrupted(off)
		w.switched(store.Yes, false)
		w.apply(off, false, "resume e/gpt-4")
		w.switched(store.Yes, true)
		interrupted(withSwitch(w, limited))
		w.switched(store.Inherit, true)
		w.apply(withSwitch(w, limited), false, "resume e/gpt-4")
		w.switched(store.Inherit, false)
		w.apply(off, false, "update e/gpt-4")
		interrupted(none)
		w.switched(store.Inherit, true)
		w.apply(none, true, "delete e/gpt-4")
		w.switched(store.Inherit, false)
		w.owned(nil)
	})
}

// A file says a switch with its end in both encodings, and what is wrong with it.
func TestSwitchesInFiles(t *testing.T) {
	t.Parallel()
	m := withSwitch(t, "disabled: true, until: '2999-01-02T03:04:05.006Z'")
	text, err := m.YAML()
	if err != nil {
		t.Fatal(err)
	}
	object, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range [][]byte{text, object} {
		again, err := manifest.Parse("f", form)
		if diff := cmp.Diff(m, again); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	for level, want := range map[string]string{
		"disabled: lifted": "true or false", "until: '2999-01-02T03:04:05Z', limits: {rpm: {rate: 1}}": "give disabled: true or bypass", "disabled: true, until: friday": "2026-01-02T15:04:05Z",
		"disabled: true, until: 2999-01-02T03:04:05Z": "in quotes",
	} {
		if _, err := manifest.Parse("f", []byte("namespace: a\nresources: {r: {"+level+"}}\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", level, err, want)
		}
	}
	if _, err := manifest.Parse("f", []byte("namespace: a\nsystem: {disabled: true}\n")); err == nil || !strings.Contains(err.Error(), "unknown key") {
		t.Errorf("of the system: %v", err)
	}
}
