package memory

import (
	"hash/maphash"
	"sync"
)

// A Cache is a bounded map for concurrent use. It holds at most size entries, and drops those
// first that were used once. Its shards have a lock each and divide the size between them.
// Memory grows with the number of entries.
//
// In a cache that drops what was not used for longest, whoever asks for enough keys drives all
// others out: an attacker who invents entities makes a process forget its busy buckets. Here a
// new entry is on probation. If it is used again later, it is protected, and strangers only
// drive out what is on probation, at least an eighth of the entries. Where too many are
// protected, the one not used for longest is on probation again.
//
// One acquire uses an entry several times, a stranger's too. So only a use counts that comes
// after some other new entries, a sixteenth of the size. While few entries are new, nothing is
// protected, and nothing is dropped either.
//
// The cache hashes a key once, and finds the entry by the hash. If two keys have the
// same hash, the cache keeps the last one put. Such a pair occurs only among billions
// of keys.
//
// An entry has its key and value, and its place in the order of use: one allocation for
// all. The list of a library has twice the size, which a process pays for each bucket
// and each level that it remembers.
type Cache[K comparable, V any] struct {
	hash   func(K) uint64
	shards []cacheShard[K, V] // their number is a power of two
}

// cacheShards is the most shards that a cache has. A cache with fewer entries has
// fewer shards, so that each shard has room for an entry.
const cacheShards = 16

// The parts of a cache.
const (
	probationPart = 8  // an eighth of the entries, at least, is on probation
	apartPart     = 16 // a sixteenth of new entries is between two uses that count
)

type cacheShard[K comparable, V any] struct {
	mu     sync.Mutex
	size   int
	byHash map[uint64]*cached[K, V]
	// probation and protected are the heads of two rings in the order of use: next is the last
	// one used, and prev the one that was not used for longest. Each entry of byHash is in one.
	probation, protected cached[K, V]
	// kept is the number of protected entries. It is at most most, which is below size: so a
	// full shard has an entry on probation that it can drop.
	kept, most int
	made       uint32 // new entries so far; it may wrap
	apart      uint32 // new entries between two uses that count
}

// A cached is an entry, linked with its neighbours in the order of use.
type cached[K comparable, V any] struct {
	prev, next *cached[K, V]
	key        K
	value      V
	number     uint32 // see [cacheShard.made]; of this entry
	protected  bool
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
		s := &c.shards[i]
		s.size = max(1, (size+i)/n)
		s.most = s.size - max(1, s.size/probationPart)
		s.apart = uint32(max(1, s.size/apartPart))
		s.clearLocked()
	}
	return c
}

// find hashes a key and returns the shard that the key belongs to.
func (c *Cache[K, V]) find(k K) (*cacheShard[K, V], uint64) {
	h := c.hash(k)
	return &c.shards[h&uint64(len(c.shards)-1)], h
}

// getLocked returns an entry that is now the last one used; nil if there is none.
func (s *cacheShard[K, V]) getLocked(h uint64, k K) *cached[K, V] {
	e := s.byHash[h]
	if e == nil || e.key != k {
		return nil
	}
	s.useLocked(e)
	return e
}

// useLocked makes an entry the last one used, and protects it if it was new some time ago.
func (s *cacheShard[K, V]) useLocked(e *cached[K, V]) {
	e.unlink()
	if !e.protected && s.made-e.number >= s.apart {
		s.protectLocked(e)
	}
	ring := &s.probation
	if e.protected {
		ring = &s.protected
	}
	e.link(ring)
}

// protectLocked makes room for an entry that is to be protected. A shard of one entry never
// needs it: its entry is the newest one.
func (s *cacheShard[K, V]) protectLocked(e *cached[K, V]) {
	e.protected = true
	if s.kept < s.most {
		s.kept++
		return
	}
	oldest := s.protected.prev
	oldest.protected = false
	oldest.unlink()
	oldest.link(&s.probation)
}

// putLocked keeps a value, in the entry of its key or in a new one. That replaces an entry of the
// same hash. Otherwise, if there is no room, it replaces the entry on probation that was not used
// for longest.
func (s *cacheShard[K, V]) putLocked(h uint64, k K, v V, hash func(K) uint64) {
	if e := s.getLocked(h, k); e != nil {
		e.value = v
		return
	}
	if e := s.byHash[h]; e != nil {
		s.dropLocked(h, e)
	} else if len(s.byHash) == s.size {
		oldest := s.probation.prev
		s.dropLocked(hash(oldest.key), oldest)
	}
	s.made++
	e := &cached[K, V]{key: k, value: v, number: s.made}
	s.byHash[h] = e
	e.link(&s.probation)
}

func (s *cacheShard[K, V]) dropLocked(h uint64, e *cached[K, V]) {
	if e.protected {
		s.kept--
	}
	e.unlink()
	delete(s.byHash, h)
}

func (s *cacheShard[K, V]) clearLocked() {
	s.byHash, s.kept = make(map[uint64]*cached[K, V]), 0
	for _, ring := range []*cached[K, V]{&s.probation, &s.protected} {
		ring.prev, ring.next = ring, ring
	}
}

// link makes an entry the last one used of a ring.
func (e *cached[K, V]) link(ring *cached[K, V]) {
	e.prev, e.next = ring, ring.next
	e.prev.next, e.next.prev = e, e
}

func (e *cached[K, V]) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// Get returns the value of k, if there is one.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.getLocked(h, k); e != nil {
		return e.value, true
	}
	return v, false
}

// GetOrPut returns the value of k, and builds it if there is none. The shard is
// locked meanwhile: build must be quick and must not use the cache.
func (c *Cache[K, V]) GetOrPut(k K, build func() V) V {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.getLocked(h, k); e != nil {
		return e.value
	}
	v := build()
	s.putLocked(h, k, v, c.hash)
	return v
}

// Put keeps a value.
func (c *Cache[K, V]) Put(k K, v V) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(h, k, v, c.hash)
}

// Drop forgets the value of k.
func (c *Cache[K, V]) Drop(k K) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.getLocked(h, k); e != nil {
		s.dropLocked(h, e)
	}
}

// Clear forgets all values.
func (c *Cache[K, V]) Clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.clearLocked()
		s.mu.Unlock()
	}
}

// Len is the number of values.
func (c *Cache[K, V]) Len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += len(s.byHash)
		s.mu.Unlock()
	}
	return n
}
