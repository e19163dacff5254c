package dynamolite

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// Open returns the database in Options.Dir in its last state, or an empty database in memory if
// Options.Dir is not set. It creates a missing directory.
//
// Errors: [ErrInUse] if another process or database has the directory open; [ErrDamaged] if the
// files cannot be trusted (nothing has then been changed); an error about the options; or a file
// system error.
func Open(o Options) (*DB, error) {
	db, err := newDB(o)
	if err != nil || o.Dir == "" {
		return db, err
	}
	l := loader{db: db, tables: map[int]*table{}}
	db.journal, err = journal.Open(o.Dir, journal.Options{Logger: db.logger}, l.load)
	if err != nil {
		return nil, fmt.Errorf("open the database in %s: %w", o.Dir, diskError(err))
	}
	l.finish()
	return db, nil
}

// Exists reports whether a directory has a database. It opens and changes nothing. A missing
// directory has none.
func Exists(dir string) (bool, error) {
	there, err := journal.Exists(dir)
	if err != nil {
		return false, fmt.Errorf("look for a database in %s: %w", dir, err)
	}
	return there, nil
}

// loader builds a database from the journal. It leaves indexes to the end, because they depend
// only on the items as they are then.
type loader struct {
	db     *DB
	tables map[int]*table // by table number
	stream *tableStream   // the stream whose pages are being read
}

// load applies one entry.
func (l *loader) load(e journal.Entry) error {
	entry := string(e.Data)
	if entry == "" {
		return errEntry
	}
	var err error
	switch entry[0] {
	case entryWrites:
		err = l.writes(entry, e)
	case entryTable:
		err = l.table(entry, e)
	case entryDrop:
		err = l.drop(entry, e)
	case entryTables:
		r := reader{rest: entry[1:]}
		l.db.created = r.number()
	case entryStream:
		err = l.streamPart(entry)
	default:
		err = errEntry
	}
	if err != nil {
		return fmt.Errorf("entry %d of the log: %w", e.Position, err)
	}
	return nil
}

// writes stores items. It adds writes that are not part of a checkpoint to the streams.
func (l *loader) writes(entry string, e journal.Entry) error {
	var changes []change // of tables that exist, by their place in the entry
	at, use, err := readWrites(entry, func(c loggedChange) error {
		place := len(changes)
		changes = append(changes, change{})
		t, ok := l.tables[c.table]
		switch {
		case ok:
		case c.table <= l.db.created:
			return nil // the table was deleted while the write was in progress
		default:
			return errEntry
		}
		s := &t.shards[c.shard]
		next := c.record.own()
		if !e.Checkpoint {
			changes[place] = change{table: t, shard: c.shard, old: s.getLocked(c.key), new: next, expired: c.expired}
		}
		if next == nil {
			s.deleteLocked(c.key, 0)
		} else {
			s.setLocked(next, 0)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !e.Checkpoint {
		streamChanges(e.Position, at, changes, func(*tableStream, int) {}) // reported when they were written
	}
	if use != nil {
		l.db.tokens.restore(use)
	}
	return nil
}

// own returns a copy of the record whose strings have their own memory. The key and the data are
// separate copies, because later records of the item share the key but not the data.
func (r *record) own() *record {
	if r == nil {
		return nil
	}
	return &record{key: strings.Clone(r.key), data: strings.Clone(r.data), size: r.size}
}

// table creates or alters a table.
func (l *loader) table(entry string, e journal.Entry) error {
	var state tableState
	if err := json.Unmarshal([]byte(entry[1:]), &state); err != nil {
		return fmt.Errorf("%w: %w", errEntry, err)
	}
	t, known := l.tables[state.Number]
	if !known {
		t = state.table()
		l.tables[t.number] = t
		l.db.tables[t.name] = t
		l.db.created = max(l.db.created, t.number)
	}
	before := t.schema()
	s, err := state.schema(t, before, &l.db.sweeper)
	if err != nil {
		return err
	}
	s.stream = l.db.restoredStream(t, before, &state, e.Position)
	s.latest = state.latest(t, s)
	t.current.Store(s)
	return nil
}

// drop deletes a table.
func (l *loader) drop(entry string, e journal.Entry) error {
	r := reader{rest: entry[1:]}
	number, at := r.number(), time.Unix(0, r.signed())
	t, ok := l.tables[number]
	if r.bad || !ok {
		return errEntry
	}
	delete(l.tables, number)
	delete(l.db.tables, t.name)
	if s := t.schema().stream; s != nil {
		s.disable(sequence(e.Position, 0), at)
	}
	return nil
}

// finish fills the indexes, each separately.
func (l *loader) finish() {
	sweep := false
	var filling sync.WaitGroup
	room := make(chan struct{}, loaders)
	for _, number := range slices.Sorted(maps.Keys(l.tables)) {
		t := l.tables[number]
		s := t.schema()
		l.db.openLedgerLocked(t, s)
		sweep = sweep || s.expiries != nil
		for _, x := range s.indexes {
			filling.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				x.fillFrom(t)
			})
		}
	}
	filling.Wait()
	if sweep {
		l.db.startSweeping()
	}
}

// loaders is how many indexes are filled at the same time.
const loaders = 4

// fillFrom enters all items of a table that is not in use yet.
func (x *index) fillFrom(t *table) {
	for i := range t.shards {
		t.shards[i].ascendLocked(keyRange{}, func(r *record) bool {
			x.fill(r, 0)
			return true
		})
	}
}

// fill enters an item that has no entry in the index yet.
func (x *index) fill(r *record, pos position) {
	item := r.item()
	shard, key, ok := x.entryKey(r, item)
	if !ok {
		return
	}
	s := &x.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(x.entry(key, r, item), pos)
}

// diskError translates a journal error into an error of the database.
func diskError(err error) error {
	for _, known := range []struct{ its, ours error }{
		{journal.ErrLocked, ErrInUse}, {journal.ErrDamaged, ErrDamaged}, {journal.ErrFailed, ErrDiskFailed}, {journal.ErrClosed, ErrClosed},
	} {
		if errors.Is(err, known.its) {
			return fmt.Errorf("%w: %w", known.ours, err)
		}
	}
	return err
}
