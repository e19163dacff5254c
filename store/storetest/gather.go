package storetest

import (
	"errors"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/store"
)

// refusedBy is the refusal of one write by the image, which may be nil.
func refusedBy(img *store.Image) store.Refusal { return store.Refusal{Refused: true, Image: img} }

// notRefused is the refusal entry of a write that its item did not refuse.
var notRefused = store.Refusal{}

// joint checks the answer to writes that take place together. It expects the given
// refusals, or, without any, that the writes took place.
func (k *kit) joint(j store.Joint, err error, want ...store.Refusal) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
	if diff := cmp.Diff(store.Joint{Applied: len(want) == 0, Refusals: want}, j, anySize); diff != "" {
		k.Errorf("joint (-want +got):\n%s", diff)
	}
}

// split makes theBucket of count shards, each as a new bucket.
func (k *kit) split(count int) []*store.Image {
	k.Helper()
	return k.splitOf(theBucket, count)
}

func (k *kit) splitOf(b store.Bucket, count int) []*store.Image {
	k.Helper()
	var images []*store.Image
	for shard := range count {
		c := k.newBucket()
		c.Bucket, c.ShardCount = b, count
		c.Shard = shard
		images = append(images, k.mustApply(k.Create(k.Context(), c)))
	}
	return images
}

// consumes is a refill that debits rpm, if the shard holds as much.
func consumes(seen *store.Image, tokens int64) *store.Refill {
	return refill(seen, bounded(0, tokens, tokens, rpm.Capacity))
}

// consumed is the image after consumes.
func consumed(img *store.Image, tokens int64) *store.Image {
	return with(img, func(i *store.Image) { refilled(i); debit(i, "rpm", tokens) })
}

