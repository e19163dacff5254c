package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
)

// Query reads a range of one partition of a table or of a secondary index, in order of the sort
// key. A page ends after Limit items or 1 MB, before the filter. It then has a LastEvaluatedKey,
// even if nothing follows. Items with equal keys in an index are ordered by the keys of the
// table.
//
// If a ProjectionExpression or ALL_ATTRIBUTES asks for attributes that a local secondary index
// does not hold, Query fetches the items from the table. Each fetched item is billed to the
// table, separately and whole, and its whole size counts for the 1 MB. A partition of a local
// index and its items are read as of one instant.
func (db *DB) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return run(ctx, db, api.Query, db.items, in, (*request.Executor).Query)
}

// Scan reads all of a table or of a secondary index, in an internal order that does not change.
// Its pages end like those of [DB.Query], and a local index fetches from the table in the same
// way. An item that exists from the first page to the last is read exactly once. If an item is
// written meanwhile, Scan may read either image. An item that moves in the scanned index may be
// read twice or not at all. A filter may use the keys; attributes that an index does not hold are
// absent to it.
//
// A table or an index is divided into 64 shards; a segment of a parallel Scan is a run of whole
// shards. Segments beyond that number are empty. The work is even only if the number of segments
// divides 64.
func (db *DB) Scan(ctx context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return run(ctx, db, api.Scan, db.items, in, (*request.Executor).Scan)
}
