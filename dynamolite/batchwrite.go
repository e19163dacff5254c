package dynamolite

import (
	"context"
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
			unprocessed[w.table.name] = append(unprocessed[w.table.name], requests[i])
		case isConflict(err):
			unprocessed[w.table.name] = append(unprocessed[w.table.name], requests[i])
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

// newBatchWrite validates a batch and sorts its tables by name.
func (db *DB) newBatchWrite(c *call, in map[string][]types.WriteRequest) ([]write, []types.WriteRequest, error) {
	total := 0
	for _, requests := range in {
		total += len(requests)
	}
	if total == 0 || total > maxBatchWrite {
		return nil, nil, validationf("Too many or too few items requested for the BatchWriteItem call: %d, not 1 to %d", total, maxBatchWrite)
	}
	writes, requests := make([]write, 0, total), make([]types.WriteRequest, 0, total)
	for _, name := range slices.Sorted(maps.Keys(in)) {
		t, err := db.table(c, &name)
		if err != nil {
			return nil, nil, err
		}
		if len(in[name]) == 0 {
			return nil, nil, validationf("The write requests of table %s must not be empty", name)
		}
		seen := map[string]bool{}
		for _, request := range in[name] {
			w, err := t.newBatched(request)
			if err != nil {
				return nil, nil, err
			}
			if seen[w.key.full] {
				return nil, nil, validation("Provided list of item keys contains duplicates")
			}
			seen[w.key.full] = true
			writes, requests = append(writes, w), append(requests, request)
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
