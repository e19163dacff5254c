package differential_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// wordings are messages that DynamoDB Local and this engine give in the same words.
func wordings() []wording {
	all := syntaxWordings()
	for _, w := range mixWordings() {
		w.want = "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: " + w.want
		all = append(all, w)
	}
	return all
}

type wording struct {
	request any
	want    string
}

// syntaxWordings name the first token that is out of place, between its neighbours. Any other
// mistake is reported only if the whole text is well formed.
func syntaxWordings() []wording {
	var all []wording
	for _, e := range []struct{ member, text, want string }{
		{"Projection", "!", `Syntax error; token: "!", near: "!"`},
		{"Projection", "!!!", `Syntax error; token: "!", near: "!!"`},
		{"Projection", "!!! INVALID !!!", `Syntax error; token: "!", near: "!!"`},
		{"Projection", "a, !b c", `Syntax error; token: "!", near: ", !b"`},
		{"Projection", "a b !", `Syntax error; token: "b", near: "a b !"`},
		{"Projection", "a[01]", `Syntax error; token: "1", near: "01]"`},
		{"Projection", "a, # b", `Syntax error; token: "#", near: ", # b"`},
		{"Projection", "a é b", `Syntax error; token: "é", near: "a é b"`},
		{"Projection", "a.", `Syntax error; token: "<EOF>", near: "."`},
		{"Projection", "a, remove", `Syntax error; token: "remove", near: ", remove"`},
		{"Projection", "select !", `Syntax error; token: "!", near: "select !"`},
		{"Condition", "a;b", `Syntax error; token: ";", near: "a;b"`},
		{"Condition", "a = :v AND a != :v", `Syntax error; token: "!", near: "a !="`},
		{"Condition", "foo(a) = :v OR", `Syntax error; token: "<EOF>", near: "OR"`},
		{"Condition", "(contains(a, :v)) = :v", "The function is not allowed to be used this way in an expression; function: contains"},
		{"Condition", "contains(a, :v) <", `Syntax error; token: "<EOF>", near: "<"`},
		{"Condition", "size(a) b", `Syntax error; token: "b", near: ") b"`},
		{"Condition", "foo(a) = :v", "Invalid function name; function: foo"},
		{"Filter", `a = "x"`, `Syntax error; token: """, near: "= "x"`},
		{"Filter", "a && b", `Syntax error; token: "&", near: "a &&"`},
		{"Filter", "REMOVE = :v", `Syntax error; token: "REMOVE", near: "REMOVE ="`},
		{"Update", "INVALID SYNTAX", `Syntax error; token: "INVALID", near: "INVALID SYNTAX"`},
		{"Update", "SET a = :v;", `Syntax error; token: ";", near: ":v;"`},
		{"Update", "SET a = $1", `Syntax error; token: "$", near: "= $1"`},
		{"Update", "SET a = foo(:v) + ", `Syntax error; token: "<EOF>", near: "+ "`},
		{"Update", "SET a = :v SET b = ", `Syntax error; token: "<EOF>", near: "= "`},
		{"Update", "SET a = ((b)) !", "The expression has redundant parentheses;"},
		{"KeyCondition", "pk = :v AND !", `Syntax error; token: "!", near: "AND !"`},
		{"KeyCondition", "pk == :v", `Syntax error; token: "=", near: "== :v"`},
	} {
		values := map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: "x"}}
		key := map[string]types.AttributeValue{"pk": values[":v"]}
		var request any
		switch e.member {
		case "Projection":
			request = &dynamodb.GetItemInput{TableName: new("Hash"), Key: key, ProjectionExpression: &e.text}
		case "Condition":
			request = &dynamodb.PutItemInput{TableName: new("Hash"), Item: key, ConditionExpression: &e.text, ExpressionAttributeValues: values}
		case "Filter":
			request = &dynamodb.ScanInput{TableName: new("Hash"), FilterExpression: &e.text, ExpressionAttributeValues: values}
		case "Update":
			request = &dynamodb.UpdateItemInput{TableName: new("Hash"), Key: key, UpdateExpression: &e.text, ExpressionAttributeValues: values}
		case "KeyCondition":
			request = &dynamodb.QueryInput{TableName: new("Hash"), KeyConditionExpression: &e.text, ExpressionAttributeValues: values}
		}
		all = append(all, wording{request, "Invalid " + e.member + "Expression: " + e.want})
	}
	return all
}

