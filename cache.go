package limiter

import (
	"hash/maphash"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A cache is a bounded map for many goroutines: of size entries, it drops those
// not used for longest. It is made of shards with a lock each, which divide the
// size between them; an entry stays until its shard has seen as many others as
// it has room for. Memory grows with the entries.
type cache[K comparable, V any] struct {
	seed   maphash.Seed
	shards []cacheShard[K, V] // a power of two
}

// cacheShards is the most shards that a cache has: one smaller than that has
// fewer, so that each has room for an entry.
const cacheShards = 16

type cacheShard[K comparable, V any] struct {
	mu  sync.Mutex
	lru *simplelru.LRU[K, V]
}

// newCache makes a cache of at most size entries, at least one.
func newCache[K comparable, V any](size int) *cache[K, V] {
	n := cacheShards
	for n > max(1, size) {
		n /= 2
	}
	c := &cache[K, V]{seed: maphash.MakeSeed(), shards: make([]cacheShard[K, V], n)}
	for i := range c.shards {
		lru, err := simplelru.NewLRU[K, V](max(1, (size+i)/n), nil)
		if err != nil {
			panic("limiter: " + err.Error()) // it only refuses a size that is not positive
		}
		c.shards[i].lru = lru
	}
	return c
}

func (c *cache[K, V]) shard(k K) *cacheShard[K, V] {
	return &c.shards[maphash.Comparable(c.seed, k)&uint64(len(c.shards)-1)]
}

func (c *cache[K, V]) get(k K) (V, bool) {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lru.Get(k)
}

// getOrPut returns the value of k, which is built if there is none. The shard is
// locked meanwhile: build must be quick, and may not use the cache.
func (c *cache[K, V]) getOrPut(k K, build func() V) V {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.lru.Get(k)
	if !ok {
		v = build()
		s.lru.Add(k, v)
	}
	return v
}

func (c *cache[K, V]) put(k K, v V) {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Add(k, v)
}

func (c *cache[K, V]) drop(k K) {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Remove(k)
}

func (c *cache[K, V]) clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.lru.Purge()
		s.mu.Unlock()
	}
}

func (c *cache[K, V]) len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.lru.Len()
		s.mu.Unlock()
	}
	return n
}
