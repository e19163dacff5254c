package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// wideLimits are the maximum number of limits, half full, with names of the maximum
// length. Limits of two kinds have no name in common.
func wideLimits(kind string, count int) []store.NewLimit {
	limits := make([]store.NewLimit, count)
	for i := range limits {
		name := fmt.Sprintf("%s%03d", kind, i)
		limits[i] = holds(name+strings.Repeat("x", 64-len(name)), rpm, 50*milli)
	}
	return limits
}

// wide is theBucket with the maximum number of limits.
func (k *kit) wide(shard, count int) *store.Create {
	c := k.newBucket()
	c.Shard, c.ShardCount, c.Limits = shard, count, wideLimits("a", store.MaxLimits)
	c.ExpiresAt = k.now/milli + 60
	return c
}

// newWide makes one shard of such a bucket.
func (k *kit) newWide(shard, count int) *store.Image {
	k.Helper()
	return k.mustApply(k.Create(k.Context(), k.wide(shard, count)))
}

// onEach is a change of each limit of an image.
func onEach(img *store.Image, change func(i int, s *store.LimitState) store.Change) []store.Change {
	changes := make([]store.Change, len(img.Limits))
	for i := range img.Limits {
		changes[i] = change(i, &img.Limits[i])
		changes[i].Limit = img.Limits[i].Name
	}
	return changes
}

// debitsOne debits a millitoken of each limit, within bounds.
func debitsOne(_ int, s *store.LimitState) store.Change {
	return store.Change{Debit: 1, Earned: 9, AtLeast: 1, AtMost: s.Capacity, Params: *s.Params}
}

// debited is an image after each limit has lost the given amount of its balance, one
// millitoken of it by a debit.
func debitedEach(img *store.Image, lost int64) *store.Image {
	return with(img, func(i *store.Image) {
		for l := range i.Limits {
			i.Limits[l].Tokens -= lost
			i.Limits[l].Consumed++
		}
		written(i)
	})
}

// wideTake debits a millitoken of the first limits of a wide bucket, under every
// condition that a take may have.
func wideTake(name string, limits int, change func(*store.Take)) test {
	return test{name, func(k *kit) {
		img := k.newWide(0, 1)
		t := &store.Take{Bucket: img.Bucket, Now: k.now, ShardCount: 1, Since: img.RefilledAt}
		for _, s := range img.Limits[:limits] {
			t.Debits = append(t.Debits, store.Debit{Amount: store.Amount{Limit: s.Name, Milli: 1}, AtMost: s.Capacity, Params: *s.Params})
		}
		change(t)
		out, err := k.Take(k.Context(), t)
		if t.Debits[limits-1].AtMost < t.Debits[limits-1].Milli-t.Debits[limits-1].Earned {
			k.refused(out, err, img)
			return
		}
		k.applied(out, err, taken(img, t))
	}}
}

// taken is an image after a take.
func taken(img *store.Image, t *store.Take) *store.Image {
	return with(img, func(i *store.Image) {
		for _, d := range t.Debits {
			debit(i, d.Limit, d.Milli)
		}
		written(i)
	})
}

// atItsStamp makes a take need what each limit has earned since the stamp.
func atItsStamp(t *store.Take) {
	t.Stamp, t.Since, t.Earned = t.Since, 0, milli
	for i := range t.Debits {
		d := &t.Debits[i]
		d.Milli, d.Earned, d.AtMostAtStamp = 60*milli, 20*milli, d.AtMost
	}
}

// wideRefill writes a refill to a wide bucket.
func wideRefill(name string, write func(k *kit, seen *store.Image) *store.Refill) test {
	return test{name, func(k *kit) {
		seen := k.newWide(0, 1)
		k.mustApply(k.Refill(k.Context(), write(k, seen)))
	}}
}

func restamped(r *store.Refill) *store.Refill {
	r.Expiry = store.Expiry{Change: true, At: r.Seen.ExpiresAt + 1}
	r.Owner = &store.Owner{Cascade: true, Parent: "project", Generation: 7, Incarnation: "0123456789abcdef"}
	return r
}

