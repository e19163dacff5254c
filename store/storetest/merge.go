package storetest

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/store"
)

// joins is the merge of two shards of 2n into one of n, which takes over all rpm that
// the other one holds. The stamp stays.
func joins(survivor, retired *store.Image) *store.Pair {
	l, _ := retired.Limit("rpm")
	p := &store.Pair{Survivor: refill(survivor, bounded(l.Tokens, 0, 0, rpm.Capacity)), Retired: retired}
	p.Survivor.RefilledAt, p.Survivor.ShardCount = survivor.RefilledAt, survivor.ShardCount/2
	for _, l := range retired.Limits {
		p.AtLeast = append(p.AtLeast, l.Tokens)
	}
	return p
}

// joined is the image of the survivor after joins.
func joined(survivor, retired *store.Image) *store.Image {
	return with(survivor, func(i *store.Image) {
		l, _ := retired.Limit("rpm")
		earn(i, "rpm", l.Tokens)
		written(i)
		i.ShardCount /= 2
	})
}

// halved are the merges of all shards of a bucket.
func halved(s []*store.Image) (pairs []*store.Pair) {
	for i := range len(s) / 2 {
		pairs = append(pairs, joins(s[i], s[i+len(s)/2]))
	}
	return pairs
}

// merges checks that pairs are merged, and that the shards are then those given.
func (k *kit) merges(pairs []*store.Pair, want ...*store.Image) {
	k.Helper()
	j, err := k.Merge(k.Context(), pairs)
	k.joint(j, err)
	k.stored(theBucket, want...)
}

// apart checks that a merge of the only pair is refused, and that the shards stay as
// they are.
func (k *kit) apart(p *store.Pair, want []store.Refusal, shards ...*store.Image) {
	k.Helper()
	j, err := k.Merge(k.Context(), []*store.Pair{p})
	k.joint(j, err, want...)
	k.stored(theBucket, shards...)
}

// An encounter is a write to a shard that races with a merge.
type encounter struct {
	name  string
	write func(*kit, *store.Image) *store.Image
}

var encounters = []encounter{
	{"was refilled", func(k *kit, img *store.Image) *store.Image {
		return k.mustApply(k.Refill(k.Context(), refill(img)))
	}},
	{"learnt of more shards", func(k *kit, img *store.Image) *store.Image {
		return k.mustApply(k.Refill(k.Context(), gives(img, 0, 2*img.ShardCount)))
	}},
	{"got other parameters", func(k *kit, img *store.Image) *store.Image {
		more := rpm
		more.Capacity *= 2
		r := refill(img, store.Change{Limit: "rpm", Kind: store.SetParams, AtLeast: 0, AtMost: rpm.Capacity, Params: more})
		return k.mustApply(k.Refill(k.Context(), r))
	}},
	{"got another limit", func(k *kit, img *store.Image) *store.Image {
		return k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rps", Kind: store.AddLimit, Params: rpm})))
	}},
}

// takeFrom debits rpm of a shard and returns the shard's image after it.
func (k *kit) takeFrom(img *store.Image, tokens int64) *store.Image {
	k.Helper()
	return k.mustApply(k.Take(k.Context(), &store.Take{Bucket: img.Bucket, Now: k.now, Debits: debitsOf(store.Amount{Limit: "rpm", Milli: tokens})}))
}

// giveTo returns rpm to a shard.
func (k *kit) giveTo(img *store.Image, tokens int64) *store.Image {
	k.Helper()
	return k.mustApply(k.Adjust(k.Context(), &store.Adjust{Bucket: img.Bucket, Seen: img, Deltas: []store.Delta{credits(tokens)}}))
}

// shadowed makes shards whose rpm is in shadow.
func (k *kit) shadowed(count int) (images []*store.Image) {
	k.Helper()
	for shard := range count {
		c := k.newBucket()
		c.Shard, c.ShardCount = shard, count
		c.Limits[0].SoftUntil, c.Limits[0].Mode = k.now+30_000, store.Shadow
		images = append(images, k.mustApply(k.Create(k.Context(), c)))
	}
	return images
}

// notes counts tokens of rpm that the limit would have refused.
func (k *kit) notes(img *store.Image, tokens int64) *store.Image {
	k.Helper()
	d := store.Debit{Amount: store.Amount{Limit: "rpm", Milli: tokens}, AtMost: math.MaxInt64, Soft: true, Counts: true, Shadows: true, AtLeast: math.MinInt64}
	return k.mustApply(k.Take(k.Context(), &store.Take{Bucket: img.Bucket, Now: k.now, Debits: []store.Debit{d}}))
}

