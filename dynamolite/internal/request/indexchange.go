package request

import (
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// indexChange is the effect of a write on one index.
//
// It is computed with the evaluation and applied after the note, so applying needs no decision and
// cannot fail. It is right while the item is the one that was evaluated: the entries of other items
// have other keys.
type indexChange struct {
	index     *table.Index
	drop      string // key of the entry to remove, or ""
	dropShard int
	put       *storage.Record // entry to store, or nil
	putShard  int
	units     table.Units // including dropUnits
	dropUnits table.Units // for removing an entry under another key

	dropPartition, putPartition wall.Partition // of the index, if it has a meter
}

// changeOf computes the effect of a write on an index; ok is false if there is none.
//
// The prices are those of "Provisioned throughput considerations for Global Secondary Indexes" in
// the developer guide:
//
//	item before   item after      the index            price
//	in            in, same key    put, if it differs   the larger entry
//	in            in, other key   drop and put         both entries
//	in            out             drop                 the old entry
//	out           in              put                  the new entry
//	out           stays out       stays as it is       none
//
// DynamoDB Local bills a unit if one key attribute comes and the other goes. The recorded cases
// follow AWS.
func (e *Effect) changeOf(x *table.Index) (c indexChange, ok bool) {
	if e.touched != nil && e.sameIn(x) {
		return c, false // its keys are projected too
	}
	oldShard, oldKey, wasIn := x.EntryKey(e.Old, e.was)
	newShard, newKey, isIn := x.EntryKey(e.New, e.is)
	c.index = x
	if x.Meter != nil {
		c.dropPartition, c.putPartition = x.Partition(e.Old, e.was), x.Partition(e.New, e.is)
	}
	switch {
	case wasIn && isIn && oldKey == newKey:
		if e.touched == nil && e.sameIn(x) {
			return c, false
		}
		c.put, c.putShard = x.Entry(newKey, e.New, e.is), newShard
		c.units = x.WriteUnits(max(x.EntrySize(e.Old, e.was), c.put.Size))
		return c, true
	case wasIn:
		c.drop, c.dropShard = oldKey, oldShard
		c.dropUnits = x.WriteUnits(x.EntrySize(e.Old, e.was))
		c.units = c.dropUnits
	}
	if isIn {
		c.put, c.putShard = x.Entry(newKey, e.New, e.is), newShard
		c.units += x.WriteUnits(c.put.Size)
	}
	return c, wasIn || isIn
}

// sameIn reports whether an item looks unchanged to an index. The keys must be unchanged or among
// the touched attributes. For a put, equal keys of the entry stand for equal key attributes, so
// only the included attributes are compared.
func (e *Effect) sameIn(x *table.Index) bool {
	names := x.Include
	switch {
	case e.touched != nil:
		names = e.touched
	case x.Projected == nil:
		e.decode()
		return value.EqualItems(e.was, e.is)
	}
	for _, name := range names {
		if x.Projects(name) && !sameAttribute(e.Old.Attribute(e.was, name), e.New.Attribute(e.is, name)) {
			return false
		}
	}
	return true
}

// sameAttribute reports whether two values, nil if there is none, are equal.
func sameAttribute(a, b value.AV) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return value.Equal(a, b)
}

// apply applies a change that has its place in the order of writes at pos. The caller holds the
// item's table shard.
//
// The naive design holds both shards of an entry that moves. Two moves in opposite directions would
// then wait for each other, or need an order, and a write to one item would lock most of an index. A
// reader between the two steps misses the entry. It may: AWS reads of global indexes are eventually
// consistent. A Query of a local index, whose reads can be consistent, holds the shard of the table.
func (c *indexChange) apply(pos journal.Position) {
	if c.drop != "" {
		s := &c.index.Shards[c.dropShard]
		s.Mu.Lock()
		s.DeleteLocked(c.drop, pos)
		if c.put != nil && c.putShard == c.dropShard { // a reader sees one of the two
			s.SetLocked(c.put, pos)
			s.Mu.Unlock()
			return
		}
		s.Mu.Unlock()
	}
	if c.put != nil {
		s := &c.index.Shards[c.putShard]
		s.Mu.Lock()
		s.SetLocked(c.put, pos)
		s.Mu.Unlock()
	}
}