// mostLimitsTests cover every shape of write to a bucket with the maximum number of limits.
var mostLimitsTests = []test{
	wideTake("take", store.MaxLimits, func(*store.Take) {}),
	wideTake("take of all but one", store.MaxLimits-1, func(*store.Take) {}),
	wideTake("take by unknown parameters", store.MaxLimits, func(t *store.Take) {
		t.ShardCount = 0
		for i := range t.Debits {
			t.Debits[i].Params, t.Debits[i].AtMost = store.Params{}, math.MaxInt64
		}
	}),
	wideTake("take of nothing", store.MaxLimits, func(t *store.Take) {
		for i := range t.Debits {
			t.Debits[i].Milli = 0
		}
	}),
	wideTake("take that no balance can serve", store.MaxLimits, func(t *store.Take) {
		for i := range t.Debits {
			t.Debits[i].AtMost = 0
		}
	}),
	wideTake("take at the stamp", store.MaxLimits, atItsStamp),
	wideTake("take at the stamp of 28 limits", 28, atItsStamp),
	wideTake("take at the stamp of 27 limits", 27, atItsStamp),
	wideTake("take of 27 limits although the stamp was moved", 27, func(t *store.Take) { t.Stamp, t.Since = t.Since-1, 0 }),
	wideTake("take at the stamp that no balance can serve", store.MaxLimits, func(t *store.Take) {
		atItsStamp(t)
		for i := range t.Debits {
			t.Debits[i].AtMost, t.Debits[i].AtMostAtStamp = 0, 0
		}
	}),

	{"refill", func(k *kit) {
		seen := k.newWide(0, 1)
		out, err := k.Refill(k.Context(), refill(seen, onEach(seen, debitsOne)...))
		k.applied(out, err, with(debitedEach(seen, -8), func(i *store.Image) { i.RefilledAt += later }))
	}},
	wideRefill("refill by the balances seen", func(_ *kit, seen *store.Image) *store.Refill {
		return restamped(refill(seen, onEach(seen, func(_ int, s *store.LimitState) store.Change {
			return store.Change{Debit: 1, AtLeast: s.Tokens, AtMost: s.Tokens}
		})...))
	}),
	wideRefill("refill bounded above", func(_ *kit, seen *store.Image) *store.Refill {
		return restamped(refill(seen, onEach(seen, func(_ int, s *store.LimitState) store.Change {
			return store.Change{Debit: 1, AtLeast: math.MinInt64, AtMost: s.Capacity}
		})...))
	}),
	{"refill within bounds that no balance is within", func(k *kit) {
		seen := k.newWide(0, 1)
		out, err := k.Refill(k.Context(), refill(seen, onEach(seen, func(_ int, s *store.LimitState) store.Change {
			return store.Change{Debit: 1, AtLeast: s.Tokens + 1, AtMost: s.Tokens - 1}
		})...))
		k.refused(out, err, seen)
	}},
	wideRefill("refill of a full bucket", func(_ *kit, seen *store.Image) *store.Refill {
		r := refill(seen, onEach(seen, func(_ int, s *store.LimitState) store.Change {
			return store.Change{Earned: s.Capacity, Debit: 1, Params: *s.Params}
		})...)
		r.FullSince, r.Expiry = seen.RefilledAt+1, store.Expiry{Change: true, At: seen.ExpiresAt + 1}
		r.Writes = fill(seen, 0).Writes
		return r
	}),
	wideRefill("loose refill", func(_ *kit, seen *store.Image) *store.Refill {
		r := restamped(refill(seen, onEach(seen, debitsOne)...))
		r.Loose, r.ShardCount = true, 2
		return r
	}),
	wideRefill("all parameters", func(_ *kit, seen *store.Image) *store.Refill {
		return restamped(refill(seen, onEach(seen, func(i int, s *store.LimitState) store.Change {
			ch := debitsOne(i, s)
			ch.Kind, ch.Params = store.SetParams, tpm
			return ch
		})...))
	}),
	{"all rates become quotas, renew, carry, and become rates", func(k *kit) {
		img, day := k.newWide(0, 1), k.quotaOf("day")
		carrying := k.quotaOf("month from last day")
		carrying.Carries = store.Carry{Rollover: 1000 * carrying.Capacity, Debt: true}
		for _, next := range []store.Params{day, day, carrying, carrying, k.quotaOf("month from last day"), rpm} {
			r := restamped(refill(img, onEach(img, func(i int, s *store.LimitState) store.Change {
				ch := debitsOne(i, s)
				ch.Kind, ch.Params, ch.Renews, ch.TopUp = store.SetParams, next, true, next.Carries.Rollover
				return ch
			})...))
			r.Validity = store.Validity{Change: true, Until: k.now + 7}
			if img = k.mustApply(k.Refill(k.Context(), r)); *img.Limits[store.MaxLimits-1].Params != next {
				k.Errorf("%+v, want %+v", img.Limits[store.MaxLimits-1].Params, next)
			}
		}
	}},
	wideReplacement("a quarter of the limits replaced by others", store.MaxLimits/4),
	wideReplacement("half of the limits replaced by others", store.MaxLimits/2),
	wideReplacement("all limits replaced by others", store.MaxLimits),
	{"the hidden limit, all others and the owner on an item that has none", func(k *kit) {
		c := k.wide(0, 1)
		c.Limits = nil
		seen := k.mustApply(k.Create(k.Context(), c))
		r := restamped(refill(seen))
		for _, l := range wideLimits("a", store.MaxLimits) {
			r.Changes = append(r.Changes, store.Change{Limit: l.Limit, Kind: store.AddLimit, Params: l.Params, Earned: l.Tokens})
		}
		k.mustApply(k.Refill(k.Context(), r))
	}},

	wideAdjust("adjust: debits", func(s *store.LimitState) store.Delta {
		return store.Delta{Tokens: -1, Consumed: 1, AtMost: s.Capacity}
	}),
	wideAdjust("adjust: debits that the balance covers", func(s *store.LimitState) store.Delta {
		return store.Delta{Tokens: -1, Consumed: 1, AtMost: s.Capacity, Covered: true}
	}),
	wideAdjust("adjust: credits", func(s *store.LimitState) store.Delta {
		return store.Delta{Tokens: 1, Consumed: -1, AtMost: s.Capacity}
	}),
	wideAdjust("adjust: credits that find no room", func(s *store.LimitState) store.Delta {
		return store.Delta{Consumed: -1, AtMost: s.Tokens, Pinned: true}
	}),

	{"gather from 32 shards", func(k *kit) {
		var refills []*store.Refill
		var want []*store.Image
		for i := range limiter.MaxShards {
			seen := k.newWide(i, limiter.MaxShards)
			refills = append(refills, refill(seen, onEach(seen, debitsOne)...))
			want = append(want, with(debitedEach(seen, -8), func(i *store.Image) { i.RefilledAt += later }))
		}
		j, err := k.Gather(k.Context(), refills)
		k.joint(j, err)
		k.stored(theBucket, want...)
	}},
	{"bear, loosely, from a donor", func(k *kit) {
		img := k.newWide(0, 1)
		r := refill(img, onEach(img, func(_ int, s *store.LimitState) store.Change {
			return store.Change{Earned: -25 * milli, AtLeast: 25 * milli, AtMost: s.Capacity, Params: *s.Params}
		})...)
		r.Loose, r.ShardCount = true, 2
		b := &store.Birth{Create: *k.wide(1, 2), Donor: r, Sibling: 0}
		j, err := k.Bear(k.Context(), b)
		k.joint(j, err)
	}},
	{"merge 16 pairs", func(k *kit) {
		var pairs []*store.Pair
		var images []*store.Image
		for i := range limiter.MaxShards {
			images = append(images, k.newWide(i, limiter.MaxShards))
		}
		half := limiter.MaxShards / 2
		for i, img := range images[:half] {
			p := &store.Pair{Retired: images[i+half], Survivor: refill(img, onEach(img, func(_ int, s *store.LimitState) store.Change {
				return store.Change{Earned: 50 * milli, AtLeast: math.MinInt64, AtMost: s.Capacity}
			})...)}
			p.Survivor.ShardCount = half
			for _, s := range p.Retired.Limits {
				p.AtLeast = append(p.AtLeast, s.Tokens-1)
			}
			pairs = append(pairs, p)
		}
		j, err := k.Merge(k.Context(), pairs)
		k.joint(j, err)
	}},
	{"configuration", func(k *kit) {
		key := store.ConfigKey{Entity: theBucket.Entity, Resource: theBucket.Resource}
		var limits []store.Limit
		for _, l := range wideLimits("a", store.MaxLimits) {
			limits = append(limits, limiter.PerMinute(l.Limit, store.MaxTokens))
		}
		if err := errors.Join(k.SetLimits(k.Context(), key, limits), k.SetSystem(k.Context(), limits, store.Allow)); err != nil {
			k.Fatal(err)
		}
		loaded, err := k.Load(k.Context(), &store.Load{Configs: []store.ConfigKey{key, {}}})
		if err != nil || !slices.Equal(loaded.Configs[0].Limits, limits) || !slices.Equal(loaded.Configs[1].Limits, limits) {
			k.Errorf("read %+v, %v", loaded, err)
		}
		more := append(limits, limiter.PerMinute("more", 1))
		k.tooMany(k.SetLimits(k.Context(), key, more))
		k.tooMany(k.SetSystem(k.Context(), more, ""))
	}},
	{"refused: one limit more", func(k *kit) {
		seen := k.newWide(0, 1)
		_, err := k.Refill(k.Context(), refill(seen, store.Change{Limit: "more", Kind: store.AddLimit, Params: rpm}))
		k.tooMany(err)
		c := k.wide(1, 2)
		c.Limits = wideLimits("a", store.MaxLimits+1)
		_, err = k.Create(k.Context(), c)
		k.tooMany(err)
		_, err = k.Bear(k.Context(), &store.Birth{Create: *c, Donor: gives(seen, 0, 2), Sibling: 0})
		k.tooMany(err)
		k.stored(theBucket, seen)
	}},
}

