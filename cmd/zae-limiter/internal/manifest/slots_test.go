package manifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// slots fails the test unless a level has these slots.
func (w *world) slots(k store.ConfigKey, want ...store.SlotLimit) {
	w.Helper()
	c, err := w.Store.Limits(w.Context(), k)
	w.Must(err)
	if diff := cmp.Diff(want, c.Slots); diff != "" {
		w.Errorf("the slots of %s (-want +got):\n%s", k, diff)
	}
}

const slotsEverywhere = `name: a
namespace: default
system: {slots: {inflight: 8}}
resources: {gpt-4: {limits: {rpm: {rate: 10}}, slots: {inflight: 4, batch: 2}}}
entities: {e: {resources: {_default_: {slots: {inflight: 3}}, gpt-4: {slots: {inflight: 2}}}}}
`

// Slots of all four levels are created, kept, exported without loss, changed, and removed when the
// file no longer declares them. An operator's change since then is seen, and stays unless the file
// declares slots.
func TestAManifestHasSlots(t *testing.T) {
	inWorld(t, func(w *world) {
		all := parse(t, slotsEverywhere)
		w.apply(all, false, "create system", "create gpt-4", "create e/_default_", "update e/gpt-4")
		w.slots(key("", ""), store.SlotLimit{Name: "inflight", Slots: 8})
		w.slots(key("", "gpt-4"), store.SlotLimit{Name: "batch", Slots: 2}, store.SlotLimit{Name: "inflight", Slots: 4})
		w.slots(key("e", store.DefaultResource), store.SlotLimit{Name: "inflight", Slots: 3})
		w.slots(ofE, store.SlotLimit{Name: "inflight", Slots: 2})
		same := []string{"unchanged system", "unchanged gpt-4", "unchanged e/_default_", "unchanged e/gpt-4"}
		w.apply(all, false, same...)
		exported, skipped, err := w.manager.Export(w.Context(), "a")
		w.Must(err)
		again, err := exported.YAML()
		w.Must(err)
		if len(skipped) > 0 || !strings.Contains(string(again), "inflight: 8") {
			t.Errorf("skipped %v of\n%s", skipped, again)
		}
		w.apply(parse(t, string(again)), false, same...)

		fewer := parse(t, strings.Replace(strings.Replace(slotsEverywhere, ", batch: 2", "", 1), "system: {slots: {inflight: 8}}\n", "", 1))
		w.apply(fewer, true, "delete system", "update gpt-4", "unchanged e/_default_", "unchanged e/gpt-4")
		w.slots(key("", "gpt-4"), store.SlotLimit{Name: "inflight", Slots: 4})
		w.slots(key("", ""))

		w.Must(w.Store.SetSlots(w.Context(), ofE, []store.SlotLimit{{Name: "inflight", Slots: 20}}, "by hand"))
		w.plan(fewer, false, "unchanged gpt-4", "unchanged e/_default_", "update e/gpt-4!")
		without := parse(t, "name: a\nnamespace: default\nresources: {gpt-4: {limits: {rpm: {rate: 10}}}}\n")
		w.apply(without, true, "update gpt-4", "delete e/_default_", "delete e/gpt-4!")
		w.slots(key("", "gpt-4"))
		w.slots(ofE, store.SlotLimit{Name: "inflight", Slots: 20})
	})
}

// Errors in slots name their place.
func TestBadSlots(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"slots: {}":                     "give at least one limit of slots",
		"slots: {inflight: 0}":          "inflight",
		"slots: {inflight: many}":       "inflight",
		"slots: {inflight: 1000001}":    "inflight",
		"slots: {'no name': 1}":         "no name",
		"slots: 20":                     "slots",
		"slots: {inflight: {slots: 1}}": "inflight",

		"slots: {inflight: {slots: 1, mode: shadow}}": `slots.inflight.mode: invalid mode "shadow": slots are always enforced: give the number of inflight without a mode`,
	} {
		_, err := manifest.Parse("a.yaml", []byte("namespace: default\nresources: {gpt-4: {"+text+"}}\n"))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
