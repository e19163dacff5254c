package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// Load opens the journal in a directory and makes the tables that it describes.
//
// No other goroutine knows the tables yet, so loading takes no locks. The log takes new entries
// only after all have been read.
func (ts *Tables) Load(dir string) error {
	l := loader{tables: ts, byNumber: map[int]*table.Table{}}
	if err := ts.Log.Open(dir, journal.Options{Logger: ts.Logger}, l.load); err != nil {
		return err
	}
	l.finish()
	return nil
}

// loader builds a database from the journal. It leaves indexes to the end, because they depend
// only on the items as they are then. The naive design applies each entry as the write was applied.
// An item that was written a thousand times would then enter each index a thousand times.
type loader struct {
	tables *Tables
	// byNumber has the tables that exist at this place of the log. Entries name tables by number,
	// because a name may have belonged to several.
	byNumber map[int]*table.Table
	stream   *streams.Stream // the stream whose pages are being read
}

// load applies one entry. An unknown kind of entry is an error: it is from a later version, or the
// file is damaged. Skipping it would lose writes.
func (l *loader) load(e journal.Entry) error {
	entry := string(e.Data)
	if entry == "" {
		return journal.ErrEntry
	}
	var err error
	switch entry[0] {
	case history.EntryWrites:
		err = l.writes(entry, e)
	case history.EntryTable:
		err = l.table(entry, e)
	case history.EntryDrop:
		err = l.drop(entry, e)
	case history.EntryTables:
		r := journal.Reader{Rest: entry[1:]}
		l.tables.created = r.Number()
	case history.EntryStream:
		l.stream, err = l.tables.Streams.RestorePart(entry[1:], l.stream)
	default:
		err = journal.ErrEntry
	}
	if err != nil {
		return fmt.Errorf("entry %d of the log: %w", e.Position, err)
	}
	return nil
}

// writes stores items. It adds writes that are not part of a checkpoint to the streams. Each change
// keeps its place in the entry, even if its table is gone: the place is part of the record's
// sequence number. Readers keep these numbers across restarts.
//
// Records get their own memory. They would otherwise keep the buffer of the whole entry.
//
// Positions are 0: everything that was read is on disk, so no answer needs to wait for it.
func (l *loader) writes(entry string, e journal.Entry) error {
	var changes []history.Change // of tables that exist, by their place in the entry
	at, use, err := history.ReadWrites(entry, func(c history.LoggedChange) error {
		place := len(changes)
		changes = append(changes, history.Change{})
		t, ok := l.byNumber[c.Table]
		switch {
		case ok:
		case c.Table <= l.tables.created:
			return nil // the table was deleted while the write was in progress
		default:
			return journal.ErrEntry
		}
		s := &t.Shards[c.Shard]
		next := c.Record.Own()
		if !e.Checkpoint {
			changes[place] = history.Change{Table: t, Shard: c.Shard, Old: s.GetLocked(c.Key), New: next, Expired: c.Expired}
		}
		if next == nil {
			s.DeleteLocked(c.Key, 0)
		} else {
			s.SetLocked(next, 0)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !e.Checkpoint {
		history.StreamChanges(e.Position, at, changes, func(*streams.Stream, int) {}) // reported when they were written
	}
	if use != nil {
		l.tables.Tokens.Restore(use)
	}
	return nil
}

// table creates or alters a table. The number says which, because a name may be used again.
func (l *loader) table(entry string, e journal.Entry) error {
	var state table.State
	if err := json.Unmarshal([]byte(entry[1:]), &state); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrEntry, err)
	}
	t, known := l.byNumber[state.Number]
	if !known {
		t = state.Table()
		l.byNumber[t.Number] = t
		l.tables.byName[t.Name] = t
		l.tables.created = max(l.tables.created, t.Number)
	}
	before := t.Schema()
	s, err := state.Schema(t, before, l.tables.Wake)
	if err != nil {
		return err
	}
	s.Stream = l.tables.restoredStream(t, before, &state, e.Position)
	s.Latest = state.Latest(t, s)
	t.Current.Store(s)
	return nil
}

// drop deletes a table. Its stream is disabled as of this entry, so that readers see its end where
// they saw it before.
func (l *loader) drop(entry string, e journal.Entry) error {
	r := journal.Reader{Rest: entry[1:]}
	number, at := r.Number(), time.Unix(0, r.Signed())
	t, ok := l.byNumber[number]
	if r.Bad || !ok {
		return journal.ErrEntry
	}
	delete(l.byNumber, number)
	delete(l.tables.byName, t.Name)
	if s := t.Schema().Stream; s != nil {
		s.Disable(history.Sequence(e.Position, 0), at)
	}
	return nil
}

// finish fills the indexes, each separately. Each index is filled by one goroutine. Items are only
// read now, so several can share a table.
func (l *loader) finish() {
	sweep := false
	var filling sync.WaitGroup
	room := make(chan struct{}, loaders)
	for _, number := range slices.Sorted(maps.Keys(l.byNumber)) {
		t := l.byNumber[number]
		s := t.Schema()
		l.tables.openLedgerLocked(t, s)
		sweep = sweep || s.Expiries != nil
		for _, x := range s.Indexes {
			filling.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				x.FillFrom(t)
			})
		}
	}
	filling.Wait()
	if sweep {
		l.tables.Expires()
	}
}

// loaders is how many indexes are filled at the same time.
const loaders = 4

// restoredStream returns the stream that a description in the log gives a table: its earlier
// stream, another one, or none. It disables an earlier stream that the table no longer has. Two
// streams are the same if they have the same label, which is their time of creation. The view alone
// could not tell a stream from one that was disabled and enabled again.
func (ts *Tables) restoredStream(t *table.Table, before *table.Schema, state *table.State, at journal.Position) *streams.Stream {
	var had, has *streams.Stream
	if before != nil {
		had = before.Stream
	}
	if s := state.Stream; s != nil {
		if had != nil && had.Label == s.Label {
			return had
		}
		has = ts.Streams.Restore(streams.Empty(t.Name, &t.Key, s.View, s.Created, ts.Streams.Options), s.Label)
	}
	if had != nil {
		had.Disable(history.Sequence(at, 0), state.Altered)
	}
	return has
}
