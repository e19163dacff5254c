package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// UpdateItem changes attributes of an item, which it creates from the key if it is not there.
// Without an UpdateExpression it creates the item or leaves it as it is.
func (db *DB) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return run(ctx, db, opUpdateItem, in, (*DB).updateItem)
}

func (db *DB) updateItem(in *dynamodb.UpdateItemInput) (*dynamodb.UpdateItemOutput, error) {
	t, err := db.table(in.TableName)
	if err != nil {
		return nil, err
	}
	w, err := t.newUpdate(in)
	if err != nil {
		return nil, err
	}
	e, b, err := w.perform(opUpdateItem)
	if err != nil {
		return nil, err
	}
	return &dynamodb.UpdateItemOutput{
		Attributes:       w.returned(in.ReturnValues, &e),
		ConsumedCapacity: b.report(in.ReturnConsumedCapacity),
	}, nil
}

func (t *table) newUpdate(in *dynamodb.UpdateItemInput) (w write, err error) {
	if err := checkReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics); err != nil {
		return w, err
	}
	switch in.ReturnValues {
	case "", types.ReturnValueNone, types.ReturnValueAllOld, types.ReturnValueAllNew, types.ReturnValueUpdatedOld, types.ReturnValueUpdatedNew:
	default:
		return w, badEnum("returnValues", string(in.ReturnValues), "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW")
	}
	if err := refuseLegacy(legacy{"AttributeUpdates", in.AttributeUpdates != nil}, legacy{"Expected", in.Expected != nil},
		legacy{"ConditionalOperator", in.ConditionalOperator != ""}); err != nil {
		return w, err
	}
	env, err := newEnv(in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.UpdateExpression, in.ConditionExpression)
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

// returned is what ReturnValues asks for. The updated attributes alone come with their path, so
// that of a map only the touched members are returned.
func (w *write) returned(want types.ReturnValue, e *effect) value.Item {
	switch want {
	case types.ReturnValueAllOld:
		return image(e.old, nil)
	case types.ReturnValueAllNew:
		return image(e.new, nil)
	case types.ReturnValueUpdatedOld:
		return touched(w.update, e.old)
	case types.ReturnValueUpdatedNew:
		return touched(w.update, e.new)
	default:
		return nil
	}
}

func touched(u *expr.Update, r *record) value.Item {
	if u == nil || r == nil {
		return nil
	}
	if item := u.Touched(r.item); len(item) > 0 {
		return value.Clone(item)
	}
	return nil
}
