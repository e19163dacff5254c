package limiter

import (
	"hash/maphash"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A cache is a bounded map for concurrent use. It holds at most size entries and
// drops the least recently used ones. Its shards have a lock each and divide the size
// between them. An entry stays until its shard has seen as many other entries as it
// has room for. Memory grows with the number of entries.
//
// The cache hashes a key once, and the hash is the key of the underlying LRU. If two
// keys have the same hash, the cache keeps the last one put. Such a pair occurs only
// among billions of keys.
type cache[K comparable, V any] struct {
	hash   func(K) uint64
	shards []cacheShard[K, V] // their number is a power of two
}

// cacheShards is the most shards that a cache has. A cache with fewer entries has
// fewer shards, so that each shard has room for an entry.
const cacheShards = 16

type cacheShard[K comparable, V any] struct {
	mu  sync.Mutex
	lru *simplelru.LRU[uint64, *cached[K, V]]
}

type cached[K comparable, V any] struct {
	key   K
	value V
}

// newCache makes a cache of at most size entries, at least one.
func newCache[K comparable, V any](size int) *cache[K, V] {
	seed := maphash.MakeSeed()
	return newHashedCache[K, V](size, func(k K) uint64 { return maphash.Comparable(seed, k) })
}

// newHashedCache is newCache with a given hash function.
func newHashedCache[K comparable, V any](size int, hash func(K) uint64) *cache[K, V] {
	n := cacheShards
	for n > max(1, size) {
		n /= 2
	}
	c := &cache[K, V]{hash: hash, shards: make([]cacheShard[K, V], n)}
	for i := range c.shards {
		lru, err := simplelru.NewLRU[uint64, *cached[K, V]](max(1, (size+i)/n), nil)
		if err != nil {
			panic("limiter: " + err.Error()) // NewLRU only refuses a size that is not positive
		}
		c.shards[i].lru = lru
	}
	return c
}

// find hashes a key and returns the shard that the key belongs to.
func (c *cache[K, V]) find(k K) (*cacheShard[K, V], uint64) {
	h := c.hash(k)
	return &c.shards[h&uint64(len(c.shards)-1)], h
}

func (s *cacheShard[K, V]) getLocked(h uint64, k K) (v V, ok bool) {
	if e, ok := s.lru.Get(h); ok && e.key == k {
		return e.value, true
	}
	return v, false
}

func (c *cache[K, V]) get(k K) (V, bool) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.getLocked(h, k)
}

// getOrPut returns the value of k, and builds it if there is none. The shard is
// locked meanwhile: build must be quick and must not use the cache.
func (c *cache[K, V]) getOrPut(k K, build func() V) V {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.getLocked(h, k)
	if !ok {
		v = build()
		s.lru.Add(h, &cached[K, V]{k, v})
	}
	return v
}

func (c *cache[K, V]) put(k K, v V) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Add(h, &cached[K, V]{k, v})
}

func (c *cache[K, V]) drop(k K) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.getLocked(h, k); ok {
		s.lru.Remove(h)
	}
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
