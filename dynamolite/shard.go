package dynamolite

import (
	"sync"

	"github.com/google/btree"
)

// shard is one lock and the items that it guards, of a table or of an index.
//
// A map finds single items; its lookup takes equally long for a thousand and for a million. A
// tree gives the items in order. Both point to the item's cell, so a write to an existing item
// changes neither (ADR 008).
type shard struct {
	mu    sync.RWMutex
	cells map[string]*cell
	order *tree // nil until the shard has an item
	bytes int64 // sum of the sizes of items
	// latest is the place of the shard's last write in the order of all writes, 0 without one.
	// Once the journal is on disk up to this place, everything that a reader has seen here is on
	// disk.
	latest position
	// taken holds the keys of the items that a transaction is about to write. Others must not
	// write them.
	taken map[string]struct{}
	// frozen holds the former records of the cells that were written since the shard was frozen.
	// It is nil if no reader of the frozen shard is left.
	frozen map[*cell]*record
}

// cell is the place of the item of a key. Its record changes, except in a frozen tree.
type cell struct {
	key    string
	record *record
}

// tree holds cells in the order of their keys. Cloning it costs nothing: later insertions and
// deletions, in either tree, copy the nodes on their path.
type tree = btree.BTreeG[*cell]

// degree is half of the maximum number of cells in a node.
const degree = 32

// newTree shares no free nodes with other trees, because a shared list of them would need a lock.
func newTree() *tree {
	return btree.NewWithFreeListG(degree, func(a, b *cell) bool { return a.key < b.key }, btree.NewFreeListG[*cell](0))
}

func (s *shard) getLocked(key string) *record {
	if c := s.cells[key]; c != nil {
		return c.record
	}
	return nil
}

// ascendLocked reads the records of a range in order until do returns false. A range without an
// end has high "".
func (s *shard) ascendLocked(r keyRange, do func(*record) bool) {
	if s.order == nil {
		return
	}
	each := func(c *cell) bool { return do(c.record) }
	if r.high == "" {
		s.order.AscendGreaterOrEqual(&cell{key: r.low}, each)
	} else {
		s.order.AscendRange(&cell{key: r.low}, &cell{key: r.high}, each)
	}
}

// takenLocked reports whether a transaction is about to write the item.
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
	s.latest = max(s.latest, pos)
	s.bytes += int64(r.size)
	if c := s.cells[r.key]; c != nil {
		s.bytes -= int64(c.record.size)
		s.keepLocked(c)
		c.record = r
		return
	}
	if s.cells == nil {
		s.cells, s.order = map[string]*cell{}, newTree()
	}
	c := &cell{key: r.key, record: r}
	s.cells[c.key] = c
	s.order.ReplaceOrInsert(c)
}

func (s *shard) deleteLocked(key string, pos position) {
	s.latest = max(s.latest, pos)
	c := s.cells[key]
	if c == nil {
		return
	}
	s.bytes -= int64(c.record.size)
	delete(s.cells, key)
	s.order.Delete(c)
}

// freezeLocked returns the items in order as they are now. Read them with [shard.frozenPage],
// then call thaw. A shard cannot be frozen twice at the same time.
func (s *shard) freezeLocked() *tree {
	if s.order == nil {
		return nil
	}
	s.frozen = map[*cell]*record{}
	return s.order.Clone()
}

// keepLocked keeps the record of a cell for the reader of the frozen shard.
func (s *shard) keepLocked(c *cell) {
	if s.frozen == nil {
		return
	}
	if _, kept := s.frozen[c]; !kept {
		s.frozen[c] = c.record
	}
}

// frozenPage reads records of a frozen shard from a key on, at most 256, until do returns false.
// Next is the key to continue from if there may be more.
func (s *shard) frozenPage(frozen *tree, from string, do func(*record) bool) (next string, more bool) {
	const most = 256
	s.mu.RLock()
	defer s.mu.RUnlock()
	n, enough := 0, false
	frozen.AscendGreaterOrEqual(&cell{key: from}, func(c *cell) bool {
		if n == most || enough {
			next, more = c.key, true
			return false
		}
		n++
		r, kept := s.frozen[c]
		if !kept {
			r = c.record
		}
		enough = !do(r)
		return true
	})
	return next, more
}

// thaw forgets the frozen state.
func (s *shard) thaw() {
	s.mu.Lock()
	s.frozen = nil
	s.mu.Unlock()
}

func (s *shard) get(c *call, key string) *record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c.sees(s.latest)
	return s.getLocked(key)
}

// page reads records of a range in order, optionally backwards. It stops when limit records have
// been read (0: no limit) or their sizes exceed maxBytes; the record that crosses the limit is
// still part of the page. More reports that the page ended for one of these reasons, perhaps at
// the last record.
func (s *shard) page(c *call, r keyRange, backward bool, limit, maxBytes int) (records []*record, bytes int, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c.sees(s.latest)
	take := func(rec *record) bool {
		records = append(records, rec)
		bytes += rec.size
		more = len(records) == limit || bytes > maxBytes
		return !more
	}
	switch {
	case s.order == nil:
	case !backward:
		s.ascendLocked(r, take)
	default:
		s.order.DescendLessOrEqual(&cell{key: r.high}, func(c *cell) bool {
			return c.key >= r.high || c.key >= r.low && take(c.record)
		})
	}
	return records, bytes, more
}

// census returns the number of records in a set of shards, and their bytes.
func census(shards []shard) (records, bytes int64) {
	for i := range shards {
		s := &shards[i]
		s.mu.RLock()
		records += int64(len(s.cells))
		bytes += s.bytes
		s.mu.RUnlock()
	}
	return records, bytes
}

// keyRange is the keys from low up to but not including high.
type keyRange struct{ low, high string }

func (r keyRange) contains(key string) bool { return r.low <= key && key < r.high }

// prefixEnd returns the lowest string above all strings with a prefix. The prefix is an encoded
// key or a part of one, which never consists of 0xFF alone.
func prefixEnd(prefix string) string {
	last := len(prefix) - 1
	for prefix[last] == 0xFF {
		last--
	}
	return prefix[:last] + string([]byte{prefix[last] + 1})
}

// shardOf spreads partition keys over n shards (FNV-1a). It is the same in every process, so that
// runs are repeatable.
func shardOf(partition []byte, n int) int {
	h := uint32(2166136261)
	for _, b := range partition {
		h = (h ^ uint32(b)) * 16777619
	}
	return int(h % uint32(n))
}
