package request

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

const maxBatchWrite = 25 // requests

// BatchWriteItem executes the operation of that name.
func (ex *Executor) BatchWriteItem(c *api.Call, in *dynamodb.BatchWriteItemInput) (*dynamodb.BatchWriteItemOutput, error) {
	if err := CheckReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics); err != nil {
		return nil, err
	}
	writes, requests, err := ex.newBatchWrite(c, in.RequestItems)
	if err != nil {
		return nil, err
	}
	bs := Bills{}
	var metrics Collections
	unprocessed := map[string][]types.WriteRequest{}
	var throttled error // of an item
	wrote := false      // at least one other item was written
	for i := range writes {
		w := &writes[i]
		e, err := w.execute(ex, c)
		switch {
		case err == nil:
			wrote = true
			bs.Of(w.Table, Bill{}).AddWrite(&e)
			metrics.Add(c, w, in.ReturnItemCollectionMetrics)
		case isThrottled(err):
			throttled = err
			unprocessed[requests[i].table] = append(unprocessed[requests[i].table], requests[i].WriteRequest)
		case api.IsConflict(err):
			unprocessed[requests[i].table] = append(unprocessed[requests[i].table], requests[i].WriteRequest)
		default:
			return nil, err
		}
	}
	if throttled != nil && !wrote {
		return nil, throttled
	}
	bs.Enter(c.Op)
	return &dynamodb.BatchWriteItemOutput{
		UnprocessedItems:      unprocessed,
		ConsumedCapacity:      bs.Report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: metrics,
	}, nil
}

// batchedRequest is a request of a batch, and the table's name or ARN in the batch.
type batchedRequest struct {
	types.WriteRequest

	table string
}

// newBatchWrite validates a batch and sorts its tables by name.
func (ex *Executor) newBatchWrite(c *api.Call, in map[string][]types.WriteRequest) ([]Write, []batchedRequest, error) {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(in)) {
		n := len(in[name])
		if n == 0 || n > maxBatchWrite { // AWS repeats all requests
			return nil, nil, api.Unfit(fmt.Sprintf("'{%s=[%d requests]}'", name, n), "requestItems", fmt.Sprintf(
				"Map value must satisfy constraint: [Member must have length less than or equal to %d, Member must have length greater than or equal to 1]", maxBatchWrite))
		}
		total += n
	}
	switch {
	case total == 0:
		return nil, nil, api.Validation("The requestItems parameter is required for BatchWriteItem")
	case total > maxBatchWrite:
		return nil, nil, api.Validation("Too many items requested for the BatchWriteItem call")
	}
	writes, requests := make([]Write, 0, total), make([]batchedRequest, 0, total)
	seen := map[ItemName]bool{} // a table may occur under its name and its ARN
	for _, name := range slices.Sorted(maps.Keys(in)) {
		t, err := ex.Tables.Find(c, &name)
		if err != nil {
			return nil, nil, err
		}
		for _, request := range in[name] {
			w, err := newBatched(t, request)
			if err != nil {
				return nil, nil, err
			}
			if seen[ItemName{t, w.Key.Full}] {
				return nil, nil, api.Validation("Provided list of item keys contains duplicates")
			}
			seen[ItemName{t, w.Key.Full}] = true
			writes, requests = append(writes, w), append(requests, batchedRequest{request, name})
		}
	}
	return writes, requests, nil
}

func newBatched(t *table.Table, request types.WriteRequest) (Write, error) {
	switch put, del := request.PutRequest, request.DeleteRequest; {
	case put != nil && del == nil:
		return NewWrite(t, WritePut, put.Item)
	case del != nil && put == nil:
		return NewWrite(t, WriteDelete, del.Key)
	default:
		return Write{}, api.Validation("Supplied WriteRequest must have exactly one of PutRequest and DeleteRequest")
	}
}