// wideReplacement replaces some limits of a wide bucket by others, changes the rest,
// and restamps the owner and the number of shards.
func wideReplacement(name string, replaced int) test {
	return test{name, func(k *kit) {
		seen := k.newWide(0, 1)
		r := restamped(refill(seen, onEach(seen, func(i int, s *store.LimitState) store.Change {
			if i < replaced {
				return store.Change{Kind: store.RemoveLimit}
			}
			c := debitsOne(i, s)
			c.Kind, c.Params.Capacity = store.SetParams, c.Params.Capacity+1000
			return c
		})...))
		r.ShardCount = 2
		want := with(seen, func(i *store.Image) {
			refilled(i)
			i.Limits, i.ExpiresAt, i.ShardCount = i.Limits[replaced:], r.Expiry.At, 2
			for k := range i.Limits {
				l := &i.Limits[k]
				l.Tokens, l.Consumed, l.Params = l.Tokens+8, l.Consumed+1, new(r.Changes[replaced+k].Params)
			}
			i.Cascade, i.Parent, i.ParentGeneration, i.Incarnation = true, r.Owner.Parent, r.Owner.Generation, r.Owner.Incarnation
		})
		for _, l := range wideLimits("b", replaced) {
			r.Changes = append(r.Changes, store.Change{Limit: l.Limit, Kind: store.AddLimit, Params: l.Params, Earned: l.Tokens, Debit: 1})
			want.Limits = append(want.Limits, store.LimitState{Name: l.Limit, Tokens: l.Tokens - 1, Consumed: 1, Params: new(l.Params)})
		}
		out, err := k.Refill(k.Context(), r)
		k.applied(out, err, want)
	}}
}

// wideAdjust moves each limit of a wide bucket.
func wideAdjust(name string, delta func(*store.LimitState) store.Delta) test {
	return test{name, func(k *kit) {
		seen := k.newWide(0, 1)
		var deltas []store.Delta
		for i := range seen.Limits {
			d := delta(&seen.Limits[i])
			d.Limit = seen.Limits[i].Name
			deltas = append(deltas, d)
		}
		k.mustAdjust(seen, deltas...)
	}}
}

// tooMany checks for an error that names the limits and their maximum number.
func (k *kit) tooMany(err error) {
	k.Helper()
	invalid, ok := errors.AsType[*store.ValidationError](err)
	if !ok || invalid.Field != "limits" || invalid.Value != strconv.Itoa(store.MaxLimits+1) || !strings.Contains(invalid.Reason, strconv.Itoa(store.MaxLimits)) {
		k.Errorf("got %v, want the limits and their bound named", err)
	}
}
