package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// alter replaces a table's schema by a changed clone of it, between two writes. If change returns
// an error, the schema stays as it is. Alterations of one table are serial; a deleted table gets
// no more.
func (db *DB) alter(c *call, t *table, change func(*schema) error) error {
	t.altering.Lock()
	defer t.altering.Unlock()
	if t.retired {
		return notFound(c.op, t.name)
	}
	next := t.schema().clone()
	if err := change(next); err != nil {
		return err
	}
	t.lockAll()
	defer t.unlockAll()
	before := t.schema()
	if next.stream != before.stream && next.stream != nil {
		db.streams.add(next.stream)
	}
	pos, err := db.noteTable(t, next)
	if err != nil {
		if next.stream != before.stream {
			db.streams.remove(next.stream)
		}
		return err
	}
	if next.stream != before.stream {
		now := db.now()
		if before.stream != nil {
			before.stream.disable(sequence(pos, 0), now)
		}
		db.streams.publish(next.stream, now)
	}
	c.sees(pos)
	t.altered.Store(uint64(pos))
	for i := range t.shards {
		t.shards[i].latest = max(t.shards[i].latest, pos)
	}
	db.measure(t, next)
	t.current.Store(next)
	return nil
}

// retire ends a table's part in the log and its stream, unless the table must not be deleted.
// Later writes to the table have no effect.
func (db *DB) retire(c *call, t *table) error {
	t.altering.Lock()
	defer t.altering.Unlock()
	switch s := t.schema(); {
	case s.protected:
		return validationf("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	case s.fillingBeside(nil):
		return &types.ResourceInUseException{Message: aws.String("Table " + t.name + " has an index that is being created: wait until it is ACTIVE")}
	}
	t.lockAll()
	defer t.unlockAll()
	pos, err := db.noteDrop(t)
	if err != nil {
		return err
	}
	c.sees(pos)
	t.retired = true
	last := t.schema().clone()
	if last.stream != nil {
		now := db.now()
		last.stream.disable(sequence(pos, 0), now)
		last.stream = nil
		db.streams.publish(nil, now)
	}
	t.current.Store(last)
	return nil
}
