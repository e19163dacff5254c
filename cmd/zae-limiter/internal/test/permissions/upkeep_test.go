package permissions_test

import (
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// tending has the calls of a keeper.
func tending(w *world) {
	w.family()
	w.acquire(w.Limiter, "key", 600)
	time.Sleep(5 * time.Minute)
	img := w.Images("key")[0]
	w.record("upkeep.Keeper.Replenish", always, func() {
		done, err := w.keeper().Replenish(w.Context(), img, upkeep.Demand{Amounts: []store.Amount{{Limit: "rph", Milli: 3_600_000}}})
		w.did(done, err)
	})
	img = w.Images("key")[0]
	w.record("upkeep.Keeper.Double", always, func() {
		done, err := w.keeper().Double(w.Context(), pressed(img), time.UnixMilli(img.RefilledAt))
		w.did(done, err)
	})
	time.Sleep(time.Minute)
	w.double("key")
	w.remove("key", 3)
	w.record("upkeep.Keeper.Mend", "a shard is missing", func() { w.Must(w.keeper().Mend(w.Context(), w.Images("key")[0].Bucket)) })
	w.record("upkeep.Keeper.Mend", "nothing is wrong", func() { w.Must(w.keeper().Mend(w.Context(), w.Images("key")[0].Bucket)) })
	var images []*store.Image
	w.record("upkeep.Keeper.Shards", always, func() {
		var err error
		images, err = w.keeper().Shards(w.Context(), img.Bucket)
		w.Must(err)
	})
	w.record("upkeep.Keeper.Merge", always, func() {
		done, err := w.keeper().Merge(w.Context(), images)
		w.did(done, err)
	})
	w.System(limiter.PerHour("rph", 1800))
	w.record("upkeep.Keeper.Configure", "the limits have changed", func() {
		done, err := w.keeper().Configure(w.Context(), img.Bucket)
		w.did(done, err)
	})
	w.record("upkeep.Keeper.Configure", "the limits are the same", func() {
		_, err := w.keeper().Configure(w.Context(), img.Bucket)
		w.Must(err)
	})
}

// did fails the test unless something was done.
func (w *world) did(done bool, err error) {
	w.Helper()
	w.Must(err)
	if !done {
		w.Error("nothing was done")
	}
}
