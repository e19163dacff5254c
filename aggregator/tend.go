package aggregator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/zeroae/zae-limiter-go/store"
)

// tend keeps the buckets of a batch in order, and counts their traffic.
func (a *Aggregator) tend(ctx context.Context, b *batch) {
	a.traffic.note(b)
	a.atOnce(len(b.buckets), func(i int) {
		if bk := &b.buckets[i]; bk.keeper != nil {
			a.tendBucket(ctx, b, bk)
		}
	})
}

// tendBucket mends the shards of a bucket if they disagree or may disagree. Otherwise it
// doubles them if one is pressed, and refills those that are worth it.
func (a *Aggregator) tendBucket(ctx context.Context, b *batch, bk *bucket) {
	failed := func(key itemKey, err error) {
		b.tally(func(r *Result) { r.Errors++ })
		if errors.Is(err, store.ErrThrottled) {
			a.traffic.throttled(key)
		}
		a.o.Logger.WarnContext(ctx, "bucket was not tended", "entity", bk.Entity, "resource", bk.Resource, "error", err)
	}
	if bk.uneven {
		if err := bk.keeper.Mend(ctx, bk.Bucket); err != nil {
			failed(bk.itemKey, err)
		} else {
			b.tally(func(r *Result) { r.Mends++ })
		}
		return // the records no longer describe its shards
	}
	if err := a.lookForSiblings(ctx, b, bk); err != nil {
		failed(bk.itemKey, err)
	}
	for _, it := range bk.items {
		if b.now.Sub(it.at) > a.o.MaxAge || it.last == nil {
			continue
		}
		doubled, err := bk.keeper.Double(ctx, it.last, it.at)
		if err != nil {
			failed(it.itemKey, err)
		}
		if doubled {
			b.tally(func(r *Result) { r.Doublings++ })
		}
		if doubled || err != nil {
			return
		}
		switch replenished, err := bk.keeper.Replenish(ctx, it.last, it.next); {
		case err != nil:
			failed(it.itemKey, err)
		case replenished:
			b.tally(func(r *Result) { r.Refills++ })
		}
	}
}

// If a peer's client finds shard 0 of a bucket missing, it creates that shard as the only
// one, full, even if other shards exist. No single record shows both. So the aggregator
// reads the shards of a bucket when a peer created shard 0. It also does so now and then
// when records are about other shards but not about shard 0.

// lookAgain is the minimum time between two looks at all shards of a bucket.
const lookAgain = time.Minute

// lookForSiblings mends a bucket if its records do not show whether shard 0 agrees with the
// others.
func (a *Aggregator) lookForSiblings(ctx context.Context, b *batch, bk *bucket) error {
	last := bk.Bucket
	isLone := !slices.ContainsFunc(bk.items, func(it *item) bool { return it.Shard == 0 })
	switch {
	case bk.anew:
		last.Shard = max(1, last.Shard)
	case !isLone || !a.looks.claim(bk.itemKey, b.now):
		return nil
	}
	return bk.keeper.Mend(ctx, last)
}

// A roll remembers when the aggregator last looked at buckets.
type roll struct {
	mu   sync.Mutex
	seen *simplelru.LRU[itemKey, time.Time]
}

func newRoll() *roll {
	seen, err := simplelru.NewLRU[itemKey, time.Time](watchedBuckets, nil)
	if err != nil {
		panic(err) // only for a size of 0
	}
	return &roll{seen: seen}
}

// claim reports whether a bucket is due for a look, and records the look.
func (r *roll) claim(key itemKey, now time.Time) bool {
	key.Shard = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.seen.Get(key); ok && now.Sub(at) < lookAgain {
		return false
	}
	r.seen.Add(key, now)
	return true
}
