package limiter

import (
	"hash/maphash"
	"sync"
)

// A cache is a bounded map for many goroutines. It holds two generations: what
// is used moves to the young one, and when that is full the old one is
// dropped. So it keeps at most size entries and never drops one used among the
// last size/2: all that is asked of an LRU here, at the price of a map lookup.
type cache[K comparable, V any] struct {
	seed   maphash.Seed
	shards [cacheShards]generations[K, V]
}

const cacheShards = 16

type generations[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V
	half       int
}

func newCache[K comparable, V any](size int) *cache[K, V] {
	c := &cache[K, V]{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].young = make(map[K]V)
		c.shards[i].half = max(1, size/cacheShards/2)
	}
	return c
}

func (c *cache[K, V]) shard(k K) *generations[K, V] {
	return &c.shards[maphash.Comparable(c.seed, k)%cacheShards]
}

func (c *cache[K, V]) get(k K) (V, bool) {
	g := c.shard(k)
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.young[k]
	if ok {
		return v, true
	}
	if v, ok = g.old[k]; ok {
		g.putLocked(k, v)
	}
	return v, ok
}

// getOrPut returns the value of k, which is built if there is none.
func (c *cache[K, V]) getOrPut(k K, build func() V) V {
	if v, ok := c.get(k); ok {
		return v
	}
	g := c.shard(k)
	g.mu.Lock()
	defer g.mu.Unlock()
	if v, ok := g.young[k]; ok {
		return v
	}
	v := build()
	g.putLocked(k, v)
	return v
}

func (c *cache[K, V]) put(k K, v V) {
	g := c.shard(k)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.putLocked(k, v)
}

func (c *cache[K, V]) drop(k K) {
	g := c.shard(k)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.young, k)
	delete(g.old, k)
}

func (c *cache[K, V]) clear() {
	for i := range c.shards {
		g := &c.shards[i]
		g.mu.Lock()
		clear(g.young)
		g.old = nil
		g.mu.Unlock()
	}
}

func (c *cache[K, V]) len() int {
	n := 0
	for i := range c.shards {
		g := &c.shards[i]
		g.mu.Lock()
		n += len(g.young)
		for k := range g.old {
			if _, ok := g.young[k]; !ok {
				n++
			}
		}
		g.mu.Unlock()
	}
	return n
}

func (g *generations[K, V]) putLocked(k K, v V) {
	if len(g.young) >= g.half {
		if _, ok := g.young[k]; !ok {
			g.old, g.young = g.young, make(map[K]V, g.half)
		}
	}
	g.young[k] = v
}
