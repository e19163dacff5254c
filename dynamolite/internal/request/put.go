package request

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
)

// PutItem executes the operation of that name.
func (ex *Executor) PutItem(c *api.Call, in *dynamodb.PutItemInput) (*dynamodb.PutItemOutput, error) {
	return ex.replace(c, WritePut, in)
}

// DeleteItem executes the operation of that name.
func (ex *Executor) DeleteItem(c *api.Call, in *dynamodb.DeleteItemInput) (*dynamodb.DeleteItemOutput, error) {
	out, err := ex.replace(c, WriteDelete, &dynamodb.PutItemInput{
		Item: in.Key, TableName: in.TableName, ConditionExpression: in.ConditionExpression, ConditionalOperator: in.ConditionalOperator,
		Expected: in.Expected, ExpressionAttributeNames: in.ExpressionAttributeNames, ExpressionAttributeValues: in.ExpressionAttributeValues,
		ReturnConsumedCapacity: in.ReturnConsumedCapacity, ReturnItemCollectionMetrics: in.ReturnItemCollectionMetrics,
		ReturnValues: in.ReturnValues, ReturnValuesOnConditionCheckFailure: in.ReturnValuesOnConditionCheckFailure,
	})
	return (*dynamodb.DeleteItemOutput)(out), err
}

// replace executes a put, or a delete of the item whose key is in.Item. The two have the same
// parameters besides, and the same answer. ReturnValues of both knows only ALL_OLD and NONE. A
// value that only UpdateItem knows has another error than an unknown one, as on AWS.
func (ex *Executor) replace(c *api.Call, kind WriteKind, in *dynamodb.PutItemInput) (*dynamodb.PutItemOutput, error) {
	t, err := ex.Tables.Find(c, in.TableName)
	returns := checkReturnValues(in.ReturnValues)
	returnOld := in.ReturnValues == types.ReturnValueAllOld
	if returns == nil && in.ReturnValues != "" && in.ReturnValues != types.ReturnValueNone && !returnOld {
		returns = api.Validation("Return values set to invalid value")
	}
	if err := api.InOrder(err, CheckReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics), returns); err != nil {
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
	w, err := NewWrite(t, kind, in.Item)
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
	out := &dynamodb.PutItemOutput{
		ConsumedCapacity:      b.report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: w.collection(c, in.ReturnItemCollectionMetrics),
	}
	if returnOld && e.Old != nil {
		out.Attributes = e.Old.Item()
	}
	return out, nil
}
