package history

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// The kinds of entries in the journal, by their first byte. They are on disk: their meanings must
// never change.
const (
	EntryWrites byte = iota + 1 // a write or a transaction; in a checkpoint: items
	EntryTable                  // a table was created or altered: its description as JSON
	EntryDrop                   // a table was deleted: its number
	EntryTables                 // in a checkpoint: how many tables were ever created
	EntryStream                 // in a checkpoint: part of a stream
)

const (
	flagDelete  byte = 1 << iota // the item no longer exists
	flagExpired                  // the sweep for expired items deleted it
)

// AppendWrites appends the entry of changes that are made together.
//
//	kind, time, token (and, if there is one, the fingerprint), for each change:
//	table, flags, shard, key, and unless it is a deletion the size and the encoded item
//
// The naive design has an entry for each change, and a crash could leave half of a transaction.
//
// A change has the whole item and not the update. Reading is then a put or a delete: it needs no
// expression and no item before it.
func AppendWrites(dst []byte, at time.Time, use *TokenUse, changes []Change) []byte {
	dst = append(dst, EntryWrites)
	dst = binary.AppendVarint(dst, at.UnixNano())
	if use == nil {
		dst = journal.AppendText(dst, "")
	} else {
		dst = append(journal.AppendText(dst, use.token), use.request[:]...)
	}
	for i := range changes {
		dst = AppendChange(dst, &changes[i])
	}
	return dst
}

// AppendChange appends one change to an entry of writes.
func AppendChange(dst []byte, c *Change) []byte {
	dst = binary.AppendUvarint(dst, uint64(c.Table.Number)) //nolint:gosec // counted from 1
	var flags byte
	if c.New == nil {
		flags |= flagDelete
	}
	if c.Expired {
		flags |= flagExpired
	}
	dst = append(dst, flags, byte(c.Shard))
	if c.New == nil {
		return journal.AppendText(dst, c.Old.Key)
	}
	dst = journal.AppendText(dst, c.New.Key)
	dst = binary.AppendUvarint(dst, uint64(c.New.Size)) //nolint:gosec // bytes
	return journal.AppendText(dst, c.New.Data)
}

// LoggedChange is a change in the form of an entry. The table is a number here. It may have been
// deleted, so only the reader of the log can tell whether there is one.
type LoggedChange struct {
	Table   int
	Shard   int
	Key     string
	Record  *storage.Record // nil: deleted
	Expired bool
}

// ReadWrites decodes an entry of writes. Its strings are parts of entry.
func ReadWrites(entry string, do func(LoggedChange) error) (at time.Time, use *TokenUse, err error) {
	r := journal.Reader{Rest: entry[1:]}
	at = time.Unix(0, r.Signed())
	if token := r.Text(); token != "" {
		use = &TokenUse{token: token, Ended: at}
		copy(use.request[:], r.Next(len(use.request)))
	}
	for !r.Bad && r.Rest != "" {
		c := LoggedChange{Table: r.Number()}
		flags := r.Next(2)
		if r.Bad {
			break
		}
		c.Expired, c.Shard, c.Key = flags[0]&flagExpired != 0, int(flags[1]), r.Text()
		if flags[0]&flagDelete == 0 {
			c.Record = &storage.Record{Key: c.Key, Size: r.Number(), Data: r.Text()}
		}
		if r.Bad || c.Shard >= storage.Shards {
			return at, use, journal.ErrEntry
		}
		if err := do(c); err != nil {
			return at, use, err
		}
	}
	if r.Bad {
		return at, use, journal.ErrEntry
	}
	return at, use, nil
}

// TableEntry returns the entry of a table that gets the given schema.
func TableEntry(t *table.Table, s *table.Schema, now time.Time) ([]byte, error) {
	text, err := json.Marshal(table.StateOf(t, s, now))
	if err != nil {
		return nil, fmt.Errorf("describe table %s for the log: %w", t.Name, err)
	}
	return append([]byte{EntryTable}, text...), nil
}

func dropEntry(t *table.Table, at time.Time) []byte {
	return binary.AppendVarint(binary.AppendUvarint([]byte{EntryDrop}, uint64(t.Number)), at.UnixNano()) //nolint:gosec // counted from 1
}
