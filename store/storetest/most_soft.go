package storetest

import (
	"math"

	"github.com/zeroae/zae-limiter-go/store"
)

// newWideSoft makes the bucket with the most limits, all of which are soft.
func (k *kit) newWideSoft() *store.Image {
	k.Helper()
	c := k.wide(0, 1)
	for i := range c.Limits {
		c.Limits[i].SoftUntil = k.now + 30_000
	}
	return k.mustApply(k.Create(k.Context(), c))
}

// wideSoftTake debits more than they hold of the first soft limits, and what the others hold.
func wideSoftTake(name string, limits, soft int, change func(*store.Take)) test {
	return test{name, func(k *kit) {
		img := k.newWideSoft()
		t := &store.Take{Bucket: img.Bucket, Now: k.now, ShardCount: 1, Since: img.RefilledAt, Seen: img}
		for i, s := range img.Limits[:limits] {
			d := store.Debit{Amount: store.Amount{Limit: s.Name, Milli: 1}, AtMost: s.Capacity, Params: *s.Params}
			if d.Soft = i < soft; d.Soft {
				d.Milli = 2 * s.Capacity
			}
			t.Debits = append(t.Debits, d)
		}
		change(t)
		out, err := k.Take(k.Context(), t)
		if soft > store.MaxSoftTake {
			k.refused(out, err, img)
			return
		}
		k.applied(out, err, taken(img, t))
	}}
}

func softly(_ int, s *store.LimitState) store.Change {
	return store.Change{
		Debit: 2 * s.Capacity, Earned: 9, AtLeast: math.MinInt64, AtMost: s.Capacity, Params: *s.Params, SoftUntil: s.SoftUntil() + 1,
	}
}

// wideSoftRefill writes a refill to such a bucket.
func wideSoftRefill(name string, write func(k *kit, seen *store.Image) *store.Refill) test {
	return test{name, func(k *kit) {
		seen := k.newWideSoft()
		after := k.mustApply(k.Refill(k.Context(), write(k, seen)))
		for i := range after.Limits {
			if s := &after.Limits[i]; s.SoftUntil() != seen.Limits[i].SoftUntil()+1 {
				k.Fatalf("%s has the stamp %d, and had %d", s.Name, s.SoftUntil(), seen.Limits[i].SoftUntil())
			}
		}
	}}
}

