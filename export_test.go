package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Settle waits for work that goes on after calls have returned. It polls so often that
// the clock of a bubble hardly moves.
func (l *Limiter) Settle() {
	const most = 256 * time.Microsecond
	for d := time.Microsecond; l.underWay.UnderWay() > 0; d = min(2*d, most) {
		time.Sleep(d)
	}
}

// Cache is the bounded map behind the limiter's memories.
type Cache[K comparable, V any] = cache[K, V]

// NewCache returns a new cache.
func NewCache[K comparable, V any](size int) *Cache[K, V] { return newCache[K, V](size) }

// NewHashedCache returns a new cache with its own hash function.
func NewHashedCache[K comparable, V any](size int, hash func(K) uint64) *Cache[K, V] {
	return newHashedCache[K, V](size, hash)
}

func (c *cache[K, V]) Get(k K) (V, bool)              { return c.get(k) }
func (c *cache[K, V]) GetOrPut(k K, build func() V) V { return c.getOrPut(k, build) }
func (c *cache[K, V]) Put(k K, v V)                   { c.put(k, v) }
func (c *cache[K, V]) Drop(k K)                       { c.drop(k) }
func (c *cache[K, V]) Clear()                         { c.clear() }
func (c *cache[K, V]) Len() int                       { return c.len() }

// Shards returns the number of shards.
func (c *cache[K, V]) Shards() int { return len(c.shards) }

// Together reports whether two keys share a shard.
func (c *cache[K, V]) Together(k, other K) bool {
	s, _ := c.find(k)
	o, _ := c.find(other)
	return s == o
}

// Has looks for an entry without using it.
func (c *cache[K, V]) Has(k K) bool {
	s, h := c.find(k)
	return s.lru.Contains(h)
}

// Widen doubles the number of shards of a bucket.
func (l *Limiter) Widen(ctx context.Context, entity, resource string) {
	acct := l.account(entity, resource)
	_, _ = l.widen(ctx, acct, Bucket{Entity: entity, Resource: resource}, acct.shardCount(), nil)
}

// Hopeless returns the decision of a refusal from memory.
func (l *Limiter) Hopeless(req *Request) bool {
	_, hopeless := l.isHopeless(req, l.moment())
	return hopeless
}

// Share makes a limiter believe that others write to shards of a bucket too.
func (l *Limiter) Share(b Bucket, shards int) {
	acct := l.account(b.Entity, b.Resource)
	acct.mu.Lock()
	defer acct.mu.Unlock()
	for i := range shards {
		acct.shardLocked(i).contention.othersAt = l.uptime()
	}
}

// Writes are the writes of one process to one item.
type Writes struct{ acct account }

// Begin sends one write. The returned function processes the answer: the item's count,
// whether the write was applied, and when the answer came.
func (w *Writes) Begin(up time.Duration) func(count int64, applied bool, up time.Duration) {
	sent := w.acct.beginWrite(0, stampUse{}, up)
	return func(count int64, applied bool, up time.Duration) {
		img := &store.Image{Writes: store.LimitState{Consumed: count * plan.WriteCost}}
		w.acct.endWrite(sent, store.Outcome{Applied: applied, Image: img}, nil, moment{up: up}, func(int64) int64 { return 0 })
	}
}

// Shared reports whether others write to the item too.
func (w *Writes) Shared(up time.Duration) bool { return w.acct.isSharedShard(0, up) }

// IsShared reports whether a limiter knows that others write to a bucket too.
func (l *Limiter) IsShared(b Bucket) bool {
	return l.account(b.Entity, b.Resource).isShared(l.uptime())
}

// IsBehind reports whether an image is an earlier one of the same item.
func IsBehind(i, other *store.Image) bool { return plan.IsBehind(i, other) }
