package storetest

import "github.com/zeroae/zae-limiter-go/store"

// The functions below are writes that come between an image and a write that was worked
// out on it.

func took(milli int64) func(*kit, *store.Image) {
	return func(k *kit, _ *store.Image) { k.mustTake(store.Amount{Limit: "rpm", Milli: milli}) }
}

func credited(milli int64) func(*kit, *store.Image) {
	return func(k *kit, seen *store.Image) { k.mustAdjust(seen, credits(milli)) }
}

// refilledBy is a refill, changed.
func refilledBy(change func(*store.Refill)) func(*kit, *store.Image) {
	return func(k *kit, seen *store.Image) {
		r := refill(seen)
		r.RefilledAt = seen.RefilledAt
		change(r)
		k.mustApply(k.Refill(k.Context(), r))
	}
}

// moved moves the stamp and changes nothing else.
func moved(by int64) func(*kit, *store.Image) {
	return refilledBy(func(r *store.Refill) { r.RefilledAt += by })
}

// resharded sets the number of shards to two and changes nothing else.
var resharded = refilledBy(func(r *store.Refill) { r.ShardCount = 2 })

// changed changes a limit and leaves the stamp.
func changed(c store.Change) func(*kit, *store.Image) {
	return refilledBy(func(r *store.Refill) { r.Changes = []store.Change{c} })
}

// lacking removes a limit.
func lacking(limit string) func(*kit, *store.Image) {
	return changed(store.Change{Limit: limit, Kind: store.RemoveLimit})
}