var gatherTests = []test{
	{"refills every shard", func(k *kit) {
		s := k.split(2)
		second := refill(s[1], keep("rpm", 20*milli, 3*milli), store.Change{Limit: "rps", Kind: store.AddLimit, Params: rpm, Earned: 9})
		second.Expiry = store.Expiry{Change: true, At: k.now/milli + 7}
		j, err := k.Gather(k.Context(), []*store.Refill{consumes(s[0], 50*milli), second})
		k.joint(j, err)
		k.stored(theBucket, consumed(s[0], 50*milli), with(s[1], func(i *store.Image) {
			refilled(i)
			earn(i, "rpm", 20*milli)
			debit(i, "rpm", 3*milli)
			i.ExpiresAt = k.now/milli + 7
			i.Limits = append(i.Limits[:1:1], store.LimitState{Name: "rps", Tokens: 9, Params: new(rpm)}, i.Limits[1])
		}))
	}},
	{"refills a single shard", func(k *kit) {
		img := k.create(k.newBucket())
		j, err := k.Gather(k.Context(), []*store.Refill{consumes(img, milli)})
		k.joint(j, err)
		k.stored(theBucket, consumed(img, milli))
	}},
	{"refills 32 shards", func(k *kit) {
		images := k.split(32)
		var refills []*store.Refill
		for i, img := range images {
			tokens := int64(i+1) * milli
			refills = append(refills, consumes(img, tokens))
			images[i] = consumed(img, tokens)
		}
		j, err := k.Gather(k.Context(), refills)
		k.joint(j, err)
		k.stored(theBucket, images...)
	}},
	{"refills buckets of different entities and resources", func(k *kit) {
		first := k.create(k.newBucket())
		c := k.newBucket()
		c.Bucket = store.Bucket{Entity: "user-2", Resource: "gpt-4o"}
		second := k.create(c)
		j, err := k.Gather(k.Context(), []*store.Refill{consumes(first, 1), consumes(second, 2)})
		k.joint(j, err)
		k.stored(theBucket, consumed(first, 1))
		k.stored(second.Bucket, consumed(second, 2))
	}},
	{"fills a shard that is full anyway", func(k *kit) {
		s := k.split(2)
		j, err := k.Gather(k.Context(), []*store.Refill{consumes(s[0], 1), fill(s[1], s[1].RefilledAt)})
		k.joint(j, err)
		k.stored(theBucket, consumed(s[0], 1), with(s[1], filled))
	}},
	{"sets the number of shards of each", func(k *kit) {
		s := k.split(2)
		first, second := refill(s[0]), refill(s[1])
		first.ShardCount = 4
		j, err := k.Gather(k.Context(), []*store.Refill{first, second})
		k.joint(j, err)
		k.stored(theBucket, with(s[0], func(i *store.Image) { refilled(i); i.ShardCount = 4 }), with(s[1], refilled))
	}},
	{"refused: the last is short by a millitoken, and the others are left alone", func(k *kit) {
		s := k.split(3)
		j, err := k.Gather(k.Context(), []*store.Refill{consumes(s[0], 1), consumes(s[1], 1), consumes(s[2], 50*milli+1)})
		k.joint(j, err, notRefused, notRefused, refusedBy(s[2]))
		k.stored(theBucket, s...)
	}},
	{"refused: the first has moved on", func(k *kit) {
		s := k.split(2)
		met := k.mustApply(k.Refill(k.Context(), consumes(s[0], milli)))
		j, err := k.Gather(k.Context(), []*store.Refill{consumes(s[0], 1), consumes(s[1], 1)})
		k.joint(j, err, refusedBy(met), notRefused)
		k.stored(theBucket, met, s[1])
	}},
	{"refused: a shard has learnt of more shards", func(k *kit) {
		s := k.split(2)
		r := refill(s[1])
		r.RefilledAt, r.ShardCount = s[1].RefilledAt, 4
		met := k.mustApply(k.Refill(k.Context(), r))
		j, err := k.Gather(k.Context(), []*store.Refill{consumes(s[0], 1), consumes(s[1], 1)})
		k.joint(j, err, notRefused, refusedBy(met))
		k.stored(theBucket, s[0], met)
	}},
	{"refused: a shard does not exist", func(k *kit) {
		img := k.create(k.newBucket())
		c := k.newBucket()
		c.Shard = 1
		j, err := k.Gather(k.Context(), []*store.Refill{consumes(img, 1), consumes(imageOf(c), 1)})
		k.joint(j, err, notRefused, refusedBy(nil))
		k.stored(theBucket, img)
	}},
	{"refused by all, of whom one or more says so", func(k *kit) {
		s := k.split(2)
		j, err := k.Gather(k.Context(), []*store.Refill{consumes(s[0], 51*milli), consumes(s[1], 51*milli)})
		if err != nil || j.Applied || len(j.Refusals) != len(s) {
			k.Fatalf("got %+v, %v", j, err)
		}
		said := 0
		for i, r := range j.Refusals {
			if diff := cmp.Diff(refusedBy(s[i]), r, anySize); r.Refused && diff != "" {
				k.Errorf("refusal %d (-want +got):\n%s", i, diff)
			}
			if r.Refused {
				said++
			}
		}
		if said == 0 {
			k.Error("nobody refused")
		}
		k.stored(theBucket, s...)
	}},
	{"invalid: none, too many, or one twice", func(k *kit) {
		img := k.create(k.newBucket())
		many := make([]*store.Refill, 101)
		for i := range many {
			many[i] = consumes(img, 1)
			many[i].Shard = i
		}
		for name, refills := range map[string][]*store.Refill{
			"none": nil, "101": many, "one twice": {consumes(img, 1), consumes(img, 2)},
		} {
			k.invalid(name, errOf(k.Gather(k.Context(), refills)))
		}
		k.stored(theBucket, img)
	}},
}

// invalid checks that the store rejected the argument of the named case.
func (k *kit) invalid(name string, err error) {
	k.Helper()
	if bad := (*store.ValidationError)(nil); !errors.As(err, &bad) || bad.Field == "" || bad.Reason == "" {
		k.Errorf("%s: got %v, want what is wrong with which argument", name, err)
	}
}
