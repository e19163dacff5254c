package aggregator

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/store"
)

// If a peer's client finds shard 0 of a bucket missing, it creates that shard as the only
// one, full, even if other shards exist. No single record shows both. So the aggregator
// reads the shards of a bucket when a peer created shard 0. It also does so now and then
// when records are about other shards but not about shard 0.

// lookAgain is the minimum time between two looks at all shards of a bucket.
const lookAgain = time.Minute

// lookForSiblings mends a bucket if its records do not show whether shard 0 agrees with the
// others.
func (a *Aggregator) lookForSiblings(ctx context.Context, b *batch, bk *bucketGroup) error {
	last := bk.last()
	switch {
	case bk.anew:
		last.Shard = max(1, last.Shard)
	case !bk.isLone() || !a.looks.claim(bk.items[0].itemKey, b.now):
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

// last is the shard with the highest number in the records.
func (g *bucketGroup) last() (b store.Bucket) {
	b = store.Bucket{Entity: g.entity, Resource: g.resource}
	for _, it := range g.items {
		b.Shard = max(b.Shard, it.Shard)
	}
	return b
}

// isLone reports whether the records are about other shards but not about shard 0, so that
// they do not show whether shard 0 agrees.
func (g *bucketGroup) isLone() bool {
	for _, it := range g.items {
		if it.Shard == 0 {
			return false
		}
	}
	return true
}

// isMadeByPeer reports whether a record shows a shard 0 that a peer created as the only
// one. It recognizes it by the write count: this library counts every write to an item,
// including the first.
func isMadeByPeer(r *stream.Record) bool {
	return r.Old == nil && r.New != nil && r.New.Shard == 0 && r.New.ShardCount == 1 && r.New.Writes.Consumed == 0
}
