package catalog

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// A portion is small, because writers of the shard wait for it. A portion of one item would lock
// too often.
const (
	backfillItems = 256     // to enter before the lock is released
	backfillBytes = 1 << 20 // of items, for the same purpose
)

// Backfill enters the items that are older than an index into it. Every write maintains the index
// from before the backfill begins. The backfill must therefore see each item once, at any time,
// and enter it as it is then. It reads a few items under the lock of their shard, which excludes
// writes of these items but admits readers. It then continues after the last of them.
//
//	backfill    lock · enter a, b · unlock                              lock · enter c · unlock
//	a write                                lock · change b · unlock
//
// A write behind the backfill is right, because it drops the old entry and puts the new one. A
// write ahead of it is right too. It puts an entry, or drops one that does not exist. The
// backfill later puts the same entry again, or finds no item. No write falls between the two,
// because a write changes its item and the entries under the same lock. A transaction that has
// taken an item changes the item and its entries when it commits. It recomputes its changes if
// the schema is not the one that it was checked under.
//
// The naive design enters all items under the lock of the table, and stops its writes for as long
// as the table is large. Another reads without a lock and enters later. A write in between is then
// undone in the index:
//
//	backfill    read b ························· enter the old b ✗
//	a write             b → b′ · its entry
//
// It is not on disk how far a backfill is. A start fills all indexes from the items.
//
// One goroutine owns it.
type Backfill struct {
	Table *table.Table
	Index *table.Index
	shard int    // of the table
	from  string // the lowest key of the shard that is not done
}

// Fill runs the backfill of an index until it is done or no longer needed. Filling is cleared after
// the last item, and only then are readings admitted. An index that is no longer wanted keeps it
// set, so nobody reads a part of it.
func (ts *Tables) Fill(b *Backfill) {
	for !b.Done() {
		if !b.wanted(ts) {
			return
		}
		b.Step()
	}
	b.Index.Filling.Store(false)
}

// Done reports whether the index has all items.
func (b *Backfill) Done() bool { return b.shard == len(b.Table.Shards) }

// wanted reports whether the index may still be read: the database is not being closed, and neither
// the table nor the index is gone. It is asked for each portion. The tables are compared by
// identity: one of the same name may have been created since.
func (b *Backfill) wanted(ts *Tables) bool {
	ts.mu.RLock()
	exists := ts.byName[b.Table.Name] == b.Table
	ts.mu.RUnlock()
	return exists && slices.Contains(b.Table.Schema().Indexes, b.Index)
}

// Step enters some items. It enters with the position of the shard's latest write, which is at or
// after those of all its items.
func (b *Backfill) Step() {
	s := &b.Table.Shards[b.shard]
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	items, bytes, full := 0, 0, false
	s.AscendLocked(storage.Range{Low: b.from}, func(r *storage.Record) bool {
		b.Index.Fill(r, s.Latest)
		items++
		bytes += r.Size
		if full = items == backfillItems || bytes >= backfillBytes; full {
			b.from = r.Key + "\x00" // the next string in order
		}
		return !full
	})
	if !full {
		b.shard, b.from = b.shard+1, ""
	}
}
