package storetest

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// born is shard i of count of theBucket, with the given tokens of rpm.
func (k *kit) born(i, count int, tokens int64) store.Create {
	return store.Create{
		Bucket: store.Bucket{Entity: theBucket.Entity, Resource: theBucket.Resource, Shard: i}, Now: k.now, ShardCount: count,
		Limits: []store.NewLimit{holds("rpm", rpm, tokens)},
		Writes: holds(hidden, writes, writes.Capacity),
	}
}

// gives is a donor's write. It debits tokens of rpm, if the donor holds that many, and
// sets the donor's number of shards. The stamp stays.
func gives(seen *store.Image, tokens int64, count int) *store.Refill {
	r := refill(seen, bounded(-tokens, 0, tokens, rpm.Capacity))
	r.RefilledAt, r.ShardCount = seen.RefilledAt, count
	return r
}

// gave is the image of the donor after gives.
func gave(img *store.Image, tokens int64, count int) *store.Image {
	return with(img, func(i *store.Image) {
		earn(i, "rpm", -tokens)
		written(i)
		i.ShardCount = count
	})
}

// halves is the birth by which a shard of n becomes two of 2n.
func (k *kit) halves(seen *store.Image) *store.Birth {
	l, _ := seen.Limit("rpm")
	half := max(l.Tokens, 0) / 2
	return &store.Birth{
		Create: k.born(seen.Shard+seen.ShardCount, 2*seen.ShardCount, half),
		Donor:  gives(seen, half, 2*seen.ShardCount), Sibling: seen.Shard,
	}
}

// orphan is the birth of shard i among four, without a donor.
func (k *kit) orphan(i, sibling int) *store.Birth {
	return &store.Birth{Create: k.born(i, 4, 0), Sibling: sibling}
}

// bears checks that a birth takes place, and that the shards are then the one born and
// the others.
func (k *kit) bears(b *store.Birth, others ...*store.Image) {
	k.Helper()
	j, err := k.Bear(k.Context(), b)
	k.joint(j, err)
	k.stored(theBucket, inOrder(imageOf(&b.Create), others)...)
}

// inOrder inserts an image at its place among others.
func inOrder(img *store.Image, others []*store.Image) []*store.Image {
	i := 0
	for i < len(others) && others[i].Shard < img.Shard {
		i++
	}
	return slices.Insert(slices.Clone(others), i, img)
}

