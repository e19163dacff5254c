package dynamolite

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// SegmentOf returns the run of shards that a segment reads.
func SegmentOf(shards, segment, total int) (from, to int) { return segmentOf(shards, segment, total) }

// CollectionSize returns the estimated size of an item collection, in units of so many bytes. It
// looks at no more than walk records of each tree.
func (db *DB) CollectionSize(name string, hash types.AttributeValue, unit int64, walk int) (low, high float64) {
	t, err := db.table(&call{}, &name)
	if err != nil {
		panic(err)
	}
	return t.collectionSize(&call{}, hash, unit, walk)
}

// SetFilling marks an index of a table as still being filled, or not.
func (db *DB) SetFilling(name, index string, filling bool) {
	t, err := db.table(&call{}, &name)
	if err != nil {
		panic(err)
	}
	x, err := t.schema().index(index)
	if err != nil {
		panic(err)
	}
	x.filling.Store(filling)
}
