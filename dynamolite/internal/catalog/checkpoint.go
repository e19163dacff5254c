package catalog

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

const (
	checkpointLog = 64 << 20 // bytes of log that make a checkpoint worthwhile
)

// checkpointIfDue starts a checkpoint when the log has outgrown the last one. Opening then reads at
// most about twice the data. A log as long as the last image is allowed, because then the costs of
// images and of writes are in proportion. The naive design takes a fixed length. A large database
// would then be written again and again.
//
// The caller holds locks of tables, so the work is done in the background.
func (ts *Tables) checkpointIfDue() {
	logged, image := ts.Log.Journal.Grown()
	if logged < ts.checkpointFailed.Load()+max(ts.CheckpointAfter, image) || !ts.checkpointing.CompareAndSwap(false, true) {
		return
	}
	ts.Background.Go(func() {
		defer ts.checkpointing.Store(false)
		var failed int64
		if err := ts.Checkpoint(); err != nil {
			failed = logged // retry only after the log has grown by as much again
			ts.Logger.Warn("checkpoint failed; the log keeps growing until a later one succeeds", "error", err)
		}
		ts.checkpointFailed.Store(failed)
	})
}

// image is the database at one place in the order of writes. It no longer changes.
//
// The naive design stops all writes until the image is written, which takes seconds for a gigabyte.
// Another writes shard by shard, each as of its own instant. A transaction could then be half in the
// image, and the log after it would repeat the other half on top of later writes. Freezing stops the
// writes only while the trees are cloned, and everything has one position.
//
// The trees share their cells with the tables. A write that replaces a record keeps the old one for
// the image ([storage.Shard]). Memory grows by what is written meanwhile, not by the database.
type image struct {
	at      time.Time
	created int
	tables  []tableImage
	tokens  []*history.TokenUse
	streams []streams.StreamImage
}

type tableImage struct {
	table  *table.Table
	schema *table.Schema
	shards [storage.Shards]*storage.Tree
}

// Checkpoint writes the whole database, as of one position, while operations continue.
//
// The order of its steps decides what a crash can leave:
//
//	freeze   fixes the position; entries after it go to a new segment
//	write    under a temporary name: a crash leaves the old image and the whole log
//	commit   renames the image, and then removes the log before it
//
// A stop of the database, or an error of the disk, ends it early. Nothing is lost then: the old
// image and the log stay.
func (ts *Tables) Checkpoint() error {
	c, im, err := ts.freeze()
	if err != nil {
		return err
	}
	defer c.Abort()
	err = im.write(c.Put, ts.Background.Stopped)
	im.thaw() // before another checkpoint can begin
	if err != nil {
		return err
	}
	return c.Commit()
}

// freeze stops all writes for as long as it takes to clone the trees. All shards of all tables are
// locked at once. The naive design locks one table after the other, and a transaction over two of
// them could be half in the image.
//
// Tables are locked by number and their shards in order, as transactions lock theirs. What a
// transaction has taken is not in the image, and need not be: its entry in the log follows.
//
//	transaction   take a, b · unlock ···················· lock · note · write
//	checkpoint                       lock all · clone · unlock
//
// Indexes are not frozen: a start fills them from the items.
func (ts *Tables) freeze() (*journal.Checkpoint, *image, error) {
	ts.mu.Lock() // no table is created or deleted
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, nil, ErrClosed
	}
	im := &image{at: ts.Log.Now(), created: ts.created}
	for _, t := range ts.byName {
		im.tables = append(im.tables, tableImage{table: t})
	}
	slices.SortFunc(im.tables, func(a, b tableImage) int { return a.table.Number - b.table.Number })
	for i := range im.tables {
		im.tables[i].table.LockAll()
		defer im.tables[i].table.UnlockAll()
	}
	c, err := ts.Log.Journal.BeginCheckpoint()
	if err != nil {
		return nil, nil, err
	}
	for i := range im.tables {
		ti := &im.tables[i]
		ti.schema = ti.table.Schema()
		for k := range ti.table.Shards {
			ti.shards[k] = ti.table.Shards[k].FreezeLocked()
		}
	}
	im.tokens = ts.Tokens.All()
	ts.Streams.Expire(im.at)
	im.streams = ts.Streams.Images()
	return c, im, nil
}

// write puts the image, entry by entry. It calls stop from time to time. The order is that of
// reading: how many tables there were, the tables, and then what belongs to them. A stream's entry
// fills the empty stream of its table, or registers a former one.
//
// A token is an entry of writes without changes, so that reading needs no code of its own for it.
func (im *image) write(put func([]byte) error, stop func() error) error {
	if err := put(binary.AppendUvarint([]byte{history.EntryTables}, uint64(im.created))); err != nil { //nolint:gosec // a count
		return err
	}
	for i := range im.tables {
		ti := &im.tables[i]
		entry, err := history.TableEntry(ti.table, ti.schema, im.at)
		if err != nil {
			return err
		}
		if err := put(entry); err != nil {
			return err
		}
	}
	for _, use := range im.tokens {
		if err := put(history.AppendWrites(nil, use.Ended, use, nil)); err != nil {
			return err
		}
	}
	for i := range im.streams {
		if err := im.streams[i].Write(history.EntryStream, put); err != nil {
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

// write puts the items of a table, many to an entry. An entry ends at about [journal.PartBytes], so
// that reading it back needs little memory. A shard is thawed as soon as it is written, so that it
// stops keeping replaced records.
func (ti *tableImage) write(put func([]byte) error, stop func() error) error {
	entry := history.AppendWrites(nil, ti.table.Created, nil, nil)
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
		shard := &ti.table.Shards[n]
		for from, more := "", true; more; {
			from, more = shard.FrozenPage(frozen, from, func(r *storage.Record) bool {
				entry = history.AppendChange(entry, &history.Change{Table: ti.table, Shard: n, New: r})
				return len(entry) < journal.PartBytes
			})
			if len(entry) < journal.PartBytes {
				continue
			}
			if flush(); err != nil {
				return err
			}
		}
		shard.Thaw()
	}
	flush()
	return err
}

// thaw releases everything that was frozen. Shards that were thawed before are not harmed: nothing
// else freezes them until the checkpoint ends.
func (im *image) thaw() {
	for i := range im.tables {
		t := im.tables[i].table
		for n := range t.Shards {
			t.Shards[n].Thaw()
		}
	}
}
