package dynamolite

import (
	"sync"

	"github.com/tidwall/btree"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// record is an item at rest. Neither it nor its item is ever changed: readers keep it past the lock.
type record struct {
	key  string // in the tree of its shard
	item value.Item
	size int // bytes of item, by AWS's rules
}

// shard is one lock and the items behind it, of a table or of an index.
type shard struct {
	mu    sync.RWMutex
	items btree.Map[string, *record]
	bytes int64 // sum of the sizes of items
}

func (s *shard) getLocked(key string) *record {
	r, _ := s.items.Get(key)
	return r
}

func (s *shard) setLocked(r *record) {
	if old, replaced := s.items.Set(r.key, r); replaced {
		s.bytes -= int64(old.size)
	}
	s.bytes += int64(r.size)
}

func (s *shard) deleteLocked(key string) {
	if old, deleted := s.items.Delete(key); deleted {
		s.bytes -= int64(old.size)
	}
}

func (s *shard) get(key string) *record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.getLocked(key)
}

// page reads records of a range in order, backwards if told, until limit records have been read
// (0: no limit) or their sizes exceed maxBytes; the record that crosses is still part of the page.
// More tells that the page ended for one of these reasons, which may be at the last record.
func (s *shard) page(r keyRange, backward bool, limit, maxBytes int) (records []*record, bytes int, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	take := func(rec *record) bool {
		records = append(records, rec)
		bytes += rec.size
		more = len(records) == limit || bytes > maxBytes
		return !more
	}
	if !backward {
		s.items.Ascend(r.low, func(key string, rec *record) bool {
			return key < r.high && take(rec)
		})
		return records, bytes, more
	}
	s.items.Descend(r.high, func(key string, rec *record) bool {
		return key >= r.high || key >= r.low && take(rec)
	})
	return records, bytes, more
}

// census is how many records a set of shards holds, and their bytes.
func census(shards []shard) (records, bytes int64) {
	for i := range shards {
		s := &shards[i]
		s.mu.RLock()
		records += int64(s.items.Len())
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
