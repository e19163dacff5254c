package request

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

const (
	maxBatchGet   = 100              // keys
	maxBatchBytes = 16 * 1024 * 1024 // of items in the answer of BatchGetItem
)

// BatchGetItem executes the operation of that name.
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

// tableGets are the validated reads of one table of a batch.
type tableGets struct {
	name    string // or ARN, as in the request
	request types.KeysAndAttributes
	gets    []Get // in the order of request.Keys
}

// read reads as many items as their partitions and the room in the answer allow. Left are the
// keys of the others. Throttled is the error of the last partition that had no capacity left.
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

// newBatchGet validates a batch and sorts its tables by name.
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

// unprocessed returns the request for some of the keys.
func unprocessed(request types.KeysAndAttributes, left []int) types.KeysAndAttributes {
	request.ExpressionAttributeNames = maps.Clone(request.ExpressionAttributeNames)
	keys := make([]map[string]types.AttributeValue, len(left))
	for i, at := range left {
		keys[i] = value.Clone(request.Keys[at])
	}
	request.Keys = keys
	return request
}
