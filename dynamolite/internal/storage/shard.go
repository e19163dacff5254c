// Package storage holds items at rest: records, the shards that guard them, and the keys under which
// they are found.
//
// Invariants: a record never changes; a write puts another one in its place, so a reader may keep a
// record after it has released the lock. The tree of a shard has exactly the cells of its map. A
// shard remembers its latest write, so whoever reads it knows what its answer must wait for.
package storage

import (
	"strings"
	"sync"

	"github.com/google/btree"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// Shards is how many locks a table or an index has. The partition key spreads the records over them.
const Shards = 64

// Shard is one lock and the items that it guards, of a table or of an index.
//
// A map finds single items; its lookup takes equally long for a thousand and for a million. A
// tree gives the items in order. Both point to the item's cell, so a write to an existing item
// changes neither (ADR 008).
//
// The naive design is the map alone, sorted for each Query. A page would then cost as much as the
// whole shard. A tree alone has the order, but finds a single item only after some twenty
// comparisons of keys, each in another cache line, and single items are most of the load.
//
// A shard can be frozen, so that a checkpoint reads it while writes go on. The naive design copies
// the shard under its lock, and every caller waits for as long as the data is large. Cloning the
// tree costs nothing, but both trees share the cells. A write therefore keeps the record that it
// replaces, once:
//
//	checkpoint   lock · clone the tree · unlock          read a: kept      thaw
//	write                                       keep a · put a'      put a″
//
// New cells are not in the clone, and deleted ones stay in it, so only replaced records are kept.
type Shard struct {
	// Mu guards all fields. Methods that end in Locked need it; the others take it.
	Mu sync.RWMutex
	// cells and order have the same cells, each under its record's key.
	cells map[string]*cell
	order *Tree // nil until the shard has an item
	Bytes int64 // sum of the sizes of the records in cells
	// Latest is the place of the shard's last write in the order of all writes, 0 without one.
	// Once the journal is on disk up to this place, everything that a reader has seen here is on
	// disk.
	Latest journal.Position
	// taken holds the keys of the items that a transaction is about to write. Others must not
	// write them. A key may be taken before an item has it: the transaction may be about to put it.
	taken map[string]struct{}
	// frozen holds the former records of the cells that were written since the shard was frozen.
	// It is nil if no reader of the frozen shard is left.
	frozen map[*cell]*Record
}

// cell is the place of the item of a key. A write replaces its record under the lock of the shard.
// Its key never changes, so the order of a tree that shares the cell stays right.
type cell struct {
	key    string
	record *Record
}

// Tree holds cells in the order of their keys. Cloning it costs nothing: later insertions and
// deletions, in either tree, copy the nodes on their path.
type Tree = btree.BTreeG[*cell]

// degree is half of the maximum number of cells in a node.
const degree = 32

// newTree shares no free nodes with other trees, because a shared list of them would need a lock.
func newTree() *Tree {
	return btree.NewWithFreeListG(degree, func(a, b *cell) bool { return a.key < b.key }, btree.NewFreeListG[*cell](0))
}

// GetLocked returns the record of a key, or nil.
func (s *Shard) GetLocked(key string) *Record {
	if c := s.cells[key]; c != nil {
		return c.record
	}
	return nil
}

// AscendLocked reads the records of a range in order until do returns false. A range without an
// end has high "".
func (s *Shard) AscendLocked(r Range, do func(*Record) bool) {
	if s.order == nil {
		return
	}
	each := func(c *cell) bool { return do(c.record) }
	if r.High == "" {
		s.order.AscendGreaterOrEqual(&cell{key: r.Low}, each)
	} else {
		s.order.AscendRange(&cell{key: r.Low}, &cell{key: r.High}, each)
	}
}

// TakenLocked reports whether a transaction is about to write the item.
func (s *Shard) TakenLocked(key string) bool {
	_, ok := s.taken[key]
	return ok
}

// TakeLocked takes an item for a transaction.
func (s *Shard) TakeLocked(key string) {
	if s.taken == nil {
		s.taken = map[string]struct{}{}
	}
	s.taken[key] = struct{}{}
}

// ReleaseLocked ends TakeLocked.
func (s *Shard) ReleaseLocked(key string) { delete(s.taken, key) }

// SetLocked puts a record in the place of the one with its key, for a write at a position.
func (s *Shard) SetLocked(r *Record, pos journal.Position) {
	s.Latest = max(s.Latest, pos)
	s.Bytes += int64(r.Size)
	if c := s.cells[r.Key]; c != nil {
		s.Bytes -= int64(c.record.Size)
		s.keepLocked(c)
		c.record = r
		return
	}
	if s.cells == nil {
		s.cells, s.order = map[string]*cell{}, newTree()
	}
	c := &cell{key: r.Key, record: r}
	s.cells[c.key] = c
	s.order.ReplaceOrInsert(c)
}

// DeleteLocked removes the record of a key, for a write at a position.
func (s *Shard) DeleteLocked(key string, pos journal.Position) {
	s.Latest = max(s.Latest, pos)
	c := s.cells[key]
	if c == nil {
		return
	}
	s.Bytes -= int64(c.record.Size)
	delete(s.cells, key)
	s.order.Delete(c)
}

// FreezeLocked returns the items in order as they are now. Read them with [Shard.FrozenPage],
// then call thaw. A shard cannot be frozen twice at the same time.
func (s *Shard) FreezeLocked() *Tree {
	if s.order == nil {
		return nil
	}
	s.frozen = map[*cell]*Record{}
	return s.order.Clone()
}

// keepLocked keeps the record of a cell for the reader of the frozen shard.
func (s *Shard) keepLocked(c *cell) {
	if s.frozen == nil {
		return
	}
	if _, kept := s.frozen[c]; !kept {
		s.frozen[c] = c.record
	}
}

// FrozenPage reads records of a frozen shard from a key on, at most 256, until do returns false.
// Next is the key to continue from if there may be more.
func (s *Shard) FrozenPage(frozen *Tree, from string, do func(*Record) bool) (next string, more bool) {
	const most = 256
	s.Mu.RLock()
	defer s.Mu.RUnlock()
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

// Thaw forgets the frozen state.
func (s *Shard) Thaw() {
	s.Mu.Lock()
	s.frozen = nil
	s.Mu.Unlock()
}

// Get returns the record of a key, or nil. The call has then seen the latest write of the shard.
func (s *Shard) Get(c *api.Call, key string) *Record {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	c.See(s.Latest)
	return s.GetLocked(key)
}

// Page reads records of a range in order, optionally backwards. It stops when limit records have
// been read (0: no limit) or their sizes exceed maxBytes; the record that crosses the limit is
// still part of the page. More reports that the page ended for one of these reasons, perhaps at
// the last record.
func (s *Shard) Page(c *api.Call, r Range, backward bool, limit, maxBytes int) (records []*Record, bytes int, more bool) {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	c.See(s.Latest)
	take := func(rec *Record) bool {
		records = append(records, rec)
		bytes += rec.Size
		more = len(records) == limit || bytes > maxBytes
		return !more
	}
	switch {
	case s.order == nil:
	case !backward:
		s.AscendLocked(r, take)
	default:
		s.order.DescendLessOrEqual(&cell{key: r.High}, func(c *cell) bool {
			return c.key >= r.High || c.key >= r.Low && take(c.record)
		})
	}
	return records, bytes, more
}

// Census returns the number of records in a set of shards, and their bytes.
func Census(shards []Shard) (records, bytes int64) {
	for i := range shards {
		s := &shards[i]
		s.Mu.RLock()
		records += int64(len(s.cells))
		bytes += s.Bytes
		s.Mu.RUnlock()
	}
	return records, bytes
}

// Range is the keys from low up to but not including high.
type Range struct{ Low, High string }

// Contains reports whether a key is in the range.
func (r Range) Contains(key string) bool { return r.Low <= key && key < r.High }

// PrefixEnd returns the lowest string above all strings with a prefix. The prefix is an encoded
// key or a part of one, which never consists of 0xFF alone.
func PrefixEnd(prefix string) string {
	last := len(prefix) - 1
	for prefix[last] == 0xFF {
		last--
	}
	return prefix[:last] + string([]byte{prefix[last] + 1})
}

// ShardOf spreads partition keys over the shards (FNV-1a). It is the same in every process, so that
// runs are repeatable.
func ShardOf(partition []byte) int {
	h := uint32(2166136261)
	for _, b := range partition {
		h = (h ^ uint32(b)) * 16777619
	}
	return int(h % Shards)
}

// Weigh returns the sum of the sizes of the records in a range, of at most so many records, and
// whether that is all of them.
func (s *Shard) Weigh(keys Range, records int) (bytes int64, all bool) {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	all = true
	s.AscendLocked(keys, func(r *Record) bool {
		if records == 0 {
			all = false
			return false
		}
		records--
		bytes += int64(r.Size)
		return true
	})
	return bytes, all
}

// After returns the rest of a range after a key has been read.
func (r Range) After(key string, backward bool) Range {
	if backward {
		r.High = key
	} else {
		r.Low = key + "\x00" // the next string in order
	}
	return r
}

// EveryKey is the range of all keys. No key begins with that many bytes 0xFF: a partition key is
// shorter, and the end mark after it sorts lower.
var EveryKey = Range{"", strings.Repeat("\xFF", MaxHashKey+1)}
