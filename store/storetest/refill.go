package storetest

import (
	"math"

	"github.com/zeroae/zae-limiter-go/store"
)

// A minute later, both limits of theBucket have earned their capacity. Each test says
// what a refill then does.
const later = 60_000

// refill is a write whose stamp is a minute after the image's. It debits the hidden
// write limit and changes nothing else.
func refill(seen *store.Image, changes ...store.Change) *store.Refill {
	return &store.Refill{
		Bucket: seen.Bucket, Seen: seen, RefilledAt: seen.RefilledAt + later, Changes: changes,
		Writes: store.Change{Limit: hidden, Earned: 0, Debit: milli, AtLeast: milli, AtMost: writes.Capacity},
	}
}

// refilled is the image after a refill that changed nothing.
func refilled(img *store.Image) {
	img.RefilledAt += later
	written(img)
}

// keep sets no bounds on the balance.
func keep(limit string, earned, debit int64) store.Change {
	return store.Change{Limit: limit, Earned: earned, Debit: debit, AtLeast: math.MinInt64, AtMost: math.MaxInt64}
}

// bounded moves rpm if its balance lies between two bounds.
func bounded(earned, debit, atLeast, atMost int64) store.Change {
	return store.Change{Limit: "rpm", Earned: earned, Debit: debit, AtLeast: atLeast, AtMost: atMost}
}

// earn credits a limit of the image with its accrual.
func earn(img *store.Image, limit string, tokens int64) {
	for i := range img.Limits {
		if l := &img.Limits[i]; l.Name == limit {
			l.Tokens += tokens
		}
	}
}

// newAfter makes a new bucket and writes to it in between. It returns the images before and
// after that.
func (k *kit) newAfter(between func(*kit, *store.Image)) (seen, met *store.Image) {
	k.Helper()
	seen = k.create(k.newBucket())
	if between == nil {
		return seen, seen
	}
	between(k, seen)
	images, err := k.Buckets(k.Context(), seen.Entity, seen.Resource, 1)
	if err != nil || len(images) != 1 {
		k.Fatalf("bucket: %v, %v", images, err)
	}
	return seen, images[0]
}

// afterRefill writes one refill to a new bucket, after a write in between, and checks
// the image after it. If want is nil, the bucket must be unchanged.
func afterRefill(name string, between func(*kit, *store.Image), write func(*store.Image) *store.Refill, want func(*store.Image)) test {
	return test{name, func(k *kit) {
		seen, met := k.newAfter(between)
		out, err := k.Refill(k.Context(), write(seen))
		if want == nil {
			k.refused(out, err, met)
			return
		}
		k.applied(out, err, with(met, want))
	}}
}

func refills(changes ...store.Change) func(*store.Image) *store.Refill {
	return func(seen *store.Image) *store.Refill { return refill(seen, changes...) }
}

// loosely is a refill that accepts any stamp.
func loosely(changes ...store.Change) func(*store.Image) *store.Refill {
	return func(seen *store.Image) *store.Refill {
		r := refill(seen, changes...)
		r.Loose = true
		for i := range r.Changes {
			s, _ := seen.Limit(r.Changes[i].Limit)
			r.Changes[i].Params = *s.Params
		}
		return r
	}
}

