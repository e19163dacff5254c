package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// decided repeats a write until no other writer conflicts with it. It may be called
// from any goroutine. It sleeps after a conflict: with few processors, the writer that
// holds the items may be waiting for one.
func decided[T any](k *kit, try func() (T, error)) (out T) {
	const most, pause = 10_000, time.Millisecond
	for range most {
		out, err := try()
		if err == nil {
			return out
		}
		if !errors.Is(err, store.ErrConflict) {
			k.Error(err)
			return out
		}
		time.Sleep(rand.N(pause)) //nolint:gosec // any time will do
	}
	k.Errorf("%d conflicts and no end", most)
	return out
}

// onShards reads the shards of theBucket. It may be called from any goroutine.
func (k *kit) onShards() []*store.Image {
	images, err := k.Buckets(k.Context(), theBucket.Entity, theBucket.Resource, 1)
	if err != nil {
		k.Error(err)
	}
	return images
}

// takeOf takes a token of rpm from a shard. It may be called from any goroutine.
func (k *kit) takeOf(shard int) (admitted bool) {
	b := theBucket
	b.Shard = shard
	return decided(k, func() (store.Outcome, error) {
		return k.Take(k.Context(), &store.Take{Bucket: b, Now: k.now, Debits: debitsOf(store.Amount{Limit: "rpm", Milli: milli})})
	}).Applied
}

// double splits every shard of count, shard 0 last, even if others do so too.
func (k *kit) double(count int) {
	for shard := count - 1; shard >= 0; shard-- {
		k.doubleOne(shard, count)
	}
}

// doubleOne splits a shard of count, unless it is already split.
func (k *kit) doubleOne(shard, count int) {
	const most = 1000
	for range most {
		images := k.onShards()
		i := slices.IndexFunc(images, func(img *store.Image) bool { return img.Shard == shard })
		if i < 0 {
			break
		}
		if images[i].ShardCount > count {
			return
		}
		decided(k, func() (store.Joint, error) { return k.Bear(k.Context(), k.halves(images[i])) })
	}
	k.Errorf("shard %d of %d is gone, or cannot be split", shard, count)
}

var shardTests = []test{
	{"one of many births of a shard takes place", func(k *kit) {
		img := k.create(k.newBucket())
		var won atomic.Int64
		atOnce(crowd, func(int) {
			j := decided(k, func() (store.Joint, error) { return k.Bear(k.Context(), k.halves(img)) })
			if j.Applied {
				won.Add(1)
			} else if len(j.Refusals) != 2 || !j.Refusals[0].Refused && !j.Refusals[1].Refused {
				k.Errorf("lost, and nobody refused: %+v", j)
			}
		})
		if won.Load() != 1 {
			k.Errorf("%d births took place, want 1", won.Load())
		}
		b := k.halves(img)
		k.stored(theBucket, gave(img, 25*milli, 2), imageOf(&b.Create))
	}},
	{"takes while shards split lose and mint nothing", func(k *kit) {
		const count, splitters, each, tokens = 8, 3, 3, 100
		c := k.newBucket()
		c.Limits[0].Tokens = tokens * milli
		k.create(c)
		var taken atomic.Int64
		atOnce(crowd+splitters, func(i int) {
			if i < splitters {
				for n := 1; n < count; n *= 2 {
					k.double(n)
				}
				return
			}
			for range each {
				if k.takeOf(rand.IntN(count)) {
					taken.Add(milli)
				}
			}
		})
		images := k.onShards()
		if len(images) != count {
			k.Errorf("%d shards, want %d", len(images), count)
		}
		var held, consumed int64
		for _, img := range images {
			l, _ := img.Limit("rpm")
			held, consumed = held+l.Tokens, consumed+l.Consumed
			if img.ShardCount != count || l.Tokens < 0 {
				k.Errorf("shard %d believes in %d shards and holds %d, want %d and no debt", img.Shard, img.ShardCount, l.Tokens, count)
			}
		}
		if held+consumed != tokens*milli || consumed != taken.Load() {
			k.Errorf("%d held and %d consumed, %d of it seen, of %d", held, consumed, taken.Load(), tokens*milli)
		}
	}},
	{"gathers in either order, and takes, debit all of their shards or none", func(k *kit) {
		s := k.split(2)
		var gathered, taken atomic.Int64
		debit := func(img *store.Image) *store.Refill {
			r := consumes(img, milli)
			r.RefilledAt = img.RefilledAt
			return r
		}
		atOnce(crowd, func(i int) {
			if i%4 == 0 {
				if k.takeOf(0) {
					taken.Add(milli)
				}
				return
			}
			first, second := debit(s[i%2]), debit(s[1-i%2])
			j := decided(k, func() (store.Joint, error) { return k.Gather(k.Context(), []*store.Refill{first, second}) })
			if j.Applied {
				gathered.Add(milli)
			}
		})
		for i, want := range []int64{gathered.Load() + taken.Load(), gathered.Load()} {
			l, _ := k.onShards()[i].Limit("rpm")
			if l.Consumed != want || l.Tokens != 50*milli-want || l.Tokens < 0 {
				k.Errorf("shard %d holds %d and has consumed %d, want %d", i, l.Tokens, l.Consumed, want)
			}
		}
		if gathered.Load() == 0 {
			k.Error("nobody could gather")
		}
	}},
}