var mergeTests = []test{
	{"makes one shard of two: it holds what both held", func(k *kit) {
		s := k.split(2)
		k.merges(halved(s), joined(s[0], s[1]))
	}},
	{"makes 16 shards of 32", func(k *kit) {
		s := k.split(32)
		var want []*store.Image
		for i := range 16 {
			want = append(want, joined(s[i], s[i+16]))
		}
		k.merges(halved(s), want...)
	}},
	{"merges one pair of several", func(k *kit) {
		s := k.split(4)
		k.merges(halved(s)[1:], s[0], joined(s[1], s[3]), s[2])
	}},
	{"refills the survivor as it takes over", func(k *kit) {
		s := k.split(2)
		p := joins(s[0], s[1])
		p.Survivor.RefilledAt += later
		p.Survivor.Changes = []store.Change{bounded(-7, 0, 50*milli, 50*milli), keep("tpm", 9, 0)}
		p.Survivor.Expiry = store.Expiry{Change: true, At: k.now/milli + 9}
		k.merges([]*store.Pair{p}, with(s[0], func(i *store.Image) {
			refilled(i)
			earn(i, "rpm", -7)
			earn(i, "tpm", 9)
			i.ShardCount, i.ExpiresAt = 1, k.now/milli+9
		}))
	}},
	{"a take off either in between does not disturb a merge that allows for it", func(k *kit) {
		s := k.split(2)
		p := joins(s[0], s[1])
		p.AtLeast[0] -= 5 * milli
		p.Survivor.Changes[0].Earned -= 5 * milli
		met := k.takeFrom(s[0], milli)
		k.takeFrom(s[1], 5*milli)
		k.merges([]*store.Pair{p}, with(met, func(i *store.Image) {
			earn(i, "rpm", 45*milli)
			written(i)
			i.ShardCount = 1
		}))
	}},
	{"a debt is taken over", func(k *kit) {
		s := k.split(2)
		owes := k.mustAdjust(s[1], debits("rpm", 70*milli))
		k.merges(halved([]*store.Image{s[0], owes}), joined(s[0], owes))
	}},
	{"refused: the retired holds a millitoken less than it must", func(k *kit) {
		s := k.split(2)
		p := joins(s[0], s[1])
		p.AtLeast[0] -= 5*milli - 1
		met := k.takeFrom(s[1], 5*milli)
		k.apart(p, []store.Refusal{notRefused, refusedBy(met)}, s[0], met)
	}},
	{"refused: something was returned to the retired", func(k *kit) {
		s := k.split(2)
		met := k.giveTo(s[1], 1)
		k.apart(joins(s[0], s[1]), []store.Refusal{notRefused, refusedBy(met)}, s[0], met)
	}},
	{"refused: a limit of the retired notes more in shadow than it had", func(k *kit) {
		s := k.shadowed(2)
		met := k.notes(s[1], 3*milli)
		k.apart(joins(s[0], s[1]), []store.Refusal{notRefused, refusedBy(met)}, s[0], met)
		again := k.notes(met, milli)
		k.apart(joins(s[0], met), []store.Refusal{notRefused, refusedBy(again)}, s[0], again)
	}},
	{"takes over what the retired has noted in shadow", func(k *kit) {
		s := k.shadowed(2)
		met, stays := k.notes(s[1], 3*milli), k.notes(s[0], milli)
		p := joins(stays, met)
		p.Survivor.Changes[0].Shadowed = 3 * milli
		k.merges([]*store.Pair{p}, with(joined(stays, met), func(i *store.Image) {
			i.Limits[0].Extra.Shadowed += 3 * milli
		}))
	}},
	{"refused: one of them", func(k *kit) {
		for i, m := range encounters {
			for _, who := range []int{0, 1} {
				entity := []string{"survivor", "retired"}[who]
				b := store.Bucket{Entity: entity, Resource: theBucket.Resource + "-" + string(rune('a'+i))}
				s := k.splitOf(b, 2)
				met := m.write(k, s[who])
				want := []store.Refusal{notRefused, notRefused}
				want[who] = refusedBy(met)
				j, err := k.Merge(k.Context(), halved(s))
				k.joint(j, err, want...)
				after := slices.Clone(s)
				after[who] = met
				k.stored(b, after...)
			}
		}
	}},
	{"refused: there is no survivor", func(k *kit) {
		s := k.shards(map[int]int{1: 2})
		c := k.newBucket()
		c.ShardCount = 2
		k.apart(joins(imageOf(c), s[0]), []store.Refusal{refusedBy(nil), notRefused}, s[0])
	}},
	{"refused: there is no shard to retire", func(k *kit) {
		s := k.shards(map[int]int{0: 2})
		c := k.newBucket()
		c.Shard, c.ShardCount = 1, 2
		k.apart(joins(s[0], imageOf(c)), []store.Refusal{notRefused, refusedBy(nil)}, s[0])
	}},
	{"refused: the same merge again", func(k *kit) {
		s := k.split(2)
		k.merges(halved(s), joined(s[0], s[1]))
		j, err := k.Merge(k.Context(), halved(s))
		if err != nil || j.Applied || len(j.Refusals) != 2 || !j.Refusals[0].Refused && !j.Refusals[1].Refused {
			k.Errorf("merged twice: %+v, %v", j, err)
		}
		k.stored(theBucket, joined(s[0], s[1]))
	}},
	{"refused: the last of 16 pairs, and the others are left alone", func(k *kit) {
		s := k.split(32)
		pairs := halved(s)
		s[31] = k.takeFrom(s[31], 1)
		want := make([]store.Refusal, 32)
		want[31] = refusedBy(s[31])
		j, err := k.Merge(k.Context(), pairs)
		k.joint(j, err, want...)
		k.stored(theBucket, s...)
	}},
	{"what is merged can be split again, and merged", func(k *kit) {
		img := k.create(k.newBucket())
		for range 3 {
			b := k.halves(img)
			donor := gave(img, 25*milli, 2)
			k.bears(b, donor)
			img = joined(donor, imageOf(&b.Create))
			k.merges(halved([]*store.Image{donor, imageOf(&b.Create)}), img)
		}
	}},
	{"one of many merges at once takes place, and no take is lost", func(k *kit) {
		s := k.split(2)
		var merged, taken atomic.Int64
		atOnce(crowd, func(i int) {
			if i%4 != 0 {
				if k.takeOf(0) {
					taken.Add(milli)
				}
				return
			}
			p := joins(s[0], s[1])
			j := decided(k, func() (store.Joint, error) { return k.Merge(k.Context(), []*store.Pair{p}) })
			if j.Applied {
				merged.Add(1)
			}
		})
		images := k.onShards()
		l, _ := images[0].Limit("rpm")
		if merged.Load() != 1 || len(images) != 1 || l.Tokens != 100*milli-taken.Load() || l.Consumed != taken.Load() {
			k.Errorf("merged %d times: %d shards, %d left and %d consumed of %d", merged.Load(), len(images), l.Tokens, l.Consumed, taken.Load())
		}
	}},
	{"invalid merges", func(k *kit) {
		s := k.split(4)
		for name, change := range map[string]func([]*store.Pair) []*store.Pair{
			"none": func([]*store.Pair) []*store.Pair { return nil },
			"51":   func(p []*store.Pair) []*store.Pair { return slices.Repeat(p[:1], 51) },
			"one twice": func(p []*store.Pair) []*store.Pair {
				return append(p, p[0])
			},
			"no count":              func(p []*store.Pair) []*store.Pair { p[1].Survivor.ShardCount = 0; return p },
			"the count it has":      func(p []*store.Pair) []*store.Pair { p[1].Survivor.ShardCount = 4; return p },
			"a count beyond belief": func(p []*store.Pair) []*store.Pair { p[1].Survivor.ShardCount = 1024; return p },
			"another's sibling":     func(p []*store.Pair) []*store.Pair { p[1].Retired = s[2]; return p },
			"itself":                func(p []*store.Pair) []*store.Pair { p[1].Retired = s[1]; return p },
			"a survivor too large":  func(p []*store.Pair) []*store.Pair { p[1].Survivor.Shard = 2; return p },
			"a negative survivor":   func(p []*store.Pair) []*store.Pair { p[1].Survivor.Shard = -1; return p },
			"a retired of another entity": func(p []*store.Pair) []*store.Pair {
				p[1].Retired = with(s[3], func(i *store.Image) { i.Entity = "user-2" })
				return p
			},
			"a retired of another count": func(p []*store.Pair) []*store.Pair {
				p[1].Retired = with(s[3], func(i *store.Image) { i.ShardCount = 8 })
				return p
			},
			"a limit without a balance": func(p []*store.Pair) []*store.Pair { p[1].AtLeast = p[1].AtLeast[1:]; return p },
		} {
			k.invalid(name, errOf(k.Merge(k.Context(), change(halved(s)))))
		}
		k.stored(theBucket, s...)
	}},
}
