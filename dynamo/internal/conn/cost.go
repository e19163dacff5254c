package conn

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// AskForUnits makes a request ask what it consumes. It returns the name of the operation,
// "" for an operation that consumes nothing.
func AskForUnits(in any) (name string) {
	const all = types.ReturnConsumedCapacityIndexes
	switch in := in.(type) {
	case *dynamodb.GetItemInput:
		name, in.ReturnConsumedCapacity = "GetItem", all
	case *dynamodb.PutItemInput:
		name, in.ReturnConsumedCapacity = "PutItem", all
	case *dynamodb.UpdateItemInput:
		name, in.ReturnConsumedCapacity = "UpdateItem", all
	case *dynamodb.QueryInput:
		name, in.ReturnConsumedCapacity = "Query", all
	case *dynamodb.ScanInput:
		name, in.ReturnConsumedCapacity = "Scan", all
	case *dynamodb.BatchGetItemInput:
		name, in.ReturnConsumedCapacity = "BatchGetItem", all
	case *dynamodb.BatchWriteItemInput:
		name, in.ReturnConsumedCapacity = "BatchWriteItem", all
	case *dynamodb.TransactWriteItemsInput:
		name, in.ReturnConsumedCapacity = "TransactWriteItems", all
	}
	return name
}

// Units returns the capacity units that an answer says were consumed.
func Units(out any) (read, write float64) {
	switch out := out.(type) {
	case *dynamodb.GetItemOutput:
		return units(true, out.ConsumedCapacity)
	case *dynamodb.PutItemOutput:
		return units(false, out.ConsumedCapacity)
	case *dynamodb.UpdateItemOutput:
		return units(false, out.ConsumedCapacity)
	case *dynamodb.QueryOutput:
		return units(true, out.ConsumedCapacity)
	case *dynamodb.ScanOutput:
		return units(true, out.ConsumedCapacity)
	case *dynamodb.BatchGetItemOutput:
		return sum(true, out.ConsumedCapacity)
	case *dynamodb.BatchWriteItemOutput:
		return sum(false, out.ConsumedCapacity)
	case *dynamodb.TransactWriteItemsOutput:
		return sum(false, out.ConsumedCapacity)
	}
	return 0, 0
}

// sum adds up the units of several tables.
func sum(isRead bool, consumed []types.ConsumedCapacity) (read, write float64) {
	for i := range consumed {
		r, w := units(isRead, &consumed[i])
		read, write = read+r, write+w
	}
	return read, write
}

// units returns consumed units by kind. isRead tells the kind if the answer does not.
func units(isRead bool, c *types.ConsumedCapacity) (read, write float64) {
	switch {
	case c == nil || c.CapacityUnits == nil:
		return 0, 0
	case c.ReadCapacityUnits != nil || c.WriteCapacityUnits != nil:
		return value(c.ReadCapacityUnits), value(c.WriteCapacityUnits)
	case isRead:
		return *c.CapacityUnits, 0
	}
	return 0, *c.CapacityUnits
}

// charge adds a request to a bill.
func (c *Conn) charge(bill *store.Bill, name string, out any, err error) {
	cost := store.Cost{Requests: 1, Name: name, Table: *c.Table}
	if err != nil {
		cost.WriteUnits = FailureUnits(err)
	} else {
		cost.ReadUnits, cost.WriteUnits = Units(out)
	}
	bill.Charge(cost)
}

func value(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}

// FailureUnits returns the cost of a write that a condition refused.
func FailureUnits(err error) float64 {
	const kb, transactional = 1024, 2
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		return float64(max(1, (schema.ItemSize(failed.Item)+kb-1)/kb))
	}
	return float64(transactional * len(Cancellation(err)))
}
