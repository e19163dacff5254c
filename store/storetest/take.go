package storetest

import (
	"math"

	"github.com/zeroae/zae-limiter-go/store"
)

// mostMilli is the most that a limit may hold.
const mostMilli = store.MaxTokens * milli

var takeTests = []test{
	admittedTake("every amount and a write", nil, store.Amount{Limit: "rpm", Milli: 1}, store.Amount{Limit: "tpm", Milli: 400 * milli}),
	admittedTake("all there is", nil, store.Amount{Limit: "rpm", Milli: 50 * milli}),
	{"leaves the stamp and the expiry", func(k *kit) {
		c := k.newBucket()
		c.ExpiresAt = k.now/milli + 60
		img := k.create(c)
		out, err := k.Take(k.Context(), &store.Take{
			Bucket: theBucket, Now: k.now + 30_000, Debits: debitsOf(store.Amount{Limit: "rpm", Milli: milli}),
		})
		k.applied(out, err, with(img, func(i *store.Image) { debit(i, "rpm", milli); written(i) }))
	}},
	{"counts beyond 64 bits, from the beginning again", func(k *kit) {
		c := k.newBucket()
		c.Limits[0].Consumed, c.Writes.Consumed = math.MaxInt64-1, math.MaxInt64-milli+1
		img := k.create(c)
		for range 2 {
			out, err := k.take(store.Amount{Limit: "rpm", Milli: milli})
			img = with(img, func(i *store.Image) { debit(i, "rpm", milli); written(i) })
			k.applied(out, err, img)
		}
		if s, _ := img.Limit("rpm"); s.Consumed != math.MinInt64+2*milli-2 || img.Writes.Consumed != math.MinInt64+milli {
			k.Errorf("counted %d and %d writes", s.Consumed, img.Writes.Consumed)
		}
	}},
	refusedTake("short by a millitoken", nil, store.Amount{Limit: "rpm", Milli: 50*milli + 1}),
	refusedTake("the second limit is short: the first is not debited", nil,
		store.Amount{Limit: "rpm", Milli: milli}, store.Amount{Limit: "tpm", Milli: 501 * milli}),
	refusedTake("the limit is missing", nil,
		store.Amount{Limit: "rpm", Milli: milli}, store.Amount{Limit: "rps", Milli: milli}),
	refusedTake("the limit is missing and the amount 0", nil,
		store.Amount{Limit: "rpm", Milli: milli}, store.Amount{Limit: "rps"}),
	refusedTake("in debt", func(c *store.Create) { c.Limits[0].Tokens = -1 }, store.Amount{Limit: "rpm", Milli: 1}),
	refusedTake("expired this second", func(c *store.Create) { c.ExpiresAt = c.Now / milli }, store.Amount{Limit: "rpm", Milli: milli}),
	refusedTake("the hidden write limit is exhausted", func(c *store.Create) { c.Writes.Tokens = milli - 1 },
		store.Amount{Limit: "rpm", Milli: milli}),
	admittedTake("an amount of 0 in debt", func(c *store.Create) { c.Limits[0].Tokens = -50 * milli },
		store.Amount{Limit: "rpm"}, store.Amount{Limit: "tpm", Milli: milli}),
	admittedTake("expires next second", func(c *store.Create) { c.ExpiresAt = c.Now/milli + 1 }, store.Amount{Limit: "rpm", Milli: milli}),
	admittedTake("the last token of the hidden write limit", func(c *store.Create) { c.Writes.Tokens = milli },
		store.Amount{Limit: "rpm", Milli: milli}),
	boundedTake("a balance at its bound", true, 50*milli),
	boundedTake("a balance above its bound", false, 50*milli-1),
	takes("an amount of 0 and a balance above its bound", true, nil, store.Take{Debits: []store.Debit{{Amount: store.Amount{Limit: "rpm"}}}}),
	pinnedTake("parameters as pinned", true, rpm, tpm),
	pinnedTake("another capacity", false, store.Params{Capacity: rpm.Capacity + 1, Amount: rpm.Amount, Period: rpm.Period}, store.Params{}),
	pinnedTake("another amount", false, store.Params{Capacity: rpm.Capacity, Amount: rpm.Amount + 1, Period: rpm.Period}, store.Params{}),
	pinnedTake("another period", false, store.Params{Capacity: rpm.Capacity, Amount: rpm.Amount, Period: rpm.Period + 1}, store.Params{}),
	pinnedTake("one of two is pinned, and as pinned", true, store.Params{}, tpm),
	pinnedTake("one of two differs", false, rpm, rpm),
	takes("an amount of 0, whatever is pinned", true, nil, store.Take{Debits: []store.Debit{{Amount: store.Amount{Limit: "rpm"}, Params: tpm}}}),
	stampedTake("a stamp that is as old as it may be", true, 50*milli, 1000*milli, 0, store.Take{Since: fromStamp}),
	stampedTake("a stamp that is older", false, 50*milli, 1000*milli, 0, store.Take{Since: fromStamp + 1}),
	stampedTake("what was earned since the stamp counts", true, 0, 1000*milli, milli, store.Take{Stamp: fromStamp}),
	stampedTake("in debt, and more was earned since", true, -milli, 1000*milli, 2*milli, store.Take{Stamp: fromStamp}),
	stampedTake("a millitoken too little was earned", false, 0, 1000*milli, milli-1, store.Take{Stamp: fromStamp}),
	stampedTake("earned since another stamp", false, 0, 1000*milli, milli, store.Take{Stamp: fromStamp - 1}),
	stampedTake("enough under another stamp", true, milli, 1000*milli, milli, store.Take{Stamp: fromStamp - 1}),
	stampedTake("the hidden write limit earned a write", true, milli, 0, 0, store.Take{Stamp: fromStamp, Earned: milli}),
	stampedTake("the hidden write limit did not", false, milli, 0, 0, store.Take{Stamp: fromStamp, Earned: milli - 1}),
	stampedTake("the hidden write limit earned a write since another stamp", false, milli, 0, 0, store.Take{Stamp: fromStamp + 1, Earned: milli}),
	aheadTake("what it may take ahead counts", true, 0, store.Take{}),
	aheadTake("in debt, up to what it may take ahead", true, -milli, store.Take{}),
	aheadTake("a millitoken beyond what it may take ahead", false, -milli-1, store.Take{}),
	aheadTake("ahead of what was earned since the stamp", true, -3*milli, store.Take{Stamp: fromStamp}),
	aheadTake("ahead, and a millitoken too little was earned", false, -3*milli-1, store.Take{Stamp: fromStamp}),
	aheadTake("a later stamp than Since", true, 0, store.Take{Stamp: fromStamp - 1, Since: fromStamp}),
	aheadTake("an earlier stamp than Since, which is not Stamp", false, 0, store.Take{Stamp: fromStamp - 1, Since: fromStamp + 1}),
	aheadTake("an earlier stamp than Since, which is Stamp", true, 0, store.Take{Stamp: fromStamp, Since: fromStamp + 1}),
	{"takes that differ in their conditions only, in turn", func(k *kit) {
		c := k.newBucket()
		c.Limits[0].Tokens = 2 * milli
		img := k.create(c)
		one := debitsOf(store.Amount{Limit: "rpm", Milli: milli})
		took := func(i *store.Image) { debit(i, "rpm", milli); written(i) }
		out, err := k.Take(k.Context(), &store.Take{Bucket: theBucket, Now: k.now, Debits: one})
		img = with(img, took)
		k.applied(out, err, img)
		out, err = k.Take(k.Context(), &store.Take{Bucket: theBucket, Now: k.now, Since: k.now + 1, Debits: one})
		k.refused(out, err, img)
		one[0].Earned = milli
		for range 2 {
			out, err = k.Take(k.Context(), &store.Take{Bucket: theBucket, Now: k.now, Stamp: k.now, Debits: one})
			img = with(img, took)
			k.applied(out, err, img)
		}
	}},
	{"no bucket", func(k *kit) {
		out, err := k.take(store.Amount{Limit: "rpm", Milli: milli})
		k.refused(out, err, nil)
	}},
	{"no such shard", func(k *kit) {
		img := k.create(k.newBucket())
		b := theBucket
		b.Shard = 1
		out, err := k.Take(k.Context(), &store.Take{Bucket: b, Now: k.now, Debits: debitsOf(store.Amount{Limit: "rpm", Milli: milli})})
		if err != nil || out.Applied || out.Image != nil {
			k.Errorf("took of shard 1: %+v, %v", out, err)
		}
		k.stored(theBucket, img)
	}},
	{"names that need care in expressions", func(k *kit) {
		c := k.newBucket()
		c.Limits = nil
		for _, name := range []string{"a", "a.b", "a_b", "a_tk", "b-c", "tk"} {
			c.Limits = append(c.Limits, holds(name, rpm, 10*milli))
		}
		img := k.create(c)
		var amounts []store.Amount
		for i, l := range c.Limits {
			amounts = append(amounts, store.Amount{Limit: l.Limit, Milli: int64(i+1) * milli})
		}
		out, err := k.take(amounts...)
		k.applied(out, err, with(img, func(i *store.Image) {
			for _, a := range amounts {
				debit(i, a.Limit, a.Milli)
			}
			written(i)
		}))
	}},
	admittedTake("an amount of nearly the largest", func(c *store.Create) {
		c.Limits = []store.NewLimit{holds("rpm", store.Params{Capacity: mostMilli, Amount: mostMilli, Period: 1000}, mostMilli)}
	}, store.Amount{Limit: "rpm", Milli: mostMilli - 1}),
}