var refillTests = []test{
	afterRefill("moves the stamp, accrues, debits and counts", nil,
		refills(keep("rpm", 20*milli, 3*milli), keep("tpm", 7, 0)),
		func(i *store.Image) {
			refilled(i)
			earn(i, "rpm", 20*milli)
			debit(i, "rpm", 3*milli)
			earn(i, "tpm", 7)
		}),
	afterRefill("returns", nil, refills(keep("rpm", 20*milli, -3*milli)),
		func(i *store.Image) {
			refilled(i)
			earn(i, "rpm", 20*milli)
			debit(i, "rpm", -3*milli)
		}),
	afterRefill("leaves limits without a change alone", nil, refills(keep("rpm", milli, 0)),
		func(i *store.Image) { refilled(i); earn(i, "rpm", milli) }),
	afterRefill("may keep the stamp", nil, func(seen *store.Image) *store.Refill {
		r := refill(seen, keep("rpm", 0, milli))
		r.RefilledAt = seen.RefilledAt
		return r
	}, func(i *store.Image) { debit(i, "rpm", milli); written(i) }),
	afterRefill("may move the stamp back", took(milli), func(seen *store.Image) *store.Refill {
		r := refill(seen, bounded(-20*milli, 0, math.MinInt64, 50*milli))
		r.RefilledAt = seen.RefilledAt - later
		return r
	}, func(i *store.Image) { i.RefilledAt -= later; written(i); earn(i, "rpm", -20*milli) }),
	afterRefill("refused: may move the stamp back, and it has moved", moved(1), func(seen *store.Image) *store.Refill {
		r := refill(seen)
		r.RefilledAt = seen.RefilledAt - later
		return r
	}, nil),
	afterRefill("accrues the hidden limit", nil, func(seen *store.Image) *store.Refill {
		r := refill(seen)
		r.Writes = store.Change{Limit: hidden, Earned: milli, Debit: milli, AtLeast: 0, AtMost: writes.Capacity - milli}
		return r
	}, func(i *store.Image) {
		refilled(i)
		i.Writes.Tokens += milli
	}),
	afterRefill("refused: the hidden limit is out of its bounds", nil, func(seen *store.Image) *store.Refill {
		r := refill(seen)
		r.Writes.AtLeast = seen.Writes.Tokens + 1
		return r
	}, nil),
	afterRefill("refused: the stamp has moved", moved(1), refills(keep("rpm", milli, 0)), nil),
	{"refused: no bucket", func(k *kit) {
		out, err := k.Refill(k.Context(), refill(imageOf(k.newBucket()), keep("rpm", milli, 0)))
		k.refused(out, err, nil)
	}},

	// Takes and credits move balances and leave the stamp.
	afterRefill("pinned: nothing in between", nil, refills(bounded(50*milli, 0, 50*milli, 50*milli)),
		func(i *store.Image) { refilled(i); earn(i, "rpm", 50*milli) }),
	afterRefill("refused: pinned, and a take in between", took(1), refills(bounded(50*milli, 0, 50*milli, 50*milli)), nil),
	afterRefill("refused: pinned, and a credit in between", credited(1), refills(bounded(50*milli, 0, 50*milli, 50*milli)), nil),
	afterRefill("bounded: a take in between leaves just enough", took(30*milli), refills(bounded(10*milli, 30*milli, 20*milli, 90*milli)),
		func(i *store.Image) {
			refilled(i)
			earn(i, "rpm", 10*milli)
			debit(i, "rpm", 30*milli)
		}),
	afterRefill("refused: a take in between leaves a millitoken too little", took(30*milli+1),
		refills(bounded(10*milli, 30*milli, 20*milli, 90*milli)), nil),
	afterRefill("bounded: a credit in between just fits", credited(40*milli), refills(bounded(10*milli, 0, math.MinInt64, 90*milli)),
		func(i *store.Image) { refilled(i); earn(i, "rpm", 10*milli) }),
	afterRefill("refused: a credit in between is a millitoken too much", credited(40*milli+1),
		refills(bounded(10*milli, 0, math.MinInt64, 90*milli)), nil),
	afterRefill("bounded above: debt in between is no obstacle", func(k *kit, seen *store.Image) {
		k.mustAdjust(seen, debits("rpm", 500*milli))
	}, refills(bounded(10*milli, 0, math.MinInt64, 90*milli)),
		func(i *store.Image) { refilled(i); earn(i, "rpm", 10*milli) }),
	afterRefill("refused: one limit of two is out of its bounds, and neither moves", took(milli),
		refills(bounded(milli, 0, 50*milli, 50*milli), keep("tpm", milli, 0)), nil),

	afterRefill("loose: another refill came in between", moved(later), loosely(keep("rpm", 0, milli)),
		func(i *store.Image) { debit(i, "rpm", milli); written(i) }),
	afterRefill("loose: moves an older stamp", nil, loosely(keep("rpm", 0, milli)),
		func(i *store.Image) { refilled(i); debit(i, "rpm", milli) }),
	afterRefill("refused: loose, and the stamp is later", moved(later+1), loosely(keep("rpm", 0, milli)), nil),
	afterRefill("refused: loose, and out of bounds", moved(1), loosely(bounded(0, 51*milli, 51*milli, rpm.Capacity)), nil),
	{"loose and locked refills of the same limits are not taken for one another", func(k *kit) {
		img := k.create(k.newBucket())
		for range 2 {
			moved(1)(k, img)
			met := with(img, func(i *store.Image) { written(i); i.RefilledAt++ })
			out, err := k.Refill(k.Context(), refill(img, keep("rpm", 0, milli)))
			k.refused(out, err, met)
			out, err = k.Refill(k.Context(), loosely(keep("rpm", 0, milli))(img))
			k.applied(out, err, with(met, func(i *store.Image) {
				i.RefilledAt = img.RefilledAt + later
				debit(i, "rpm", milli)
				written(i)
			}))
			img = out.Image
		}
	}},
}
