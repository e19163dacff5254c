package request

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// UpdateItem executes the operation of that name.
//
// AWS checks the name of the table, then the enumerations, then whether the table exists: see
// [api.InOrder].
func (ex *Executor) UpdateItem(c *api.Call, in *dynamodb.UpdateItemInput) (*dynamodb.UpdateItemOutput, error) {
	t, err := ex.Tables.Find(c, in.TableName)
	if err := api.InOrder(err, CheckReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics), checkReturnValues(in.ReturnValues)); err != nil {
		return nil, err
	}
	w, err := newUpdate(t, in)
	if err != nil {
		return nil, err
	}
	e, b, err := w.perform(ex, c)
	if err != nil {
		return nil, err
	}
	return &dynamodb.UpdateItemOutput{
		Attributes:            w.returned(in.ReturnValues, &e),
		ConsumedCapacity:      b.report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: w.collection(c, in.ReturnItemCollectionMetrics),
	}, nil
}

// newUpdate validates an UpdateItem. An update without an expression creates the item from its key,
// if there is none. Of an existing item it changes nothing and costs a write. A key in the
// expression is an error here, and the reason of a cancellation in a transaction.
func newUpdate(t *table.Table, in *dynamodb.UpdateItemInput) (w Write, err error) {
	if err := refuseLegacy(
		parameters{{"AttributeUpdates", in.AttributeUpdates != nil}, {"Expected", in.Expected != nil}, {"ConditionalOperator", in.ConditionalOperator != ""}},
		parameters{{"UpdateExpression", in.UpdateExpression != nil}, {"ConditionExpression", in.ConditionExpression != nil}},
	); err != nil {
		return w, err
	}
	env, err := NewEnv("UpdateExpression and ConditionExpression are null", in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.UpdateExpression, in.ConditionExpression)
	if err != nil {
		return w, err
	}
	if w, err = NewWrite(t, WriteUpdate, in.Key); err != nil {
		return w, err
	}
	if in.UpdateExpression != nil {
		if err := w.Updating(*in.UpdateExpression, env); err != nil {
			return w, err
		}
		if err := w.SparesKey(); err != nil {
			return w, err
		}
	}
	if err := w.Conditional(in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure, env); err != nil {
		return w, err
	}
	return w, Unused(env)
}

// returned returns the values that ReturnValues asks for. UPDATED_OLD and UPDATED_NEW return the
// updated attributes by path: of a map, only the touched members. DynamoDB Local returns whole
// top-level attributes. The recorded cases follow the documentation of AWS, "only the updated
// attributes".
//
// Without an expression nothing is updated, so these two return nothing.
func (w *Write) returned(want types.ReturnValue, e *Effect) value.Item {
	switch want {
	case types.ReturnValueAllOld:
		return e.Old.Item()
	case types.ReturnValueAllNew:
		return w.newImage(e)
	case types.ReturnValueUpdatedOld:
		return w.touchedOf(e.was)
	case types.ReturnValueUpdatedNew:
		return w.touchedOf(e.is)
	default:
		return nil
	}
}

// newImage returns the item after the update. It copies the values that the update wrote, because
// one value may have been written to two places. Without the copy, the caller would change both
// places when it changes one. The item itself belongs to this request, because records are decoded
// for each request.
func (w *Write) newImage(e *Effect) value.Item {
	if e.is == nil {
		return e.New.Item()
	}
	for _, name := range w.Touched {
		if v, ok := e.is[name]; ok {
			e.is[name] = value.CloneValue(v)
		}
	}
	return e.is
}

// touchedOf returns the touched parts of an item. They are copies, for the reason that newImage
// has.
func (w *Write) touchedOf(item value.Item) value.Item {
	if w.Update == nil || item == nil {
		return nil
	}
	if touched := w.Update.Touched(item); len(touched) > 0 {
		return value.Clone(touched)
	}
	return nil
}
