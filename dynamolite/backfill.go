package dynamolite

import "slices"

const (
	backfillItems = 256     // that are entered before the lock is let go
	backfillBytes = 1 << 20 // of items, likewise
)

// backfill enters the items that are older than an index into it. From before it begins every write
// maintains the index, so it has to see each item once, at any time, and to enter it as it is then.
// It reads a few items under the lock of their shard, which keeps writes of these items out and lets
// readers in, and goes on after the last of them.
//
//	backfill    lock · enter a, b · unlock                              lock · enter c · unlock
//	a write                                lock · change b · unlock
//
// What is written behind the backfill is right because the write drops the old entry and puts the new
// one; ahead of it, because the write puts an entry, or drops one that is not there, and the backfill
// puts the same entry again, or finds no item. No write is between the two: it changes its item and the
// entries under the same lock. A transaction that has taken an item changes it and its entries when
// it commits, and works its changes out anew if the schema is not the one it was checked under.
type backfill struct {
	table *table
	index *index
	shard int    // of the table
	from  string // the least key of the shard that is not done
}

// fill runs the backfill of an index until it is done, or nobody needs it any more.
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

// wanted tells whether the index can still be read some day: the database is not being closed, and
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
