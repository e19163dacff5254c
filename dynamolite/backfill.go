package dynamolite

import "slices"

const (
	backfillItems = 256     // to enter before the lock is released
	backfillBytes = 1 << 20 // of items, for the same purpose
)

// backfill enters the items that are older than an index into it. Every write maintains the index
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
type backfill struct {
	table *table
	index *index
	shard int    // of the table
	from  string // the lowest key of the shard that is not done
}

// fill runs the backfill of an index until it is done or no longer needed.
func (db *DB) fill(b *backfill) {
	for !b.done() {
		if !b.wanted(db) {
			return
		}
		b.step()
	}
	b.index.filling.Store(false)
}

func (b *backfill) done() bool { return b.shard == len(b.table.shards) }

// wanted reports whether the index may still be read: the database is not being closed, and
// neither the table nor the index is gone.
func (b *backfill) wanted(db *DB) bool {
	db.mu.RLock()
	exists := db.tables[b.table.name] == b.table
	db.mu.RUnlock()
	return exists && slices.Contains(b.table.schema().indexes, b.index)
}

// step enters some items.
func (b *backfill) step() {
	s := &b.table.shards[b.shard]
	s.mu.RLock()
	defer s.mu.RUnlock()
	items, bytes, full := 0, 0, false
	s.ascendLocked(keyRange{low: b.from}, func(r *record) bool {
		b.index.fill(r, s.latest)
		items++
		bytes += r.size
		if full = items == backfillItems || bytes >= backfillBytes; full {
			b.from = r.key + "\x00" // the next string in order
		}
		return !full
	})
	if !full {
		b.shard, b.from = b.shard+1, ""
	}
}
