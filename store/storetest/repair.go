package storetest

import "github.com/zeroae/zae-limiter-go/store"

// repairTests are refills that change more than balances and the stamp: limits and their
// parameters, the number of shards, the expiry, and the owner.
var repairTests = []test{
	afterRefill("trims", nil, refills(bounded(-20*milli, 0, 50*milli, 50*milli)),
		func(i *store.Image) { refilled(i); earn(i, "rpm", -20*milli) }),
	afterRefill("sets parameters", nil, refills(store.Change{
		Limit: "rpm", Kind: store.SetParams, Params: tpm, Earned: 5, Debit: milli, AtLeast: milli, AtMost: tpm.Capacity,
	}), func(i *store.Image) {
		refilled(i)
		i.Limits[0].Params = new(tpm)
		earn(i, "rpm", 5)
		debit(i, "rpm", milli)
	}),
	afterRefill("refused: sets parameters, out of bounds", nil, refills(store.Change{
		Limit: "rpm", Kind: store.SetParams, Params: tpm, AtLeast: 0, AtMost: 0,
	}), nil),
	afterRefill("adds a limit", nil, refills(store.Change{Limit: "rps", Kind: store.AddLimit, Params: rpm, Earned: 90, Debit: 7}),
		func(i *store.Image) {
			refilled(i)
			i.Limits = append(i.Limits[:1:1], store.LimitState{Name: "rps", Tokens: 83, Consumed: 7, Params: new(rpm)}, i.Limits[1])
		}),
	afterRefill("refused: adds a limit that is there", nil, refills(store.Change{Limit: "rpm", Kind: store.AddLimit, Params: rpm, Earned: 90}), nil),
	afterRefill("removes a limit", nil, refills(store.Change{Limit: "rpm", Kind: store.RemoveLimit}, keep("tpm", 0, milli)),
		func(i *store.Image) {
			refilled(i)
			i.Limits = i.Limits[1:]
			debit(i, "tpm", milli)
		}),
	{"a limit that was removed can be added again", func(k *kit) {
		img := k.create(k.newBucket())
		img = k.mustApply(k.Refill(k.Context(), refill(img, store.Change{Limit: "rpm", Kind: store.RemoveLimit})))
		out, err := k.take(store.Amount{Limit: "rpm"})
		k.refused(out, err, img)
		out, err = k.Refill(k.Context(), refill(img, store.Change{Limit: "rpm", Kind: store.AddLimit, Params: tpm, Earned: 9}))
		k.applied(out, err, with(img, func(i *store.Image) {
			refilled(i)
			i.Limits = []store.LimitState{{Name: "rpm", Tokens: 9, Params: new(tpm)}, i.Limits[0]}
		}))
	}},
	{"sets and leaves the number of shards", func(k *kit) {
		img := k.create(k.newBucket())
		for _, n := range []int{2, 0, 32, 32, 1, 0} {
			r := refill(img, keep("rpm", 0, 1))
			r.ShardCount = n
			want := with(img, func(i *store.Image) { refilled(i); debit(i, "rpm", 1) })
			if n != 0 {
				want.ShardCount = n
			}
			out, err := k.Refill(k.Context(), r)
			k.applied(out, err, want)
			img = out.Image
		}
	}},
	{"sets the number of shards of a full bucket", func(k *kit) {
		img := k.create(k.newBucket())
		r := fill(img, img.RefilledAt)
		r.ShardCount = 2
		out, err := k.Refill(k.Context(), r)
		k.applied(out, err, with(img, func(i *store.Image) { filled(i); i.ShardCount = 2 }))
	}},
	afterRefill("refused: the number of shards has changed, and is not what it is set to", resharded, func(seen *store.Image) *store.Refill {
		r := refill(seen)
		r.ShardCount = 4
		return r
	}, nil),
	afterRefill("refused: the number of shards has changed", resharded, refills(keep("rpm", milli, 0)), nil),
	{"invalid numbers of shards", func(k *kit) {
		img := k.create(k.newBucket())
		for _, n := range []int{-1, 1025} {
			r := refill(img)
			r.ShardCount = n
			k.invalid("shard count", errOf(k.Refill(k.Context(), r)))
		}
		k.stored(theBucket, img)
	}},
	{"sets, leaves and removes the expiry", func(k *kit) {
		img := k.create(k.newBucket())
		for _, e := range []store.Expiry{{Change: true, At: k.now/milli + 7}, {}, {Change: true, At: k.now/milli + 9}, {Change: true}, {}} {
			r := refill(img)
			r.Expiry = e
			want := with(img, refilled)
			if e.Change {
				want.ExpiresAt = e.At
			}
			out, err := k.Refill(k.Context(), r)
			k.applied(out, err, want)
			img = out.Image
		}
	}},
	{"restamps the owner", func(k *kit) {
		img := k.create(k.newBucket())
		for _, o := range []store.Owner{
			{Cascade: true, Parent: "project-1", Generation: 5, Incarnation: "abc"},
			{Cascade: false, Parent: "project-2", Generation: 6, Incarnation: "abc"},
			{Generation: 7, Incarnation: "abc"},
		} {
			r := refill(img)
			r.Owner = &o
			out, err := k.Refill(k.Context(), r)
			k.applied(out, err, with(img, func(i *store.Image) {
				refilled(i)
				i.Cascade, i.Parent, i.ParentGeneration, i.Incarnation = o.Cascade, o.Parent, o.Generation, o.Incarnation
			}))
			img = out.Image
		}
	}},
}
