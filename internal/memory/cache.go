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
// A process pays for each bucket and each level that it remembers, so an entry is small, and one
// piece: 24 bytes besides its key and value, and 4 to 8 for the table of hashes. A map of the
// language with a list beside it takes 32 bytes more, and each entry is a piece of the heap of its
// own. Between such pieces garbage leaves holes, which a process cannot return (ADR 078).
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
	mu      sync.Mutex
	entries entries[K, V]
	size    int
	// Each entry is in one of two lists in the order of use.
	probation, protected list
	// kept is the number of protected entries. It is at most most, which is below size: so a
	// full shard has an entry on probation that it can drop.
	kept, most int
	made       uint32 // new entries so far; it may wrap
	apart      uint32 // new entries between two uses that count
}

// A list is in the order of use. Both places are 0 if it is empty.
type list struct{ newest, oldest place }

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
	p := s.entries.find(h, k)
	if p == 0 {
		return nil
	}
	s.useLocked(p)
	return s.entries.at(p)
}

// useLocked makes an entry the last one used, and protects it if it was new some time ago.
func (s *cacheShard[K, V]) useLocked(p place) {
	e := s.entries.at(p)
	s.unlinkLocked(p)
	if !e.protected && s.made-e.number >= s.apart {
		s.protectLocked(e)
	}
	s.linkLocked(p)
}

// protectLocked makes room for an entry that is to be protected. A shard of one entry never
// needs it: its entry is the newest one.
func (s *cacheShard[K, V]) protectLocked(e *cached[K, V]) {
	e.protected = true
	if s.kept < s.most {
		s.kept++
		return
	}
	oldest := s.protected.oldest
	s.unlinkLocked(oldest)
	s.entries.at(oldest).protected = false
	s.linkLocked(oldest)
}

// putLocked keeps a value, in the entry of its key or in a new one. If there is no room, the new
// one replaces the entry on probation that was not used for longest.
func (s *cacheShard[K, V]) putLocked(h uint64, k K, v V) {
	if e := s.getLocked(h, k); e != nil {
		e.value = v
		return
	}
	if s.entries.n == s.size {
		s.dropLocked(s.probation.oldest)
	}
	s.made++
	s.linkLocked(s.entries.add(h, cached[K, V]{key: k, value: v, number: s.made}))
}

func (s *cacheShard[K, V]) dropLocked(p place) {
	if s.entries.at(p).protected {
		s.kept--
	}
	s.unlinkLocked(p)
	s.entries.remove(p)
}

func (s *cacheShard[K, V]) clearLocked() {
	s.entries, s.probation, s.protected, s.kept = entries[K, V]{}, list{}, list{}, 0
}

// listOf is the list that an entry is in, or is to be in.
func (s *cacheShard[K, V]) listOf(e *cached[K, V]) *list {
	if e.protected {
		return &s.protected
	}
	return &s.probation
}

// linkLocked makes an entry the last one used of its list.
func (s *cacheShard[K, V]) linkLocked(p place) {
	e := s.entries.at(p)
	l := s.listOf(e)
	e.newer, e.older = 0, l.newest
	if l.newest == 0 {
		l.oldest = p
	} else {
		s.entries.at(l.newest).newer = p
	}
	l.newest = p
}

func (s *cacheShard[K, V]) unlinkLocked(p place) {
	e := s.entries.at(p)
	l := s.listOf(e)
	if e.newer == 0 {
		l.newest = e.older
	} else {
		s.entries.at(e.newer).older = e.older
	}
	if e.older == 0 {
		l.oldest = e.newer
	} else {
		s.entries.at(e.older).newer = e.newer
	}
}

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
	s.putLocked(h, k, v)
	return v
}

// Put keeps a value.
func (c *Cache[K, V]) Put(k K, v V) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(h, k, v)
}

// Drop forgets the value of k.
func (c *Cache[K, V]) Drop(k K) {
	s, h := c.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.entries.find(h, k); p != 0 {
		s.dropLocked(p)
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
		n += s.entries.n
		s.mu.Unlock()
	}
	return n
}
