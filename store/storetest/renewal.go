package storetest

import (
	"math"

	"github.com/zeroae/zae-limiter-go/store"
)

// quotaOf are the parameters of a quota of 100 tokens.
func (k *kit) quotaOf(words string) store.Params {
	k.Helper()
	r, err := store.ParseRenewal(words, "Europe/Berlin")
	if err != nil {
		k.Fatal(err)
	}
	return store.Limit{Capacity: 100, Renews: r}.Params()
}

// newQuota makes theBucket with rpm a quota, of which 50 are left.
func (k *kit) newQuota() *store.Image {
	k.Helper()
	c := k.newBucket()
	c.Limits[0].Params = k.quotaOf("day")
	c.ValidUntil = c.Limits[0].Renewal.Next(k.now)
	return k.create(c)
}

// edit gives rpm other parameters, and the item the end of their validity.
func (k *kit) edit(img *store.Image, p store.Params) *store.Image {
	k.Helper()
	r := refill(img, store.Change{Limit: "rpm", Kind: store.SetParams, Params: p, AtLeast: math.MinInt64, AtMost: math.MaxInt64})
	r.Validity.Change = true
	if p.Renewal != nil {
		r.Validity.Until = p.Renewal.Next(r.RefilledAt)
	}
	out, err := k.Refill(k.Context(), r)
	k.applied(out, err, with(img, func(i *store.Image) {
		refilled(i)
		i.Limits[0].Params = new(p)
		i.ValidUntil, i.HasValidUntil = r.Validity.Until, r.Validity.Until != 0
	}))
	return out.Image
}

