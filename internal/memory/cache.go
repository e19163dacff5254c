package memory

import (
	"hash/maphash"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A Cache is a bounded map for concurrent use. It holds at most size entries and
// drops the least recently used ones. Its shards have a lock each and divide the size
// between them. An entry stays until its shard has seen as many other entries as it
// has room for. Memory grows with the number of entries.
//
// The cache hashes a key once, and the hash is the key of the underlying LRU. If two
// keys have the same hash, the cache keeps the last one put. Such a pair occurs only
// among billions of keys.
type Cache[K comparable, V any] struct {
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

// NewCache makes a cache of at most size entries, at least one.
func NewCache[K comparable, V any](size int) *Cache[K, V] {
	seed := maphash.MakeSeed()
	return newHashedCache[K, V](size, func(k K) uint64 { return maphash.Comparable(seed, k) })
}

// newHashedCache is newCache with a given hash function.
func newHashedCache[K comparable, V any](size int, hash func(K) uint64) *Cache[K, V] {
	n := cacheShards
	for n > max(1, size) {
		n /= 2
	}
	c := &Cache[K, V]{hash: hash, shards: make([]cacheShard[K, V], n)}
	for i := range c.shards {
		lru, err := simplelru.NewLRU[uint64, *cached[K, V]](max(1, (size+i)/n), nil)
		if err != nil {
			panic("memory: " + err.Error()) // NewLRU only refuses a size that is not positive
		}
		c.shards[i].lru = lru
	}
	return c
}

// find hashes a key and returns the shard that the key belongs to.
func (c *Cache[K, V]) find(k K) (*cacheShard[K, V], uint64) {
	h := c.hash(k)
	return &c.shards[h&uint64(len(c.shards)-1)], h
}

func (s *cacheShard[K, V]) getLocked(h uint64, k K) (v V, ok bool) {
	if e, ok := s.lru.Get(h); ok && e.key == k {
		return e.value, true
	}
	return v, false
}

// Get returns the value of k, if there is one.
func (c *Cache[K, V]) Get(k K) (V, bool) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.getLocked(h, k)
}

// GetOrPut returns the value of k, and builds it if there is none. The shard is
// locked meanwhile: build must be quick and must not use the cache.
func (c *Cache[K, V]) GetOrPut(k K, build func() V) V {
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

// Put keeps a value.
func (c *Cache[K, V]) Put(k K, v V) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Add(h, &cached[K, V]{k, v})
}

// Drop forgets the value of k.
func (c *Cache[K, V]) Drop(k K) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.getLocked(h, k); ok {
		s.lru.Remove(h)
	}
}

// Clear forgets all values.
func (c *Cache[K, V]) Clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.lru.Purge()
		s.mu.Unlock()
	}
}

// Len is the number of values.
func (c *Cache[K, V]) Len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.lru.Len()
		s.mu.Unlock()
	}
	return n
}
