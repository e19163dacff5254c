package dynamolite

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const maxBatchWrite = 25 // requests

// BatchWriteItem puts and deletes up to 25 items, each separately and without a condition. It
// validates all of them before it writes any. Writes that meet a throttled partition or a
// transaction in progress come back in UnprocessedItems.
func (db *DB) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return run(ctx, db, opBatchWriteItem, in, (*DB).batchWriteItem)
}

func (db *DB) batchWriteItem(c *call, in *dynamodb.BatchWriteItemInput) (*dynamodb.BatchWriteItemOutput, error) {
	if err := checkReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics); err != nil {
		return nil, err
	}
	writes, requests, err := db.newBatchWrite(c, in.RequestItems)
	if err != nil {
		return nil, err
	}
	bs := bills{}
	var metrics collections
	unprocessed := map[string][]types.WriteRequest{}
	var throttled error // of an item
	wrote := false      // at least one other item was written
	for i := range writes {
		w := &writes[i]
		e, err := w.execute(db, c)
		switch {
		case err == nil:
			wrote = true
			bs.of(w.table, bill{}).addWrite(&e)
			metrics.add(c, w, in.ReturnItemCollectionMetrics)
		case isThrottled(err):
			throttled = err
			unprocessed[requests[i].table] = append(unprocessed[requests[i].table], requests[i].WriteRequest)
		case isConflict(err):
			unprocessed[requests[i].table] = append(unprocessed[requests[i].table], requests[i].WriteRequest)
		default:
			return nil, err
		}
	}
	if throttled != nil && !wrote {
		return nil, throttled
	}
	bs.enter(c.op)
	return &dynamodb.BatchWriteItemOutput{
		UnprocessedItems:      unprocessed,
		ConsumedCapacity:      bs.report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: metrics,
	}, nil
}

// batchedRequest is a request of a batch, and the table's name or ARN in the batch.
type batchedRequest struct {
	types.WriteRequest

	table string
}

// newBatchWrite validates a batch and sorts its tables by name.
func (db *DB) newBatchWrite(c *call, in map[string][]types.WriteRequest) ([]write, []batchedRequest, error) {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(in)) {
		n := len(in[name])
		if n == 0 || n > maxBatchWrite { // AWS repeats all requests
			return nil, nil, unfit(fmt.Sprintf("'{%s=[%d requests]}'", name, n), "requestItems", fmt.Sprintf(
				"Map value must satisfy constraint: [Member must have length less than or equal to %d, Member must have length greater than or equal to 1]", maxBatchWrite))
		}
		total += n
	}
	switch {
	case total == 0:
		return nil, nil, validation("The requestItems parameter is required for BatchWriteItem")
	case total > maxBatchWrite:
		return nil, nil, validation("Too many items requested for the BatchWriteItem call")
	}
	writes, requests := make([]write, 0, total), make([]batchedRequest, 0, total)
	seen := map[transactKey]bool{} // a table may occur under its name and its ARN
	for _, name := range slices.Sorted(maps.Keys(in)) {
		t, err := db.table(c, &name)
		if err != nil {
			return nil, nil, err
		}
		for _, request := range in[name] {
			w, err := t.newBatched(request)
			if err != nil {
				return nil, nil, err
			}
			if seen[transactKey{t, w.key.full}] {
				return nil, nil, validation("Provided list of item keys contains duplicates")
			}
			seen[transactKey{t, w.key.full}] = true
			writes, requests = append(writes, w), append(requests, batchedRequest{request, name})
		}
	}
	return writes, requests, nil
}

func (t *table) newBatched(request types.WriteRequest) (write, error) {
	switch put, del := request.PutRequest, request.DeleteRequest; {
	case put != nil && del == nil:
		return t.newPut(put.Item)
	case del != nil && put == nil:
		return t.newKeyed(writeDelete, del.Key)
	default:
		return write{}, validation("Supplied WriteRequest must have exactly one of PutRequest and DeleteRequest")
	}
}
