package aggregator

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A peer's client that finds shard 0 of a bucket missing makes it anew, alone and full,
// whatever other shards there are. Neither its record nor theirs tells of both. So the
// shards of a bucket are looked at when a peer made shard 0, and now and then when others
// are told of and shard 0 is not.

// lookAgain is how long a look at all shards of a bucket holds.
const lookAgain = time.Minute

// lookForSiblings mends a bucket whose records do not tell whether shard 0 agrees with
// the others.
func (a *Aggregator) lookForSiblings(ctx context.Context, b *batch, bk *bucketGroup) error {
	last := bk.last()
	switch {
	case bk.anew:
		last.Shard = max(1, last.Shard)
	case !bk.isLone() || !a.looks.claim(bk.items[0].itemKey, b.now):
		return nil
	}
	return bk.limiter.Mend(ctx, last)
}

// A roll remembers when buckets were last looked at.
type roll struct {
	mu   sync.Mutex
	seen *simplelru.LRU[itemKey, time.Time]
}

func newRoll() *roll {
	seen, err := simplelru.NewLRU[itemKey, time.Time](watchedBuckets, nil)
	if err != nil {
		panic(err) // for a size of 0
	}
	return &roll{seen: seen}
}

// claim reports whether a bucket has not been looked at for a while, and notes that it is.
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

// last is the shard with the largest number that records tell of.
func (g *bucketGroup) last() (b limiter.Bucket) {
	b = limiter.Bucket{Entity: g.entity, Resource: g.resource}
	for _, it := range g.items {
		b.Shard = max(b.Shard, it.Shard)
	}
	return b
}

// isLone reports whether the records tell of other shards and not of shard 0, so that
// nothing tells whether that agrees with them.
func (g *bucketGroup) isLone() bool {
	for _, it := range g.items {
		if it.Shard == 0 {
			return false
		}
	}
	return true
}

// isMadeByPeer reports whether a record tells of a shard 0 that a peer made as the only
// one: this library's writes to an item all count, the first one too.
func isMadeByPeer(r *dynamo.Record) bool {
	return r.Old == nil && r.New != nil && r.New.Shard == 0 && r.New.ShardCount == 1 && r.New.Writes.Consumed == 0
}
