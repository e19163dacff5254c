package memory

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// NewHashedCache returns a new cache with its own hash function.
func NewHashedCache[K comparable, V any](size int, hash func(K) uint64) *Cache[K, V] {
	return newHashedCache[K, V](size, hash)
}

// Shards returns the number of shards.
func (c *Cache[K, V]) Shards() int { return len(c.shards) }

// Places is how many entries the cache has had room for.
func (c *Cache[K, V]) Places() (n int) {
	for i := range c.shards {
		n += int(c.shards[i].entries.last)
	}
	return n
}

// Together reports whether two keys share a shard.
func (c *Cache[K, V]) Together(k, other K) bool {
	s, _ := c.find(k)
	o, _ := c.find(other)
	return s == o
}

// Has looks for an entry without using it.
func (c *Cache[K, V]) Has(k K) bool {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries.find(h, k) != 0
}

// Writes are the writes of one process to one item.
type Writes struct{ acct Account }

// Begin sends one write. The returned function processes the answer: the item's count,
// whether the write was applied, and when the answer came.
func (w *Writes) Begin(up time.Duration) func(count int64, applied bool, up time.Duration) {
	sent := w.acct.BeginWrite(0, StampUse{}, up)
	return func(count int64, applied bool, up time.Duration) {
		img := &store.Image{Writes: store.LimitState{Consumed: count * plan.WriteCost}}
		w.acct.EndWrite(sent, store.Outcome{Applied: applied, Image: img}, nil, Moment{Up: up}, func(int64) int64 { return 0 })
	}
}

// Shared reports whether others write to the item too.
func (w *Writes) Shared(up time.Duration) bool { return w.acct.IsSharedShard(0, up) }