// fromStamp stands for the stamp of theBucket in a take's Since and Stamp.
const fromStamp = 1_000_000

// takes sends a take to theBucket, as changed, and checks the verdict.
func takes(name string, admitted bool, change func(*store.Create), t store.Take) test {
	verdict := map[bool]string{true: "admitted: ", false: "refused: "}[admitted]
	return test{verdict + name, func(k *kit) {
		c := k.newBucket()
		if change != nil {
			change(c)
		}
		img := k.create(c)
		t := t
		t.Bucket, t.Now = theBucket, k.now
		for _, at := range [...]*int64{&t.Since, &t.Stamp} {
			if *at != 0 {
				*at += k.now - fromStamp
			}
		}
		out, err := k.Take(k.Context(), &t)
		if !admitted {
			k.refused(out, err, img)
			return
		}
		k.applied(out, err, taken(img, &t))
	}}
}

// refusedTake is a take of amounts that the bucket refuses after a change.
func refusedTake(name string, change func(*store.Create), amounts ...store.Amount) test {
	return takes(name, false, change, store.Take{Debits: debitsOf(amounts...)})
}

// admittedTake is a take of amounts that the bucket admits after a change.
func admittedTake(name string, change func(*store.Create), amounts ...store.Amount) test {
	return takes(name, true, change, store.Take{Debits: debitsOf(amounts...)})
}

