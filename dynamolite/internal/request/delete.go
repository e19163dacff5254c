package request

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
)

// DeleteItem executes the operation of that name.
func (ex *Executor) DeleteItem(c *api.Call, in *dynamodb.DeleteItemInput) (*dynamodb.DeleteItemOutput, error) {
	t, err := ex.Tables.Find(c, in.TableName)
	returnOld, unfit := wantsOld(in.ReturnValues)
	if err := api.InOrder(err, CheckReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics), unfit); err != nil {
		return nil, err
	}
	if err := refuseLegacy(
		parameters{{"Expected", in.Expected != nil}, {"ConditionalOperator", in.ConditionalOperator != ""}},
		parameters{{"ConditionExpression", in.ConditionExpression != nil}},
	); err != nil {
		return nil, err
	}
	env, err := NewEnv("ConditionExpression is null", in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression)
	if err != nil {
		return nil, err
	}
	w, err := NewKeyed(t, WriteDelete, in.Key)
	if err != nil {
		return nil, err
	}
	if err := w.Conditional(in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure, env); err != nil {
		return nil, err
	}
	if err := Unused(env); err != nil {
		return nil, err
	}
	e, b, err := w.perform(ex, c)
	if err != nil {
		return nil, err
	}
	out := &dynamodb.DeleteItemOutput{
		ConsumedCapacity:      b.report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: w.collection(c, in.ReturnItemCollectionMetrics),
	}
	if returnOld && e.Old != nil {
		out.Attributes = e.Old.Item()
	}
	return out, nil
}
