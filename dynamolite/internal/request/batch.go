package request

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// AWS: "A single operation can retrieve up to 16 MB of data, which can contain as many as 100
// items" (BatchGetItem, API reference). The item that would exceed the size is not part of the
// answer. A page of a Query still has it.
const (
	maxBatchGet   = 100              // keys
	maxBatchBytes = 16 * 1024 * 1024 // of items in the answer of BatchGetItem
)

// BatchGetItem executes the operation of that name.
//
// A batch is not as of one instant: each item is read under the lock of its own shard. The naive
// design locks all shards of the batch. It would promise more than AWS does, and programs that need
// a transaction would pass their tests without one.
//
// What finds no room comes back in UnprocessedKeys. Only if nothing was read does the batch fail,
// as AWS documents for BatchGetItem.
func (ex *Executor) BatchGetItem(c *api.Call, in *dynamodb.BatchGetItemInput) (*dynamodb.BatchGetItemOutput, error) {
	if err := CheckConsumedCapacity(in.ReturnConsumedCapacity); err != nil {
		return nil, err
	}
	batch, err := ex.newBatchGet(c, in.RequestItems)
	if err != nil {
		return nil, err
	}
	out := &dynamodb.BatchGetItemOutput{
		Responses:       map[string][]map[string]types.AttributeValue{},
		UnprocessedKeys: map[string]types.KeysAndAttributes{},
	}
	bs := Bills{}
	room := maxBatchBytes
	var throttled error // of an item
	read := false       // at least one other item was read
	for i := range batch {
		part := &batch[i]
		name := part.name
		b := bs.Of(part.gets[0].Table, Bill{Reads: true})
		items, left, err := part.read(ex, c, b, &room)
		out.Responses[name] = items
		if len(left) > 0 {
			out.UnprocessedKeys[name] = unprocessed(part.request, left)
		}
		if err != nil {
			throttled = err
		}
		read = read || len(left) < len(part.gets)
	}
	if throttled != nil && !read {
		return nil, throttled
	}
	bs.Enter(c.Op)
	out.ConsumedCapacity = bs.Report(in.ReturnConsumedCapacity)
	return out, nil
}

// tableGets are the validated reads of one table of a batch. Each is read by itself: two tables
// have nothing in common but the room of the answer.
type tableGets struct {
	name    string // or ARN, as in the request
	request types.KeysAndAttributes
	gets    []Get // in the order of request.Keys
}

// read reads as many items as their partitions and the room in the answer allow. Left are the
// keys of the others. Throttled is the error of the last partition that had no capacity left.
//
// Once the room is used up, all later items are left, even if a smaller one would fit. The bill has
// only what the answer has.
//
// A missing item costs as much as a small one. DynamoDB Local bills nothing for it. The recorded
// cases name the measurement on AWS (deviations_test.go of package differential).
func (p *tableGets) read(ex *Executor, c *api.Call, b *Bill, room *int) (items []map[string]types.AttributeValue, left []int, throttled error) {
	items = []map[string]types.AttributeValue{}
	for i := range p.gets {
		if *room < 0 {
			left = append(left, i)
			continue
		}
		g := &p.gets[i]
		r, u, err := g.read(ex, c, aws.ToBool(p.request.ConsistentRead))
		if err != nil {
			throttled, left = err, append(left, i)
			continue
		}
		if *room -= r.Bytes(); *room < 0 {
			left = append(left, i)
			continue
		}
		if err := c.Hold(r.Bytes()); err != nil {
			throttled, left = err, append(left, i)
			continue
		}
		b.Units += u
		if r != nil {
			items = append(items, Projected(r, g.Projection))
		}
	}
	return items, left, throttled
}

// newBatchGet validates a batch and sorts its tables by name. A map of Go has no order. With a
// sorted one, a batch is refused, throttled and cut off at the same place in each run.
func (ex *Executor) newBatchGet(c *api.Call, in map[string]types.KeysAndAttributes) ([]tableGets, error) {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(in)) {
		n := len(in[name].Keys)
		switch {
		case n == 0:
			return nil, api.Unfit("'[]'", "requestItems."+name+".member.keys", "Member must have length greater than or equal to 1")
		case n > maxBatchGet:
			return nil, api.Validationf("1 validation error detected: Value at 'RequestItems.%s.member.Keys' failed to satisfy constraint: "+
				"Member must have length less than or equal to %d", name, maxBatchGet)
		}
		total += n
	}
	switch {
	case total == 0:
		return nil, api.Validation("The requestItems parameter is required for BatchGetItem")
	case total > maxBatchGet:
		return nil, api.Validation("Too many items requested for the BatchGetItem call")
	}
	batch := make([]tableGets, 0, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		t, err := ex.Tables.Find(c, &name)
		if err != nil {
			return nil, err
		}
		gets, err := newGets(t, in[name])
		if err != nil {
			return nil, err
		}
		batch = append(batch, tableGets{name, in[name], gets})
	}
	return batch, nil
}

// newGets validates the reads of one table. Keys are compared by their encoding, so 1 and 1.0 are
// the same key, as on AWS. DynamoDB Local compares the text.
func newGets(t *table.Table, request types.KeysAndAttributes) ([]Get, error) {
	if err := refuseLegacy(
		parameters{{"AttributesToGet", request.AttributesToGet != nil}}, parameters{{"ProjectionExpression", request.ProjectionExpression != nil}},
	); err != nil {
		return nil, err
	}
	projection, err := parseProjection(request.ProjectionExpression, request.ExpressionAttributeNames)
	if err != nil {
		return nil, err
	}
	gets := make([]Get, len(request.Keys))
	seen := make(map[string]bool, len(request.Keys))
	for i, key := range request.Keys {
		k, err := t.Key.Of(key)
		if err != nil {
			return nil, err
		}
		if seen[k.Full] {
			return nil, api.Validation("Provided list of item keys contains duplicates")
		}
		seen[k.Full] = true
		gets[i] = Get{Table: t, Key: k, Projection: projection}
	}
	return gets, nil
}

// unprocessed returns the request for some of the keys. It is a copy: the caller owns both its
// request and the answer.
func unprocessed(request types.KeysAndAttributes, left []int) types.KeysAndAttributes {
	request.ExpressionAttributeNames = maps.Clone(request.ExpressionAttributeNames)
	keys := make([]map[string]types.AttributeValue, len(left))
	for i, at := range left {
		keys[i] = value.Clone(request.Keys[at])
	}
	request.Keys = keys
	return request
}

// maxBatchWrite is how many requests a batch may have, over all tables (BatchWriteItem, API
// reference).
const maxBatchWrite = 25

// BatchWriteItem executes the operation of that name.
//
// Each request is a write of its own, with its own entry in the log, so a crash may leave a part of
// the batch. AWS documents the same: single requests are atomic, the batch is not.
//
// An item that a transaction has taken comes back as unprocessed and never fails the batch (ADR
// 011). Throttled items fail it only if nothing was written. Other errors can only come from the
// log: a put or a delete has no condition here.
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
//
// UnprocessedItems returns it under this name, so the caller can send it again as it is.
type batchedRequest struct {
	types.WriteRequest

	table string
}

// newBatchWrite validates a batch and sorts its tables by name. All of it is validated before the
// first write, so an invalid batch writes nothing.
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
