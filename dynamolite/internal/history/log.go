// Package history gives the writes of a database their one order. A write is noted before it is
// applied, under the locks of its items. The journal and the streams have the same order, so what is
// read from either is a state that the database had.
package history

import (
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// Log gives the writes of a database one order: that of the journal if there is one, or else a
// count. Streams record the writes in the same order.
//
// The order of locks: the shards of items, then mu or the lock of the journal, then the lock of a
// stream.
type Log struct {
	Now     func() time.Time
	Journal *journal.Journal // nil: in memory
	// Without a journal, mu is held from the choice of a position until the streams have it.
	mu sync.Mutex
	// last is the position of the last recorded write, without a journal. It is guarded by mu.
	last journal.Position
	// Dropped reports stream records that were dropped early.
	Dropped func(s *streams.Stream, records int)
	// Grown is called from time to time after the journal has grown.
	Grown func()
}

// New returns a log in memory.
func New(now func() time.Time) *Log { return &Log{Now: now} }

// Open makes the journal in a directory the log, after it has been read.
func (l *Log) Open(dir string, o journal.Options, read func(journal.Entry) error) (err error) {
	l.Journal, err = journal.Open(dir, o, read)
	return err
}

// OnDisk reports whether the log has a journal.
func (l *Log) OnDisk() bool { return l.Journal != nil }

// Close closes the journal.
func (l *Log) Close() error {
	if l.Journal == nil {
		return nil
	}
	return l.Journal.Close()
}

// Err returns the reason for which the journal takes no more entries, or nil.
func (l *Log) Err() error {
	if l.Journal == nil {
		return nil
	}
	return l.Journal.Err()
}

// checkpointCheck is how many writes there are between two checks of whether a checkpoint is due.
const checkpointCheck = 256

// sequenceBits leaves room for the changes of a transaction, at most 100. Positions of 57 bits
// remain. The number is in stream records, so it cannot be changed: readers keep these numbers.
const sequenceBits = 7

// Sequence numbers the changes of all writes in their order.
func Sequence(pos journal.Position, change int) journal.Position {
	return pos<<sequenceBits | journal.Position(change)
}

// Change is the effect of one write on a table, in the form that the log and the stream need.
type Change struct {
	Table    *table.Table
	Shard    int             // the table's
	Old, New *storage.Record // nil: no such item
	Expired  bool            // the sweep for expired items deleted it
}

// Recorded reports whether a journal or a stream records the writes of a table. Only then does a
// write that changes nothing count as no write.
func (l *Log) Recorded(s *table.Schema) bool { return l.Journal != nil || s.Stream != nil }

// Note gives changes their place in the order of writes. They go into the log together, with the
// transaction's token if there is one, so a crash leaves all or none. They go one by one into the
// streams of their tables. The caller holds the table shards of all changes, and applies the
// changes only if there is no error. Changes that nothing records get position 0, which is no
// place.
//
// The naive design notes a write after it has released its locks, where nobody waits for it. Two
// writes of one item can then be noted in the other order, and a restart finds the older one:
//
//	write A   lock · apply · unlock ················ note
//	write B                     lock · apply · unlock · note      in memory B, in the log A
//
// A position without its record in the stream would be as wrong. A reader could pass the position
// and never see the record. The journal therefore calls back before it gives the next position.
//
// Noting before applying has one more reason: a disk that refuses the entry leaves memory as it was.
func (l *Log) Note(use *TokenUse, changes ...Change) (journal.Position, error) {
	streamed := false
	for i := range changes {
		streamed = streamed || changes[i].Table.Schema().Stream != nil
	}
	if l.Journal == nil && !streamed || len(changes) == 0 && use == nil {
		return 0, nil
	}
	now := l.Now()
	var stream func(journal.Position)
	if streamed {
		stream = func(pos journal.Position) { StreamChanges(pos, now, changes, l.Dropped) }
	}
	if l.Journal != nil {
		return l.append(AppendWrites(nil, now, use, changes), stream)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	stream(l.last)
	return l.last, nil
}

// StreamChanges adds the changes of a write at pos to their streams. The sequence number of a
// change is its place in the write. The other changes count too, even if their tables have no
// stream or no longer exist when the log is read. It reports the records that this drops.
func StreamChanges(pos journal.Position, at time.Time, changes []Change, report func(s *streams.Stream, dropped int)) {
	for i := range changes {
		c := &changes[i]
		if c.Table == nil {
			continue
		}
		if s := c.Table.Schema().Stream; s != nil {
			dropped := s.Append(Sequence(pos, i), at, uint32(c.Shard), c.Old, c.New, c.Expired) //nolint:gosec // a shard's number is small
			if dropped > 0 {
				report(s, dropped)
			}
		}
	}
}

// append adds an entry to the journal, and from time to time starts a checkpoint that replaces
// the journal.
func (l *Log) append(entry []byte, then func(journal.Position)) (journal.Position, error) {
	pos, err := l.Journal.Append(entry, then)
	if err != nil {
		return 0, err
	}
	if pos%checkpointCheck == 0 {
		l.Grown()
	}
	return pos, nil
}

// ShowAll is for rare answers that depend on the whole database. It waits for more than the answer
// needs. The naive design follows each count to the writes behind it.
func (l *Log) ShowAll(c *api.Call) {
	if l.Journal != nil {
		c.See(l.Journal.Appended())
	}
}

// Wait waits until the write at a position, and all before it, are on disk.
func (l *Log) Wait(pos journal.Position) error {
	if l.Journal == nil {
		return nil
	}
	return l.Journal.Wait(pos)
}

// Durable returns the last change that a crash cannot undo. Without a journal nothing survives a
// crash, so readers need not be protected from one.
func (l *Log) Durable() journal.Position {
	if l.Journal == nil {
		return ^journal.Position(0)
	}
	return Sequence(l.Journal.Durable()+1, 0) - 1
}

// NoteTable adds a table's new schema to the log before the schema takes effect. The caller makes
// sure that nothing writes to the table meanwhile.
func (l *Log) NoteTable(t *table.Table, s *table.Schema) (journal.Position, error) {
	if l.Journal == nil {
		return 0, nil
	}
	entry, err := TableEntry(t, s, l.Now())
	if err != nil {
		return 0, err
	}
	return l.append(entry, nil)
}

// NoteDrop adds the deletion of a table to the log.
func (l *Log) NoteDrop(t *table.Table) (journal.Position, error) {
	if l.Journal == nil {
		return 0, nil
	}
	return l.append(dropEntry(t, l.Now()), nil)
}
