package dynamolite

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

const (
	checkpointCheck = 256      // writes between two checks of whether a checkpoint is due
	checkpointLog   = 64 << 20 // bytes of log that make a checkpoint worthwhile
	checkpointPart  = 64 << 10 // bytes of an entry with items
)

// checkpointIfDue starts a checkpoint when the log has outgrown the last one. Opening then reads
// at most about twice the data.
func (db *DB) checkpointIfDue() {
	logged, image := db.journal.Grown()
	if logged < db.checkpointFailed.Load()+max(db.checkpointAfter, image) || !db.checkpointing.CompareAndSwap(false, true) {
		return
	}
	db.goes(func() {
		defer db.checkpointing.Store(false)
		var failed int64
		if err := db.checkpoint(); err != nil {
			failed = logged // retry only after the log has grown by as much again
			db.logger.Warn("checkpoint failed; the log keeps growing until a later one succeeds", "error", err)
		}
		db.checkpointFailed.Store(failed)
	})
}

// image is the database at one place in the order of writes. It no longer changes.
type image struct {
	at      time.Time
	created int
	tables  []tableImage
	tokens  []*tokenUse
	streams []streamImage
}

type tableImage struct {
	table  *table
	schema *schema
	shards [tableShards]*tree
}

// checkpoint writes the whole database, as of one position, while operations continue.
func (db *DB) checkpoint() error {
	c, im, err := db.freeze()
	if err != nil {
		return err
	}
	defer c.Abort()
	err = im.write(c.Put, db.stopped)
	im.thaw() // before another checkpoint can begin
	if err != nil {
		return err
	}
	return c.Commit()
}

// freeze stops all writes for as long as it takes to clone the trees.
func (db *DB) freeze() (*journal.Checkpoint, *image, error) {
	db.mu.Lock() // no table is created or deleted
	defer db.mu.Unlock()
	if db.closed {
		return nil, nil, ErrClosed
	}
	im := &image{at: db.now(), created: db.created}
	for _, t := range db.tables {
		im.tables = append(im.tables, tableImage{table: t})
	}
	slices.SortFunc(im.tables, func(a, b tableImage) int { return a.table.number - b.table.number })
	for i := range im.tables {
		im.tables[i].table.lockAll()
		defer im.tables[i].table.unlockAll()
	}
	c, err := db.journal.BeginCheckpoint()
	if err != nil {
		return nil, nil, err
	}
	for i := range im.tables {
		ti := &im.tables[i]
		ti.schema = ti.table.schema()
		for k := range ti.table.shards {
			ti.shards[k] = ti.table.shards[k].freezeLocked()
		}
	}
	im.tokens = db.tokens.all()
	db.streams.expire(im.at)
	im.streams = db.streams.images()
	return c, im, nil
}

// write puts the image, entry by entry. It calls stop from time to time.
func (im *image) write(put func([]byte) error, stop func() error) error {
	if err := put(binary.AppendUvarint([]byte{entryTables}, uint64(im.created))); err != nil { //nolint:gosec // a count
		return err
	}
	for i := range im.tables {
		ti := &im.tables[i]
		entry, err := tableEntry(ti.table, ti.schema, im.at)
		if err != nil {
			return err
		}
		if err := put(entry); err != nil {
			return err
		}
	}
	for _, use := range im.tokens {
		if err := put(appendWrites(nil, use.ended, use, nil)); err != nil {
			return err
		}
	}
	for i := range im.streams {
		if err := im.streams[i].write(put); err != nil {
			return err
		}
	}
	for i := range im.tables {
		if err := im.tables[i].write(put, stop); err != nil {
			return err
		}
	}
	return nil
}

// write puts the items of a table, many to an entry.
func (ti *tableImage) write(put func([]byte) error, stop func() error) error {
	entry := appendWrites(nil, ti.table.created, nil, nil)
	header := len(entry)
	var err error
	flush := func() {
		if err = stop(); err == nil && len(entry) > header {
			err = put(entry)
		}
		entry = entry[:header]
	}
	for n, frozen := range ti.shards {
		if frozen == nil {
			continue
		}
		shard := &ti.table.shards[n]
		for from, more := "", true; more; {
			from, more = shard.frozenPage(frozen, from, func(r *record) bool {
				entry = appendChange(entry, &change{table: ti.table, shard: n, new: r})
				return len(entry) < checkpointPart
			})
			if len(entry) < checkpointPart {
				continue
			}
			if flush(); err != nil {
				return err
			}
		}
		shard.thaw()
	}
	flush()
	return err
}

// thaw releases everything that was frozen.
func (im *image) thaw() {
	for i := range im.tables {
		t := im.tables[i].table
		for n := range t.shards {
			t.shards[n].thaw()
		}
	}
}
