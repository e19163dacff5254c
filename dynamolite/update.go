package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// UpdateItem changes attributes of an item. It creates a missing item from the key. Without an
// UpdateExpression it creates the item or leaves it unchanged.
func (db *DB) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return run(ctx, db, opUpdateItem, in, (*DB).updateItem)
}

func (db *DB) updateItem(c *call, in *dynamodb.UpdateItemInput) (*dynamodb.UpdateItemOutput, error) {
	t, err := db.table(c, in.TableName)
	if err := inOrder(err, checkReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics), checkUpdateReturns(in.ReturnValues)); err != nil {
		return nil, err
	}
	w, err := t.newUpdate(in)
	if err != nil {
		return nil, err
	}
	e, b, err := w.perform(db, c)
	if err != nil {
		return nil, err
	}
	return &dynamodb.UpdateItemOutput{
		Attributes:            w.returned(in.ReturnValues, &e),
		ConsumedCapacity:      b.report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: w.collection(c, in.ReturnItemCollectionMetrics),
	}, nil
}

func checkUpdateReturns(v types.ReturnValue) error {
	switch v {
	case "", types.ReturnValueNone, types.ReturnValueAllOld, types.ReturnValueAllNew, types.ReturnValueUpdatedOld, types.ReturnValueUpdatedNew:
		return nil
	default:
		return badEnum("returnValues", string(v), "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW")
	}
}

func (t *table) newUpdate(in *dynamodb.UpdateItemInput) (w write, err error) {
	if err := refuseLegacy(
		parameters{{"AttributeUpdates", in.AttributeUpdates != nil}, {"Expected", in.Expected != nil}, {"ConditionalOperator", in.ConditionalOperator != ""}},
		parameters{{"UpdateExpression", in.UpdateExpression != nil}, {"ConditionExpression", in.ConditionExpression != nil}},
	); err != nil {
		return w, err
	}
	env, err := newEnv("UpdateExpression and ConditionExpression are null", in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.UpdateExpression, in.ConditionExpression)
	if err != nil {
		return w, err
	}
	if w, err = t.newKeyed(writeUpdate, in.Key); err != nil {
		return w, err
	}
	if in.UpdateExpression != nil {
		if err := w.updating(*in.UpdateExpression, env); err != nil {
			return w, err
		}
		if err := w.sparesKey(); err != nil {
			return w, err
		}
	}
	if err := w.conditional(in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure, env); err != nil {
		return w, err
	}
	return w, unused(env)
}

// returned returns the values that ReturnValues asks for. UPDATED_OLD and UPDATED_NEW return the
// updated attributes by path: of a map, only the touched members.
func (w *write) returned(want types.ReturnValue, e *effect) value.Item {
	switch want {
	case types.ReturnValueAllOld:
		return e.old.item()
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
// one value may have been written to two places.
func (w *write) newImage(e *effect) value.Item {
	if e.is == nil {
		return e.new.item()
	}
	for _, name := range w.touched {
		if v, ok := e.is[name]; ok {
			e.is[name] = value.CloneValue(v)
		}
	}
	return e.is
}

func (w *write) touchedOf(item value.Item) value.Item {
	if w.update == nil || item == nil {
		return nil
	}
	if touched := w.update.Touched(item); len(touched) > 0 {
		return value.Clone(touched)
	}
	return nil
}
