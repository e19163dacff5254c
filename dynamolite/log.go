package dynamolite

import (
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// position is the place of a write in the order of all of a database's writes, from 1. Zero is
// before all. A transaction is one write.
type position = journal.Position

// sequenceBits leave room for the changes of a transaction, at most 100.
const sequenceBits = 7

// sequence numbers the changes of all writes in their order.
func sequence(pos position, change int) position { return pos<<sequenceBits | position(change) }

// change is what one write does to a table, as the log and the stream see it.
type change struct {
	table    *table
	shard    int     // the table's
	old, new *record // nil: no such item
	expired  bool    // the sweep for expired items did it
}

// order numbers the writes of a database that has no journal to do so.
type order struct {
	mu   sync.Mutex
	last position
}

// recorded tells whether somebody is to remember the writes of a table: a write that changes nothing
// is then no write.
func (db *DB) recorded(s *schema) bool { return db.journal != nil || s.stream != nil }

// note gives changes their place in the order of writes: they go into the log together, with the
// token of their transaction if that has one, so that a crash leaves all or none, and one by one into the
// streams of their tables. The caller holds the table shards of all of them, and applies the changes
// only if there is no error. Changes that nobody is to remember have no place, which is position 0.
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
		stream = func(pos position) { streamChanges(pos, now, changes) }
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

// streamChanges tells the streams of a write at pos. The sequence number of a change is its place in the write, whether
// the others are of tables with a stream or not, and of tables that are no more when the log is read.
func streamChanges(pos position, at time.Time, changes []change) {
	for i := range changes {
		c := &changes[i]
		if c.table == nil {
			continue
		}
		if s := c.table.schema().stream; s != nil {
			s.append(sequence(pos, i), at, uint32(c.shard), c.old, c.new, c.expired) //nolint:gosec // a shard's number is small
		}
	}
}

// append adds an entry to the journal, and now and then has the journal replaced by a checkpoint.
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

// durable is the last change that a crash cannot undo.
func (db *DB) durable() position {
	if db.journal == nil {
		return ^position(0)
	}
	return sequence(db.journal.Durable()+1, 0) - 1
}

// noteTable enters a table into the log, as a schema describes it, before that is in force. The caller
// sees to it that nothing is written to the table meanwhile.
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

// noteDrop enters into the log that a table is deleted.
func (db *DB) noteDrop(t *table) (position, error) {
	if db.journal == nil {
		return 0, nil
	}
	return db.append(dropEntry(t, db.now()), nil)
}