// tokenTake takes a token of rpm under the conditions of d and t, if rpm and the hidden write
// limit hold the given tokens.
func tokenTake(name string, admitted bool, tokens, writes int64, t store.Take, d store.Debit) test {
	d.Limit, d.Milli, d.AtMost, d.AtMostAtStamp = "rpm", milli, math.MaxInt64, math.MaxInt64
	t.Debits = []store.Debit{d}
	return takes(name, admitted, func(c *store.Create) { c.Limits[0].Tokens, c.Writes.Tokens = tokens, writes }, t)
}

// boundedTake takes a token of rpm if the balance is at most atMost.
func boundedTake(name string, admitted bool, atMost int64) test {
	return takes(name, admitted, nil, store.Take{Debits: []store.Debit{{Amount: store.Amount{Limit: "rpm", Milli: milli}, AtMost: atMost}}})
}

// pinnedTake takes a token of rpm and one of tpm, under pinned parameters.
func pinnedTake(name string, admitted bool, first, second store.Params) test {
	debits := debitsOf(store.Amount{Limit: "rpm", Milli: milli}, store.Amount{Limit: "tpm", Milli: milli})
	debits[0].Params, debits[1].Params = first, second
	return takes(name, admitted, nil, store.Take{Debits: debits})
}

// stampedTake takes a token of rpm, which has earned the given amount since the take's stamp.
func stampedTake(name string, admitted bool, tokens, writes, earned int64, t store.Take) test {
	return tokenTake(name, admitted, tokens, writes, t, store.Debit{Earned: earned})
}

// aheadTake takes a token of rpm, which has earned two since the take's stamp. The take may
// take two tokens ahead.
func aheadTake(name string, admitted bool, tokens int64, t store.Take) test {
	return tokenTake(name, admitted, tokens, 1000*milli, t, store.Debit{Ahead: 2 * milli, Earned: 2 * milli})
}

// debitsOf are debits without an upper bound.
func debitsOf(amounts ...store.Amount) []store.Debit {
	var debits []store.Debit
	for _, a := range amounts {
		debits = append(debits, store.Debit{Amount: a, AtMost: math.MaxInt64})
	}
	return debits
}
