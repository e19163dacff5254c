package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// DeleteItem removes an item. The removal of a missing item succeeds and costs one unit.
func (db *DB) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return run(ctx, db, opDeleteItem, in, (*DB).deleteItem)
}

func (db *DB) deleteItem(c *call, in *dynamodb.DeleteItemInput) (*dynamodb.DeleteItemOutput, error) {
	t, err := db.table(c, in.TableName)
	returnOld, unfit := wantsOld(in.ReturnValues)
	if err := inOrder(err, checkReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics), unfit); err != nil {
		return nil, err
	}
	if err := refuseLegacy(
		parameters{{"Expected", in.Expected != nil}, {"ConditionalOperator", in.ConditionalOperator != ""}},
		parameters{{"ConditionExpression", in.ConditionExpression != nil}},
	); err != nil {
		return nil, err
	}
	env, err := newEnv("ConditionExpression is null", in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression)
	if err != nil {
		return nil, err
	}
	w, err := t.newKeyed(writeDelete, in.Key)
	if err != nil {
		return nil, err
	}
	if err := w.conditional(in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure, env); err != nil {
		return nil, err
	}
	if err := unused(env); err != nil {
		return nil, err
	}
	e, b, err := w.perform(db, c)
	if err != nil {
		return nil, err
	}
	out := &dynamodb.DeleteItemOutput{
		ConsumedCapacity:      b.report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: w.collection(c, in.ReturnItemCollectionMetrics),
	}
	if returnOld && e.old != nil {
		out.Attributes = e.old.item()
	}
	return out, nil
}
