package dynamolite

import (
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// position is the place of a write in the order of all writes of a database, from 1. Zero is
// before them all. A transaction is one write.
type position = journal.Position

// sequenceBits leaves room for the changes of a transaction, at most 100.
const sequenceBits = 7

// sequence numbers the changes of all writes in their order.
func sequence(pos position, change int) position { return pos<<sequenceBits | position(change) }

// change is the effect of one write on a table, in the form that the log and the stream need.
type change struct {
	table    *table
	shard    int     // the table's
	old, new *record // nil: no such item
	expired  bool    // the sweep for expired items deleted it
}

// order numbers the writes of a database that has no journal.
type order struct {
	mu   sync.Mutex
	last position
}

// recorded reports whether a journal or a stream records the writes of a table. Only then does a
// write that changes nothing count as no write.
func (db *DB) recorded(s *schema) bool { return db.journal != nil || s.stream != nil }

// note gives changes their place in the order of writes. They go into the log together, with the
// transaction's token if there is one, so a crash leaves all or none. They go one by one into the
// streams of their tables. The caller holds the table shards of all changes, and applies the
// changes only if there is no error. Changes that nothing records get position 0, which is no
// place.
func (db *DB) note(use *tokenUse, changes ...change) (position, error) {
	streamed := false
	for i := range changes {
		streamed = streamed || changes[i].table.schema().stream != nil
	}
	if db.journal == nil && !streamed || len(changes) == 0 && use == nil {
		return 0, nil
	}
	now := db.now()
	var stream func(position)
	if streamed {
		stream = func(pos position) { streamChanges(pos, now, changes, db.reportDropped) }
	}
	if db.journal != nil {
		return db.append(appendWrites(nil, now, use, changes), stream)
	}
	db.order.mu.Lock()
	defer db.order.mu.Unlock()
	db.order.last++
	stream(db.order.last)
	return db.order.last, nil
}

// streamChanges adds the changes of a write at pos to their streams. The sequence number of a
// change is its place in the write. The other changes count too, even if their tables have no
// stream or no longer exist when the log is read. It reports the records that this drops.
func streamChanges(pos position, at time.Time, changes []change, report func(s *tableStream, dropped int)) {
	for i := range changes {
		c := &changes[i]
		if c.table == nil {
			continue
		}
		if s := c.table.schema().stream; s != nil {
			dropped := s.append(sequence(pos, i), at, uint32(c.shard), c.old, c.new, c.expired) //nolint:gosec // a shard's number is small
			if dropped > 0 {
				report(s, dropped)
			}
		}
	}
}

// append adds an entry to the journal, and from time to time starts a checkpoint that replaces
// the journal.
func (db *DB) append(entry []byte, then func(position)) (position, error) {
	pos, err := db.journal.Append(entry, then)
	if err != nil {
		return 0, diskError(err)
	}
	if pos%checkpointCheck == 0 {
		db.checkpointIfDue()
	}
	return pos, nil
}

// durable returns the last change that a crash cannot undo.
func (db *DB) durable() position {
	if db.journal == nil {
		return ^position(0)
	}
	return sequence(db.journal.Durable()+1, 0) - 1
}

// noteTable adds a table's new schema to the log before the schema takes effect. The caller makes
// sure that nothing writes to the table meanwhile.
func (db *DB) noteTable(t *table, s *schema) (position, error) {
	if db.journal == nil {
		return 0, nil
	}
	entry, err := tableEntry(t, s, db.now())
	if err != nil {
		return 0, err
	}
	return db.append(entry, nil)
}

// noteDrop adds the deletion of a table to the log.
func (db *DB) noteDrop(t *table) (position, error) {
	if db.journal == nil {
		return 0, nil
	}
	return db.append(dropEntry(t, db.now()), nil)
}
