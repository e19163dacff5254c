package dynamolite

import (
	"sync"

	"github.com/google/btree"
)

// shard is one lock and the items behind it, of a table or of an index.
type shard struct {
	mu    sync.RWMutex
	items *tree // nil until something is in it
	bytes int64 // sum of the sizes of items
	// latest is the place of the last write in the order of all, 0 without one: what a reader has
	// seen here is on disk when the journal is, up to there.
	latest position
	// taken are the items, by key, that a transaction is about to write. Others leave them alone.
	taken map[string]struct{}
}

// tree holds records in the order of their keys. Cloning it costs nothing: what is written
// afterwards, to either, copies the nodes on its way.
type tree = btree.BTreeG[place]

// place is a record in a tree, beside its key so that a search touches no record but the one it is after.
type place struct {
	key    string
	record *record
}

// degree is half of how many entries a node holds at most.
const degree = 32

// newTree shares no free nodes with other trees: a list of them would have a lock.
func newTree() *tree {
	return btree.NewWithFreeListG(degree, func(a, b place) bool { return a.key < b.key }, btree.NewFreeListG[place](0))
}

func (s *shard) getLocked(key string) *record {
	if s.items == nil {
		return nil
	}
	e, _ := s.items.Get(place{key: key})
	return e.record
}

func (s *shard) len() int {
	if s.items == nil {
		return 0
	}
	return s.items.Len()
}

// takenLocked tells whether a transaction is about to write the item.
func (s *shard) takenLocked(key string) bool {
	_, ok := s.taken[key]
	return ok
}

func (s *shard) takeLocked(key string) {
	if s.taken == nil {
		s.taken = map[string]struct{}{}
	}
	s.taken[key] = struct{}{}
}

func (s *shard) releaseLocked(key string) { delete(s.taken, key) }

func (s *shard) setLocked(r *record, pos position) {
	if s.items == nil {
		s.items = newTree()
	}
	s.latest = max(s.latest, pos)
	if old, replaced := s.items.ReplaceOrInsert(place{r.key, r}); replaced {
		s.bytes -= int64(old.record.size)
	}
	s.bytes += int64(r.size)
}

func (s *shard) deleteLocked(key string, pos position) {
	s.latest = max(s.latest, pos)
	if s.items == nil {
		return
	}
	if old, deleted := s.items.Delete(place{key: key}); deleted {
		s.bytes -= int64(old.record.size)
	}
}

func (s *shard) get(c *call, key string) *record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c.sees(s.latest)
	return s.getLocked(key)
}

// page reads records of a range in order, backwards if told, until limit records have been read
// (0: no limit) or their sizes exceed maxBytes; the record that crosses is still part of the page.
// More tells that the page ended for one of these reasons, which may be at the last record.
func (s *shard) page(c *call, r keyRange, backward bool, limit, maxBytes int) (records []*record, bytes int, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c.sees(s.latest)
	if s.items == nil {
		return nil, 0, false
	}
	take := func(e place) bool {
		records = append(records, e.record)
		bytes += e.record.size
		more = len(records) == limit || bytes > maxBytes
		return !more
	}
	if !backward {
		s.items.AscendRange(place{key: r.low}, place{key: r.high}, take)
		return records, bytes, more
	}
	s.items.DescendLessOrEqual(place{key: r.high}, func(e place) bool {
		return e.key >= r.high || e.key >= r.low && take(e)
	})
	return records, bytes, more
}

// census is how many records a set of shards holds, and their bytes.
func census(shards []shard) (records, bytes int64) {
	for i := range shards {
		s := &shards[i]
		s.mu.RLock()
		records += int64(s.len())
		bytes += s.bytes
		s.mu.RUnlock()
	}
	return records, bytes
}

// keyRange is the keys from low up to but not including high.
type keyRange struct{ low, high string }

func (r keyRange) contains(key string) bool { return r.low <= key && key < r.high }

// prefixEnd is the least string above all that begin with an encoded key or a part of one, which
// never consists of 0xFF alone.
func prefixEnd(prefix string) string {
	last := len(prefix) - 1
	for prefix[last] == 0xFF {
		last--
	}
	return prefix[:last] + string([]byte{prefix[last] + 1})
}

// shardOf spreads partition keys over n shards (FNV-1a). It is the same in every process, so that a
// run can be repeated.
func shardOf(partition []byte, n int) int {
	h := uint32(2166136261)
	for _, b := range partition {
		h = (h ^ uint32(b)) * 16777619
	}
	return int(h % uint32(n))
}