// renewalTests are what a store does for quotas.
var renewalTests = []test{
	{"makes a bucket with quotas, valid until one renews", func(k *kit) { k.newQuota() }},
	{"takes until the item's parameters lapse, and not then", func(k *kit) {
		img := k.newQuota()
		k.now = img.ValidUntil - 1
		k.mustTake(store.Amount{Limit: "rpm", Milli: milli})
		k.now++
		out, err := k.take(store.Amount{Limit: "rpm", Milli: milli})
		k.refused(out, err, with(img, func(i *store.Image) { debit(i, "rpm", milli); written(i) }))
	}},
	{"sets, leaves and removes the end of validity", func(k *kit) {
		img := k.newQuota()
		for _, v := range []store.Validity{{Change: true, Until: k.now + 7}, {}, {Change: true, Until: k.now + 9}, {Change: true}, {}} {
			r := refill(img)
			r.Validity = v
			want := with(img, refilled)
			if v.Change {
				want.ValidUntil, want.HasValidUntil = v.Until, v.Until != 0
			}
			out, err := k.Refill(k.Context(), r)
			k.applied(out, err, want)
			img = out.Image
		}
	}},
	{"refused: a refill, and the end of validity has changed", func(k *kit) {
		seen := k.newQuota()
		met := k.mustApply(k.Refill(k.Context(), func() *store.Refill {
			r := refill(seen)
			r.RefilledAt, r.Validity = seen.RefilledAt, store.Validity{Change: true, Until: k.now + 7}
			return r
		}()))
		out, err := k.Refill(k.Context(), refill(seen))
		k.refused(out, err, met)
	}},
	{"refused: loose, and the quota follows another calendar, or carries something else", func(k *kit) {
		day := k.quotaOf("day")
		year, rolls, owes := k.quotaOf("day;0 0 1 1 *"), day, day // their next periods begin at one instant
		rolls.Carries, owes.Carries = store.Carry{Rollover: 100 * milli}, store.Carry{Debt: true}
		img := k.newQuota()
		for _, next := range []store.Params{year, rolls, owes, day} {
			met := k.edit(img, next)
			out, err := k.Refill(k.Context(), loosely(keep("rpm", 0, milli))(img))
			k.refused(out, err, met)
			img = k.mustApply(k.Refill(k.Context(), loosely(keep("rpm", 0, milli))(met)))
		}
	}},
	{"makes a rate a quota, another one, and a rate again", func(k *kit) {
		img := k.create(k.newBucket())
		for _, p := range []store.Params{k.quotaOf("day"), k.quotaOf("month from last day"), rpm, k.quotaOf("0 9 * * mon;month"), k.quotaOf("day"), rpm} {
			img = k.edit(img, p)
		}
	}},
	{"makes two rates quotas at once", func(k *kit) {
		img := k.create(k.newBucket())
		day, month := k.quotaOf("day"), k.quotaOf("month")
		r := refill(img, store.Change{Limit: "rpm", Kind: store.SetParams, Params: day, AtMost: rpm.Capacity}, store.Change{Limit: "tpm", Kind: store.SetParams, Params: month, AtMost: tpm.Capacity})
		out, err := k.Refill(k.Context(), r)
		k.applied(out, err, with(img, func(i *store.Image) { refilled(i); i.Limits[0].Params, i.Limits[1].Params = new(day), new(month) }))
	}},
	{"adds and removes a quota", func(k *kit) {
		img := k.create(k.newBucket())
		day := k.quotaOf("day")
		img = k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rpd", Kind: store.AddLimit, Params: day, Earned: 9})))
		if s, _ := img.Limit("rpd"); *s.Params != day || s.Tokens != 9 {
			k.Errorf("added %+v", s)
		}
		img = k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rpd", Kind: store.RemoveLimit})))
		img = k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rpd", Kind: store.AddLimit, Params: rpm, Earned: 9})))
		if s, _ := img.Limit("rpd"); *s.Params != rpm {
			k.Errorf("added again as a rate: %+v", s)
		}
	}},
	{"a write that renews a quota without a grant changes nothing else", func(k *kit) {
		img := k.newQuota()
		c := bounded(50*milli, 0, 50*milli, 50*milli)
		c.Renews = true
		out, err := k.Refill(k.Context(), refill(img, c))
		k.applied(out, err, with(img, func(i *store.Image) { refilled(i); earn(i, "rpm", 50*milli) }))
	}},
	{"credits an item whose stamp is of the period, and no other", func(k *kit) {
		img := k.newQuota()
		for _, before := range []int64{img.RefilledAt - 1, img.RefilledAt} {
			out, err := k.Adjust(k.Context(), &store.Adjust{Bucket: theBucket, Seen: img, Deltas: []store.Delta{credits(milli)}, Before: before})
			k.refused(out, err, img)
		}
		ahead := with(img, func(i *store.Image) { i.RefilledAt++ })
		out, err := k.Adjust(k.Context(), &store.Adjust{Bucket: theBucket, Seen: ahead, Deltas: []store.Delta{credits(milli)}, Before: img.RefilledAt + 2})
		k.refused(out, err, img)
		out, err = k.Adjust(k.Context(), &store.Adjust{Bucket: theBucket, Seen: img, Deltas: []store.Delta{credits(milli)}, Before: img.RefilledAt + 1})
		k.applied(out, err, with(img, func(i *store.Image) { debit(i, "rpm", -milli); written(i) }))
	}},
	{"splits a shard with a quota, and merges it again", func(k *kit) {
		img := k.newQuota()
		quota := img.Limits[0].Params
		b := k.halves(img)
		b.Limits[0].Params, b.ValidUntil, b.Donor.Changes[0].Renews = *quota, img.ValidUntil, true
		k.bears(b, gave(img, 25*milli, 2))
		shards, err := k.Buckets(k.Context(), theBucket.Entity, theBucket.Resource, 2)
		if err != nil {
			k.Fatal(err)
		}
		other := with(shards[1], func(i *store.Image) { i.ValidUntil++ })
		k.apart(joins(shards[0], other), []store.Refusal{{}, {Refused: true, Image: shards[1]}}, shards...)
		pairs := halved(shards)
		pairs[0].Survivor.Changes[0].Renews = true
		k.merges(pairs, joined(shards[0], shards[1]))
	}},
}