// mostSoftTests cover every shape of write to a bucket with as many soft limits as it can have.
var mostSoftTests = []test{
	wideSoftTake("take of the most soft limits", store.MaxLimits, store.MaxSoftTake, func(*store.Take) {}),
	wideSoftTake("take of more soft limits than one write requires", store.MaxLimits, store.MaxSoftTake+1, func(*store.Take) {}),
	wideSoftTake("take of the most soft limits at the stamp", store.MaxLimits, store.MaxSoftTake, func(t *store.Take) {
		t.Stamp, t.Since, t.Earned = t.Since, 0, milli
		for i := range t.Debits {
			t.Debits[i].AtMostAtStamp = t.Debits[i].AtMost
		}
	}),
	wideSoftTake("take of 24 limits, half of them soft, at the stamp", 24, store.MaxSoftTake, func(t *store.Take) {
		t.Stamp, t.Since, t.Earned = t.Since, 0, milli
		for i := range t.Debits {
			t.Debits[i].AtMostAtStamp = t.Debits[i].AtMost
		}
	}),
	wideSoftRefill("refill of soft limits", func(_ *kit, seen *store.Image) *store.Refill {
		return refill(seen, onEach(seen, softly)...)
	}),
	wideSoftRefill("loose refill of soft limits", func(_ *kit, seen *store.Image) *store.Refill {
		r := refill(seen, onEach(seen, softly)...)
		r.Loose, r.ShardCount = true, 2
		return r
	}),
	wideSoftRefill("the owner of a bucket of soft limits", func(_ *kit, seen *store.Image) *store.Refill {
		return restamped(refill(seen, onEach(seen, softly)...))
	}),
	wideSoftRefill("all parameters of soft limits", func(_ *kit, seen *store.Image) *store.Refill {
		return restamped(refill(seen, onEach(seen, func(i int, s *store.LimitState) store.Change {
			ch := softly(i, s)
			ch.Kind, ch.Params = store.SetParams, tpm
			return ch
		})...))
	}),
	{"refill that sets the balances of the most soft limits", func(k *kit) {
		c := k.wide(0, 1)
		for i := range store.MaxSoftTake {
			c.Limits[i].SoftUntil = k.now + 30_000
		}
		seen := k.mustApply(k.Create(k.Context(), c))
		r := refill(seen, onEach(seen, func(_ int, s *store.LimitState) store.Change {
			return store.Change{Earned: s.Capacity, Debit: 1, Params: *s.Params, SoftUntil: s.SoftUntil()}
		})...)
		r.FullSince, r.Expiry = seen.RefilledAt+1, store.Expiry{Change: true, At: seen.ExpiresAt + 1}
		r.Writes = fill(seen, 0).Writes
		k.mustApply(k.Refill(k.Context(), r))
	}},
	{"a refill that keeps a stamp does not undo a renewal that it has not seen", func(k *kit) {
		c := k.newBucket()
		c.Limits[0].SoftUntil = k.now + 30_000
		seen := k.mustApply(k.Create(k.Context(), c))
		renewed := seen.Limits[0].SoftUntil() + 1000
		k.mustApply(k.Refill(k.Context(), refill(seen, store.Change{Limit: seen.Limits[0].Name, AtLeast: math.MinInt64, AtMost: math.MaxInt64, SoftUntil: renewed})))
		r := fill(seen, seen.RefilledAt+later)
		r.Changes[0].SoftUntil = seen.Limits[0].SoftUntil()
		after := k.mustApply(k.Refill(k.Context(), r))
		if is := after.Limits[0].SoftUntil(); is != renewed {
			k.Fatalf("the stamp is %d, and was renewed to %d", is, renewed)
		}
	}},
	{"all soft limits become hard", func(k *kit) {
		seen := k.newWideSoft()
		after := k.mustApply(k.Refill(k.Context(), restamped(refill(seen, onEach(seen, func(i int, s *store.LimitState) store.Change {
			ch := debitsOne(i, s)
			ch.Kind, ch.Params = store.SetParams, *s.Params
			return ch
		})...))))
		for _, s := range after.Limits {
			if s.IsSoft() {
				k.Fatalf("%s is soft", s.Name)
			}
		}
	}},
	{"a write that found a limit soft does not land on a hard one", func(k *kit) {
		seen := k.newWideSoft()
		hard := k.mustApply(k.Refill(k.Context(), refill(seen, store.Change{
			Limit: seen.Limits[0].Name, Kind: store.SetParams, Params: *seen.Limits[0].Params, AtLeast: math.MinInt64, AtMost: math.MaxInt64,
		})))
		d := store.Debit{Amount: store.Amount{Limit: seen.Limits[0].Name, Milli: 2 * milli}, AtMost: math.MaxInt64, Soft: true}
		out, err := k.Take(k.Context(), &store.Take{Bucket: seen.Bucket, Now: k.now, Debits: []store.Debit{d}, Seen: seen})
		k.refused(out, err, hard)
		r := refill(hard, softly(0, &seen.Limits[0]))
		r.Changes[0].Limit = seen.Limits[0].Name
		out, err = k.Refill(k.Context(), r)
		k.refused(out, err, hard)
	}},
	{"a stamp that has passed refuses a take", func(k *kit) {
		seen := k.newWideSoft()
		d := store.Debit{Amount: store.Amount{Limit: seen.Limits[0].Name, Milli: 2 * milli}, AtMost: math.MaxInt64, Soft: true}
		t := &store.Take{Bucket: seen.Bucket, Now: seen.Limits[0].SoftUntil(), Debits: []store.Debit{d}, Seen: seen}
		out, err := k.Take(k.Context(), t)
		k.refused(out, err, seen)
		t.Now--
		k.mustApply(k.Take(k.Context(), t))
	}},
}