var bearTests = []test{
	{"splits a shard: what one gives, the other opens with", func(k *kit) {
		img := k.create(k.newBucket())
		k.bears(k.halves(img), gave(img, 25*milli, 2))
	}},
	{"splits one shard of several", func(k *kit) {
		s := k.split(2)
		k.bears(k.halves(s[1]), s[0], gave(s[1], 25*milli, 4))
	}},
	{"makes the shard as given", func(k *kit) {
		img := k.create(k.newBucket())
		b := k.halves(img)
		b.ExpiresAt = k.now/milli + 420
		b.Owner = store.Owner{Cascade: true, Parent: "project-1", Generation: 3, Incarnation: "0123456789abcdef"}
		b.Limits[0].Consumed, b.Writes.Consumed = 3*milli, milli
		b.Limits = append(b.Limits, holds("tpm", tpm, -7))
		k.bears(b, gave(img, 25*milli, 2))
	}},
	{"refills the donor as it gives", func(k *kit) {
		img := k.create(k.newBucket())
		b := k.halves(img)
		b.Donor = refill(img, bounded(20*milli-25*milli, 3*milli, 25*milli, 80*milli), keep("tpm", 7, 0))
		b.Donor.Writes = store.Change{Limit: hidden, Earned: milli, Debit: milli, AtLeast: 0, AtMost: writes.Capacity - milli}
		b.Donor.ShardCount = 2
		b.Donor.Expiry = store.Expiry{Change: true, At: k.now/milli + 9}
		k.bears(b, with(img, func(i *store.Image) {
			refilled(i)
			i.Writes.Tokens += milli
			earn(i, "rpm", -5*milli)
			debit(i, "rpm", 3*milli)
			earn(i, "tpm", 7)
			i.ShardCount, i.ExpiresAt = 2, k.now/milli+9
		}))
	}},
	{"a donor may keep its count, where a shard was lost", func(k *kit) {
		s := k.shards(map[int]int{0: 4, 1: 4, 3: 4})
		b := &store.Birth{Create: k.born(2, 4, 0), Donor: gives(s[0], 0, 0), Sibling: 0}
		k.bears(b, gave(s[0], 0, 4), s[1], s[2])
	}},
	{"shard 0 is born of its sibling", func(k *kit) {
		s := k.shards(map[int]int{1: 4, 2: 4})
		b := &store.Birth{Create: k.born(0, 4, 1), Donor: gives(s[1], 1, 0), Sibling: 2}
		k.bears(b, s[0], gave(s[1], 1, 4))
	}},
	{"a take in between does not disturb a split that leaves enough", func(k *kit) {
		img := k.create(k.newBucket())
		b := k.halves(img)
		met := k.mustTake(store.Amount{Limit: "rpm", Milli: 25 * milli})
		k.bears(b, gave(met, 25*milli, 2))
	}},
	{"refused: a take in between leaves a millitoken too little", func(k *kit) {
		img := k.create(k.newBucket())
		b := k.halves(img)
		met := k.mustTake(store.Amount{Limit: "rpm", Milli: 25*milli + 1})
		k.stillborn(b, []store.Refusal{notRefused, refusedBy(met)}, met)
	}},
	{"refused: the shard exists, and the donor gives nothing", func(k *kit) {
		s := k.shards(map[int]int{0: 2, 1: 2})
		b := &store.Birth{Create: k.born(1, 2, 0), Donor: gives(s[0], 0, 2), Sibling: 0}
		k.stillborn(b, []store.Refusal{refusedBy(s[1]), notRefused}, s...)
	}},
	{"refused: the donor has moved on", func(k *kit) {
		img := k.create(k.newBucket())
		met := k.mustApply(k.Refill(k.Context(), refill(img)))
		k.stillborn(k.halves(img), []store.Refusal{notRefused, refusedBy(met)}, met)
	}},
	{"refused: the donor knows of more shards already", func(k *kit) {
		img := k.create(k.newBucket())
		met := k.mustApply(k.Refill(k.Context(), gives(img, 0, 2)))
		k.stillborn(k.halves(img), []store.Refusal{notRefused, refusedBy(met)}, met)
	}},
	{"refused: there is no donor where one is named", func(k *kit) {
		k.stillborn(k.halves(imageOf(k.newBucket())), []store.Refusal{notRefused, refusedBy(nil)})
	}},
	{"refused: the same split again", func(k *kit) {
		img := k.create(k.newBucket())
		b := k.halves(img)
		k.bears(b, gave(img, 25*milli, 2))
		j, err := k.Bear(k.Context(), b)
		if err != nil || j.Applied {
			k.Errorf("split twice: %+v, %v", j, err)
		}
		k.stored(theBucket, gave(img, 25*milli, 2), imageOf(&b.Create))
	}},

	{"opens empty without a sibling", func(k *kit) {
		s := k.shards(map[int]int{0: 4, 2: 4})
		k.bears(k.orphan(1, 3), s...)
	}},
	{"shard 0 opens without a sibling", func(k *kit) {
		s := k.shards(map[int]int{1: 4, 3: 4})
		k.bears(k.orphan(0, 2), s...)
	}},
	{"refused: opens empty, and exists", func(k *kit) {
		s := k.shards(map[int]int{0: 4, 1: 4})
		k.stillborn(k.orphan(1, 3), []store.Refusal{refusedBy(s[1]), notRefused, notRefused}, s...)
	}},
	{"refused: opens empty, and there is a sibling", func(k *kit) {
		s := k.shards(map[int]int{0: 4, 3: 4})
		k.stillborn(k.orphan(1, 3), []store.Refusal{notRefused, refusedBy(s[1]), notRefused}, s...)
	}},
	{"refused: shard 0 opens empty, and there is a sibling", func(k *kit) {
		s := k.shards(map[int]int{2: 4})
		k.stillborn(k.orphan(0, 2), []store.Refusal{notRefused, refusedBy(s[0])}, s...)
	}},
	{"refused: opens empty, and shard 0 has fewer shards", func(k *kit) {
		s := k.shards(map[int]int{0: 2})
		k.stillborn(k.orphan(1, 3), []store.Refusal{notRefused, notRefused, refusedBy(s[0])}, s...)
	}},
	{"refused: opens empty, and shard 0 has more shards", func(k *kit) {
		s := k.shards(map[int]int{0: 8})
		k.stillborn(k.orphan(1, 3), []store.Refusal{notRefused, notRefused, refusedBy(s[0])}, s...)
	}},
	{"refused: opens empty, and there is no shard 0", func(k *kit) {
		s := k.shards(map[int]int{2: 4})
		k.stillborn(k.orphan(1, 3), []store.Refusal{notRefused, notRefused, refusedBy(nil)}, s...)
	}},

	{"invalid births", func(k *kit) {
		img := k.create(k.newBucket())
		for name, change := range map[string]func(*store.Birth){
			"the only shard":                func(b *store.Birth) { b.Shard, b.ShardCount, b.Sibling, b.Donor = 0, 1, 1, nil },
			"no count":                      func(b *store.Birth) { b.ShardCount = 0 },
			"a count beyond belief":         func(b *store.Birth) { b.ShardCount = 1025 },
			"a shard beyond the count":      func(b *store.Birth) { b.ShardCount = 2; b.Shard = 2 },
			"a negative shard":              func(b *store.Birth) { b.Shard = -1 },
			"its own sibling":               func(b *store.Birth) { b.Shard, b.Sibling, b.Donor.Shard = 1, 1, 1 },
			"a negative sibling":            func(b *store.Birth) { b.Sibling, b.Donor.Shard = -1, -1 },
			"a sibling beyond belief":       func(b *store.Birth) { b.Sibling, b.Donor = 1024, nil },
			"no donor, and shard 0 missing": func(b *store.Birth) { b.Donor = nil },
			"a donor that is no sibling":    func(b *store.Birth) { b.ShardCount, b.Sibling = 4, 3 },
			"a donor of another entity":     func(b *store.Birth) { b.Donor.Entity = "user-2" },
			"a donor of another resource":   func(b *store.Birth) { b.Donor.Resource = "gpt-4o" },
			"a donor that learns nonsense":  func(b *store.Birth) { b.Donor.ShardCount = 1025 },
		} {
			b := k.halves(img)
			change(b)
			k.invalid(name, errOf(k.Bear(k.Context(), b)))
		}
		k.stored(theBucket, img)
	}},
}

// stillborn checks that a birth is refused and that the shards stay as they are.
func (k *kit) stillborn(b *store.Birth, want []store.Refusal, shards ...*store.Image) {
	k.Helper()
	j, err := k.Bear(k.Context(), b)
	k.joint(j, err, want...)
	k.stored(theBucket, shards...)
}