// mixWordings have expressions beside the parameters that expressions replaced. That is refused
// first, whatever else the request is.
func mixWordings() []wording {
	text, values := new("a = :v"), map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: "x"}}
	key := map[string]types.AttributeValue{"pk": values[":v"]}
	expected := map[string]types.ExpectedAttributeValue{"a": {Exists: new(false)}}
	filter := map[string]types.Condition{"a": {ComparisonOperator: types.ComparisonOperatorNull}}
	updates := map[string]types.AttributeValueUpdate{"a": {Action: types.AttributeActionDelete}}
	return []wording{
		{
			&dynamodb.GetItemInput{TableName: new("Hash"), Key: key, AttributesToGet: []string{"a"}, ProjectionExpression: new("!")},
			"{AttributesToGet} Expression parameters: {ProjectionExpression}",
		},
		{
			&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
				"Hash": {Keys: []map[string]types.AttributeValue{key}, AttributesToGet: []string{"a"}, ProjectionExpression: new("a")},
			}},
			"{AttributesToGet} Expression parameters: {ProjectionExpression}",
		},
		{
			&dynamodb.PutItemInput{TableName: new("Hash"), Item: map[string]types.AttributeValue{}, Expected: expected, ConditionExpression: text},
			"{Expected} Expression parameters: {ConditionExpression}",
		},
		{
			&dynamodb.DeleteItemInput{TableName: new("Hash"), Key: key, ConditionalOperator: "AND", Expected: expected, ConditionExpression: text},
			"{Expected, ConditionalOperator} Expression parameters: {ConditionExpression}",
		},
		{
			&dynamodb.UpdateItemInput{TableName: new("Hash"), Key: key, AttributeUpdates: updates, UpdateExpression: text},
			"{AttributeUpdates} Expression parameters: {UpdateExpression}",
		},
		{
			&dynamodb.UpdateItemInput{
				TableName: new("Hash"), Key: key, Expected: expected, ConditionalOperator: "OR", AttributeUpdates: updates,
				ConditionExpression: text, UpdateExpression: text,
			},
			"{AttributeUpdates, Expected, ConditionalOperator} Expression parameters: {UpdateExpression, ConditionExpression}",
		},
		{
			&dynamodb.QueryInput{
				TableName: new("Hash"), KeyConditions: filter, QueryFilter: filter, ConditionalOperator: "AND", AttributesToGet: []string{"a"},
				KeyConditionExpression: text, FilterExpression: text, ProjectionExpression: new("a"),
			},
			"{AttributesToGet, QueryFilter, ConditionalOperator, KeyConditions} Expression parameters: {ProjectionExpression, FilterExpression, KeyConditionExpression}",
		},
		{
			&dynamodb.QueryInput{TableName: new("Hash"), KeyConditions: filter, QueryFilter: filter, FilterExpression: text},
			"{QueryFilter} Expression parameters: {FilterExpression}",
		},
		{
			&dynamodb.ScanInput{
				TableName: new("Hash"), ScanFilter: filter, ConditionalOperator: "AND", AttributesToGet: []string{"a"},
				FilterExpression: text, ProjectionExpression: new("a"),
			},
			"{AttributesToGet, ScanFilter, ConditionalOperator} Expression parameters: {ProjectionExpression, FilterExpression}",
		},
	}
}

// TestWording compares messages to the letter. TestWordingLive says that they are those of
// DynamoDB Local.
func TestWording(t *testing.T) {
	t.Parallel()
	checkWordings(t, liteEngine(t))
}

func checkWordings(t *testing.T, e engine) {
	t.Helper()
	for _, w := range wordings() {
		got := ""
		if err, ok := errors.AsType[smithy.APIError](refusalOf(t, e, w.request)); ok {
			got = err.ErrorMessage()
		}
		if got != w.want {
			t.Errorf("%s:\ngot  %s\nwant %s", marshal(encode(w.request)), got, w.want)
		}
	}
}

// refusalOf calls the method that takes the request, and returns its error.
func refusalOf(t *testing.T, e engine, request any) error {
	t.Helper()
	in := reflect.ValueOf(request)
	method := reflect.ValueOf(e).MethodByName(strings.TrimSuffix(in.Type().Elem().Name(), "Input"))
	err, _ := reflect.TypeAssert[error](method.Call([]reflect.Value{reflect.ValueOf(t.Context()), in})[1])
	return err
}
