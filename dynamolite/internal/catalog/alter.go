package catalog

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// alter replaces a table's schema by a changed clone of it, between two writes. If change returns
// an error, the schema stays as it is. Alterations of one table are serial; a deleted table gets
// no more.
//
// The naive design guards the schema with a lock of its own. Each write would take it beside that of
// its shard, and all writes of a table would meet at one word of memory. All shards are locked here
// instead, which is rare and short. A write finds its schema under the lock of its shard:
//
//	a write     lock shard · schema 1 · evaluate · apply · unlock
//	alter                                                 lock all · note · schema 2 · unlock
//
// A new stream is in the registry before the log has it, so that its label is its own. It is pending
// until then: a reader must not find a stream that a crash undoes.
//
// The order of its steps:
//
//	change    before the shards are locked: it may read them (table.Update.applyDrop)
//	register  a new stream, before the note, because the log has the stream's label
//	note      before the effect: a disk that refuses the entry leaves the table as it was
//	publish   the stream, when no failure can take it back
//	measure   before the schema, so that a write finds a meter for each global index
//	schema    last, after the position that whoever sees it must wait for
//
// The shards get the position of the alteration, too. A write that follows rests on the new schema,
// and must not be answered before the schema is on disk.
func (ts *Tables) alter(c *api.Call, t *table.Table, change func(*table.Schema) error) error {
	t.Altering.Lock()
	defer t.Altering.Unlock()
	if t.Retired {
		return api.NotFound(c.Op, t.Name)
	}
	next := t.Schema().Clone()
	if err := change(next); err != nil {
		return err
	}
	t.LockAll()
	defer t.UnlockAll()
	before := t.Schema()
	if next.Stream != before.Stream && next.Stream != nil {
		ts.Streams.Add(next.Stream)
	}
	pos, err := ts.Log.NoteTable(t, next)
	if err != nil {
		if next.Stream != before.Stream {
			ts.Streams.Remove(next.Stream)
		}
		return err
	}
	if next.Stream != before.Stream {
		now := ts.Log.Now()
		if before.Stream != nil {
			before.Stream.Disable(history.Sequence(pos, 0), now)
		}
		ts.Streams.Publish(next.Stream, now)
	}
	c.See(pos)
	t.Altered.Store(uint64(pos))
	for i := range t.Shards {
		t.Shards[i].Latest = max(t.Shards[i].Latest, pos)
	}
	ts.measure(t, next)
	t.Current.Store(next)
	return nil
}

// retire ends a table's part in the log and its stream, unless the table must not be deleted. Later
// writes to the table have no effect. The caller holds the lock of the names, so no table of the
// same name comes up before the log has the deletion.
//
// The clone that comes into force has no stream. Requests that have found the table may still write
// to it. Their records would come after the stream's end, where stream.Stream.Append panics.
func (ts *Tables) retire(c *api.Call, t *table.Table) error {
	t.Altering.Lock()
	defer t.Altering.Unlock()
	switch s := t.Schema(); {
	case s.Protected:
		return api.Validationf("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	case s.FillingBeside(nil):
		return &types.ResourceInUseException{Message: aws.String("Table " + t.Name + " has an index that is being created: wait until it is ACTIVE")}
	}
	t.LockAll()
	defer t.UnlockAll()
	pos, err := ts.Log.NoteDrop(t)
	if err != nil {
		return err
	}
	c.See(pos)
	t.Retired = true
	last := t.Schema().Clone()
	if last.Stream != nil {
		now := ts.Log.Now()
		last.Stream.Disable(history.Sequence(pos, 0), now)
		last.Stream = nil
		ts.Streams.Publish(nil, now)
	}
	t.Current.Store(last)
	return nil
}
