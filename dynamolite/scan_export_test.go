package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
)

// SegmentOf returns the run of shards that a segment reads.
func SegmentOf(shards, segment, total int) (from, to int) {
	return request.SegmentOf(shards, segment, total)
}

// CollectionSize returns the estimated size of an item collection, in units of so many bytes. It
// looks at no more than walk records of each tree.
func (db *DB) CollectionSize(name string, hash types.AttributeValue, unit int64, walk int) (low, high float64) {
	t := db.tableNamed(name)
	return request.CollectionSize(t, &api.Call{}, hash, unit, walk)
}

// SetFilling marks an index of a table as still being filled, or not.
func (db *DB) SetFilling(name, index string, filling bool) {
	t := db.tableNamed(name)
	x, err := t.Schema().Index(index)
	if err != nil {
		panic(err)
	}
	x.Filling.Store(filling)
}
