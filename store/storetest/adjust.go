package storetest

import (
	"math"

	"github.com/zeroae/zae-limiter-go/store"
)

// debits takes tokens at any balance.
func debits(limit string, tokens int64) store.Delta {
	return store.Delta{Limit: limit, Tokens: -tokens, Consumed: tokens, AtMost: math.MaxInt64}
}

// credits returns tokens of rpm.
func credits(tokens int64) store.Delta {
	return store.Delta{Limit: "rpm", Tokens: tokens, Consumed: -tokens, AtMost: rpm.Capacity - tokens}
}

// adjust writes deltas on the image seen, and checks the image after it. If want is
// nil, the bucket must be unchanged.
func (k *kit) adjust(seen, met *store.Image, want func(*store.Image), deltas ...store.Delta) {
	k.Helper()
	out, err := k.Adjust(k.Context(), &store.Adjust{Bucket: seen.Bucket, Seen: seen, Deltas: deltas})
	if want == nil {
		k.refused(out, err, met)
		return
	}
	k.applied(out, err, with(met, func(i *store.Image) { want(i); written(i) }))
}

var adjustTests = []test{
	{"a debt beyond what an image tells is told as that", func(k *kit) {
		const deepest, more = -8 * store.MaxTokens * milli, store.MaxTokens * milli
		c := k.newBucket()
		c.Limits[0].Tokens = deepest + 1
		img := k.create(c)
		for range 4 {
			out, err := k.Adjust(k.Context(), &store.Adjust{Bucket: theBucket, Seen: img, Deltas: []store.Delta{debits("rpm", more)}})
			img = with(img, func(i *store.Image) { debit(i, "rpm", more); i.Limits[0].Tokens = deepest; written(i) })
			k.applied(out, err, img)
		}
	}},
	adjusts("debits into debt", nil, func(i *store.Image) { debit(i, "rpm", 51*milli); debit(i, "tpm", 1) }, debits("rpm", 51*milli), debits("tpm", 1)),
	adjusts("debits deeper into debt, whatever was seen", func(k *kit, seen *store.Image) { k.mustAdjust(seen, debits("rpm", 80*milli)) },
		func(i *store.Image) { debit(i, "rpm", 80*milli) }, debits("rpm", 80*milli)),
	{"debits an expired bucket whose write limit is exhausted", func(k *kit) {
		c := k.newBucket()
		c.ExpiresAt, c.Writes.Tokens = k.now/milli-60, 0
		img := k.create(c)
		k.adjust(img, img, func(i *store.Image) { debit(i, "rpm", milli) }, debits("rpm", milli))
	}},
	adjusts("debits a balance that is at its bound", nil, func(i *store.Image) { debit(i, "rpm", milli) },
		store.Delta{Limit: "rpm", Tokens: -milli, Consumed: milli, AtMost: 50 * milli}),
	adjusts("refused: a debit, and the balance is above its bound", nil, nil, store.Delta{Limit: "rpm", Tokens: -milli, Consumed: milli, AtMost: 50*milli - 1}, debits("tpm", milli)),
	adjusts("pinned: debits and credits", nil, func(i *store.Image) { debit(i, "rpm", milli); debit(i, "tpm", -milli) },
		store.Delta{Limit: "rpm", Tokens: -milli, Consumed: milli, AtMost: 50 * milli, Pinned: true},
		store.Delta{Limit: "tpm", Tokens: milli, Consumed: -milli, AtMost: 500 * milli, Pinned: true}),
	adjusts("refused: a pinned debit, and a take came in between", took(1), nil,
		store.Delta{Limit: "rpm", Tokens: -milli, Consumed: milli, AtMost: 50 * milli, Pinned: true}),
	adjusts("refused: a pinned credit, and a take came in between", took(1), nil,
		store.Delta{Limit: "rpm", Tokens: milli, Consumed: -milli, AtMost: 50 * milli, Pinned: true}),
	adjusts("refused: pinned, and a credit came in between", credited(1), nil,
		store.Delta{Limit: "rpm", Tokens: -milli, Consumed: milli, AtMost: 50 * milli, Pinned: true}),
	adjusts("credits", nil, func(i *store.Image) { debit(i, "rpm", -20*milli) }, credits(20*milli)),
	adjusts("credits up to the capacity", nil, func(i *store.Image) { debit(i, "rpm", -50*milli) }, credits(50*milli)),
	adjusts("counts all of a credit of which part finds room", nil, func(i *store.Image) {
		i.Limits[0].Tokens += 50 * milli
		i.Limits[0].Consumed -= 70 * milli
	}, store.Delta{Limit: "rpm", Tokens: 50 * milli, Consumed: -70 * milli, AtMost: 50 * milli}),
	{"counts a credit that finds no room", func(k *kit) {
		c := k.newBucket()
		c.Limits[0].Tokens = rpm.Capacity
		img := k.create(c)
		k.adjust(img, img, func(i *store.Image) { i.Limits[0].Consumed -= 70 * milli },
			store.Delta{Limit: "rpm", Consumed: -70 * milli, AtMost: rpm.Capacity})
	}},
	adjusts("credits what was seen although a take came in between", took(milli), func(i *store.Image) { debit(i, "rpm", -50*milli) }, credits(50*milli)),
	adjusts("refused: a credit in between is a millitoken too much", credited(1), nil, credits(50*milli)),
	adjusts("refused: a credit has no room, and the debit beside it does not land", credited(1), nil, credits(50*milli), debits("tpm", milli)),
	reparameterized("refused: a credit, and the capacity has changed", store.Params{Capacity: 60 * milli, Amount: rpm.Amount, Period: rpm.Period},
		credits(5*milli), false),
	reparameterized("refused: a credit, and the capacity has been raised", store.Params{Capacity: 160 * milli, Amount: rpm.Amount, Period: rpm.Period},
		credits(5*milli), false),
	reparameterized("credits although the rate has changed", store.Params{Capacity: rpm.Capacity, Amount: 1, Period: 1},
		credits(5*milli), true),
	reparameterized("refused: a debit, and the capacity has changed", store.Params{Capacity: 60 * milli, Amount: rpm.Amount, Period: rpm.Period},
		debits("rpm", milli), false),
	reparameterized("refused: a debit, and the amount has changed", store.Params{Capacity: rpm.Capacity, Amount: rpm.Amount + 1, Period: rpm.Period},
		debits("rpm", milli), false),
	reparameterized("refused: a debit, and the period has changed", store.Params{Capacity: rpm.Capacity, Amount: rpm.Amount, Period: rpm.Period + 1},
		debits("rpm", milli), false),
	reparameterized("debits although another limit's parameters have changed", store.Params{Capacity: 1, Amount: 1, Period: 1},
		debits("tpm", milli), true),
	adjusts("refused: a debit, and the number of shards has changed", resharded, nil, debits("rpm", milli)),
	adjusts("refused: a credit, and the number of shards has changed", resharded, nil, credits(milli)),
	adjusts("refused: a credit, and the limit has gone", lacking("rpm"), nil, credits(5*milli)),
	adjusts("refused: a debit, and the limit has gone", lacking("rpm"), nil, debits("rpm", 5*milli), debits("tpm", milli)),
	{"refused: no bucket", func(k *kit) {
		seen := imageOf(k.newBucket())
		k.adjust(seen, nil, nil, debits("rpm", milli))
		k.adjust(seen, nil, nil, credits(milli))
	}},
}

// adjusts is an adjustment of a new bucket, after a write in between.
func adjusts(name string, between func(*kit, *store.Image), want func(*store.Image), deltas ...store.Delta) test {
	return test{name, func(k *kit) {
		seen, met := k.newAfter(between)
		k.adjust(seen, met, want, deltas...)
	}}
}

// reparameterized adjusts after a change of the parameters of rpm.
func reparameterized(name string, to store.Params, d store.Delta, admitted bool) test {
	want := func(i *store.Image) { debit(i, d.Limit, d.Consumed) }
	if !admitted {
		want = nil
	}
	return adjusts(name, changed(store.Change{Limit: "rpm", Kind: store.SetParams, AtLeast: 0, AtMost: rpm.Capacity, Params: to}), want, d)
}
