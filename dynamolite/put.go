package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// PutItem stores an item and replaces the item with the same key, if there is one.
func (db *DB) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return run(ctx, db, opPutItem, in, (*DB).putItem)
}

func (db *DB) putItem(c *call, in *dynamodb.PutItemInput) (*dynamodb.PutItemOutput, error) {
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
	w, err := t.newPut(in.Item)
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
	out := &dynamodb.PutItemOutput{
		ConsumedCapacity:      b.report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: w.collection(c, in.ReturnItemCollectionMetrics),
	}
	if returnOld && e.old != nil {
		out.Attributes = e.old.item()
	}
	return out, nil
}
