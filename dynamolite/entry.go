package dynamolite

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The kinds of entries in the journal, by their first byte. They are on disk: their meanings must
// never change.
const (
	entryWrites byte = iota + 1 // a write or a transaction; in a checkpoint: items
	entryTable                  // a table was created or altered: its description as JSON
	entryDrop                   // a table was deleted: its number
	entryTables                 // in a checkpoint: how many tables were ever created
	entryStream                 // in a checkpoint: part of a stream
)

const (
	flagDelete  byte = 1 << iota // the item no longer exists
	flagExpired                  // the sweep for expired items deleted it
)

// errEntry is for an entry that this engine has not written, although its checksum is right.
var errEntry = errors.New("the entry cannot be read: a newer version or another program wrote it")

// appendWrites appends the entry of changes that are made together.
//
//	kind, time, token (and, if there is one, the fingerprint), for each change:
//	table, flags, shard, key, and unless it is a deletion the size and the encoded item
func appendWrites(dst []byte, at time.Time, use *tokenUse, changes []change) []byte {
	dst = append(dst, entryWrites)
	dst = binary.AppendVarint(dst, at.UnixNano())
	if use == nil {
		dst = appendText(dst, "")
	} else {
		dst = append(appendText(dst, use.token), use.request[:]...)
	}
	for i := range changes {
		dst = appendChange(dst, &changes[i])
	}
	return dst
}

func appendChange(dst []byte, c *change) []byte {
	dst = binary.AppendUvarint(dst, uint64(c.table.number)) //nolint:gosec // counted from 1
	var flags byte
	if c.new == nil {
		flags |= flagDelete
	}
	if c.expired {
		flags |= flagExpired
	}
	dst = append(dst, flags, byte(c.shard))
	if c.new == nil {
		return appendText(dst, c.old.key)
	}
	dst = appendText(dst, c.new.key)
	dst = binary.AppendUvarint(dst, uint64(c.new.size)) //nolint:gosec // bytes
	return appendText(dst, c.new.data)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// loggedChange is a change in the form of an entry.
type loggedChange struct {
	table   int
	shard   int
	key     string
	record  *record // nil: deleted
	expired bool
}

// readWrites decodes an entry of writes. Its strings are parts of entry.
func readWrites(entry string, do func(loggedChange) error) (at time.Time, use *tokenUse, err error) {
	r := reader{rest: entry[1:]}
	at = time.Unix(0, r.signed())
	if token := r.text(); token != "" {
		use = &tokenUse{token: token, ended: at}
		copy(use.request[:], r.next(len(use.request)))
	}
	for !r.bad && r.rest != "" {
		c := loggedChange{table: r.number()}
		flags := r.next(2)
		if r.bad {
			break
		}
		c.expired, c.shard, c.key = flags[0]&flagExpired != 0, int(flags[1]), r.text()
		if flags[0]&flagDelete == 0 {
			c.record = &record{key: c.key, size: r.number(), data: r.text()}
		}
		if r.bad || c.shard >= tableShards {
			return at, use, errEntry
		}
		if err := do(c); err != nil {
			return at, use, err
		}
	}
	if r.bad {
		return at, use, errEntry
	}
	return at, use, nil
}

// reader reads from the front of the remaining data. After data that it cannot read, it is bad
// and reads zeros.
type reader struct {
	rest string
	bad  bool
}

func (r *reader) next(n int) string {
	if n < 0 || n > len(r.rest) {
		r.rest, r.bad = "", true
		return string(make([]byte, 2))
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) text() string { return r.next(r.number()) }

func (r *reader) number() int {
	u := r.unsigned()
	if u > 1<<40 {
		r.bad = true
		return 0
	}
	return int(u)
}

func (r *reader) signed() int64 {
	u := r.unsigned()
	return int64(u>>1) ^ -int64(u&1) //nolint:gosec // zigzag
}

func (r *reader) unsigned() uint64 {
	u, n := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if n <= 0 {
		r.rest, r.bad = "", true
		return 0
	}
	r.rest = r.rest[n:]
	return u
}

// tableEntry returns the entry of a table that gets the given schema.
func tableEntry(t *table, s *schema, now time.Time) ([]byte, error) {
	text, err := json.Marshal(stateOf(t, s, now))
	if err != nil {
		return nil, fmt.Errorf("describe table %s for the log: %w", t.name, err)
	}
	return append([]byte{entryTable}, text...), nil
}

func dropEntry(t *table, at time.Time) []byte {
	return binary.AppendVarint(binary.AppendUvarint([]byte{entryDrop}, uint64(t.number)), at.UnixNano()) //nolint:gosec // counted from 1
}
