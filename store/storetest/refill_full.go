package storetest

import (
	"github.com/zeroae/zae-limiter-go/store"
)

// fill is a refill of a full bucket. The bucket is full if its stamp is at most since
// and its balances are at least those of a new bucket. fill debits 7 tokens of rpm and
// a write.
func fill(seen *store.Image, since int64) *store.Refill {
	return &store.Refill{
		Bucket: seen.Bucket, Seen: seen, RefilledAt: seen.RefilledAt + later, FullSince: since,
		Writes: store.Change{Limit: hidden, Earned: writes.Capacity, Debit: milli, AtLeast: 0, AtMost: writes.Capacity, Params: writes},
		Changes: []store.Change{
			{Limit: "rpm", Earned: rpm.Capacity, Debit: 7 * milli, AtLeast: 50 * milli, AtMost: rpm.Capacity, Params: rpm},
			{Limit: "tpm", Earned: tpm.Capacity, AtLeast: 0, AtMost: tpm.Capacity, Params: tpm},
		},
	}
}

// filled is the image after fill.
func filled(img *store.Image) {
	img.RefilledAt += later
	img.Limits[0].Tokens = rpm.Capacity - 7*milli
	img.Limits[0].Consumed += 7 * milli
	img.Limits[1].Tokens = tpm.Capacity
	img.Writes.Tokens = writes.Capacity - milli
	img.Writes.Consumed += milli
}

// fills returns fills whose since is after milliseconds later than the stamp seen.
func fills(after int64) func(*store.Image) *store.Refill {
	return func(seen *store.Image) *store.Refill { return fill(seen, seen.RefilledAt+after) }
}

var fillTests = []test{
	afterRefill("fills and debits, whatever was held", nil, fills(100), filled),
	afterRefill("fills at the latest stamp", nil, fills(0), filled),
	afterRefill("refused: a stamp after the latest", nil, fills(-1), nil),
	afterRefill("fills although another refill came in between", moved(100), fills(100), func(i *store.Image) {
		filled(i)
		i.RefilledAt -= 100
	}),
	afterRefill("refused: another refill came too late", moved(101), fills(100), nil),
	afterRefill("fills although a credit came in between", credited(9*milli), fills(100), filled),
	afterRefill("refused: a take in between leaves less than implies that it is full", took(1), fills(100), nil),
	afterRefill("fills where the take in between is of a limit with room", func(k *kit, _ *store.Image) {
		k.mustTake(store.Amount{Limit: "tpm", Milli: 400 * milli})
	}, fills(100), filled),
	afterRefill("refused: the parameters have changed",
		changed(store.Change{Limit: "tpm", Kind: store.SetParams, Params: rpm, AtLeast: 0, AtMost: tpm.Capacity}), fills(100), nil),
	afterRefill("refused: a limit has gone", lacking("tpm"), fills(100), nil),
	afterRefill("fills and sets the expiry", nil, func(seen *store.Image) *store.Refill {
		r := fill(seen, seen.RefilledAt)
		r.Expiry = store.Expiry{Change: true, At: seen.RefilledAt/milli + 99}
		return r
	}, func(i *store.Image) {
		i.ExpiresAt = i.RefilledAt/milli + 99
		filled(i)
	}),
	{"refused: no bucket", func(k *kit) {
		out, err := k.Refill(k.Context(), fill(imageOf(k.newBucket()), k.now))
		k.refused(out, err, nil)
	}},
}
