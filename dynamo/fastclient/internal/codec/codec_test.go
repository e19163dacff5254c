package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient/internal/codec"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

var protocol = dynamodb.New(dynamodb.Options{}).Options().Protocol

// theirs is a request as the SDK writes it.
func theirs(t *testing.T, in smithy.Serializable) string {
	t.Helper()
	request, _ := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	operation := smithy.NewOperationSchema(schemas.UpdateItem, schemas.UpdateItemInput, schemas.UpdateItemOutput)
	if err := protocol.SerializeRequest(t.Context(), operation, in, request); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(request.GetStream())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ours is a request as the codec writes it.
func ours(w *codec.Writer, in smithy.Serializable) (text string, plain bool) {
	const room = 7
	w.Start(room)
	in.Serialize(w)
	all, plain := w.Done()
	return string(all[room:]), plain
}

// same ignores the order of members, which is that of a map.
func same(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y) && len(a) == len(b)
}

// The codec writes a request as the SDK does, or reports that it cannot.
func TestWriterIsTheSDKs(t *testing.T) {
	t.Parallel()
	key := schema.Key{PK: "a", SK: "b"}.Item()
	deep := schema.S("deep")
	for range 25 {
		deep = &types.AttributeValueMemberL{Value: []types.AttributeValue{deep, schema.N(1), &types.AttributeValueMemberM{}}}
	}
	deeper := deep
	for range 40 {
		deeper = &types.AttributeValueMemberL{Value: []types.AttributeValue{deeper}}
	}
	put := func(v types.AttributeValue) smithy.Serializable {
		return &dynamodb.PutItemInput{TableName: aws.String("t"), Item: schema.Item{"v": v}}
	}
	var w codec.Writer
	for name, c := range map[string]struct {
		in    smithy.Serializable
		plain bool
	}{
		"nothing":          {&dynamodb.PutItemInput{}, true},
		"an empty item":    {&dynamodb.PutItemInput{Item: schema.Item{}}, true},
		"text":             {put(schema.S("a\"\\/\n\r\t\b\x00\x7f<>&ü\u2028\u2029\u2027😀\xff\xc3")), true},
		"a boolean":        {put(schema.Bool(true)), true},
		"null":             {put(&types.AttributeValueMemberNULL{Value: true}), true},
		"bytes":            {put(&types.AttributeValueMemberB{Value: []byte{0, 255}}), true},
		"no bytes":         {put(&types.AttributeValueMemberB{Value: []byte{}}), true},
		"sets":             {put(&types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberSS{Value: []string{"a", "b"}}, &types.AttributeValueMemberNS{Value: []string{"1"}}, &types.AttributeValueMemberBS{Value: [][]byte{{1}, {}}}}}), true},
		"25 levels":        {put(deep), true},
		"65 levels":        {put(deeper), false},
		"nil bytes":        {put(&types.AttributeValueMemberB{}), false},
		"a nil attribute":  {put(nil), false},
		"nil, then others": {&dynamodb.PutItemInput{Item: schema.Item{"a": nil, "b": nil}}, false},
		"nil in a list":    {put(&types.AttributeValueMemberL{Value: []types.AttributeValue{nil, schema.N(1)}}), true},
		"an update": {&dynamodb.UpdateItemInput{
			TableName: aws.String("t"), Key: key, UpdateExpression: aws.String("SET #a=:a"), ConditionExpression: aws.String("#a > :a"),
			ExpressionAttributeNames: map[string]string{"#a": "a", "#b": "b"}, ExpressionAttributeValues: schema.Item{":a": schema.N(1), ":b": schema.S("")},
			ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, ReturnItemCollectionMetrics: types.ReturnItemCollectionMetricsSize,
			ReturnValues: types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, true},
		"an update of old": {&dynamodb.UpdateItemInput{
			Key: key, AttributeUpdates: map[string]types.AttributeValueUpdate{"a": {Action: types.AttributeActionAdd, Value: schema.N(1)}},
			Expected: map[string]types.ExpectedAttributeValue{"a": {Exists: aws.Bool(false), AttributeValueList: []types.AttributeValue{schema.N(1)}}},
		}, true},
		"a batch": {&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			"t": {Keys: []schema.Item{key, key}, ConsistentRead: aws.Bool(true)}, "u": {Keys: []schema.Item{}, AttributesToGet: []string{"a", "b"}},
		}}, true},
		"a transaction": {&dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String("x"), TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: aws.String("t"), Item: key}},
			{Delete: &types.Delete{Key: key}},
			{Update: &types.Update{Key: key, UpdateExpression: aws.String("REMOVE a")}},
			{ConditionCheck: &types.ConditionCheck{Key: key}},
			{},
		}}, true},
		"an integer": {&dynamodb.QueryInput{Limit: aws.Int32(1)}, false},
	} {
		got, plain := ours(&w, c.in)
		if plain != c.plain {
			t.Errorf("%s: plain is %t: %s", name, plain, got)
		}
		if want := theirs(t, c.in); plain && !same(got, want) {
			t.Errorf("%s: ours is %s, the SDK's %s", name, got, want)
		}
	}
}

// The codec writes every text as the SDK does.
func FuzzWriter(f *testing.F) {
	f.Add("name", "value", []byte{1})
	f.Add("\"\\\x01", "\u2028\xff\x7f", []byte(nil))
	f.Fuzz(func(t *testing.T, name, value string, blob []byte) {
		in := &dynamodb.PutItemInput{TableName: &value, Item: schema.Item{name: &types.AttributeValueMemberL{Value: []types.AttributeValue{
			schema.S(value), &types.AttributeValueMemberB{Value: blob},
		}}}}
		var w codec.Writer
		if got, plain := ours(&w, in); plain && got != theirs(t, in) {
			t.Errorf("ours is %s, the SDK's %s", got, theirs(t, in))
		}
	})
}

// decode is an answer as the SDK reads it.
func decode(t *testing.T, body string, out smithy.Deserializable) error {
	t.Helper()
	operation := smithy.NewOperationSchema(schemas.UpdateItem, schemas.UpdateItemInput, schemas.UpdateItemOutput)
	response := &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}}
	return protocol.DeserializeResponse(t.Context(), operation, dynamodb.TypeRegistry, response, out)
}

var exported = cmp.Options{cmpopts.IgnoreUnexported(
	types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberBOOL{},
	types.AttributeValueMemberL{}, types.AttributeValueMemberM{}, types.KeysAndAttributes{},
)}

// checkItem checks that the codec reads what the SDK reads, or nothing.
func checkItem(t *testing.T, body string) (plain bool) {
	t.Helper()
	got, plain := codec.ReadItem(body, "Attributes")
	if !plain {
		return false
	}
	var want dynamodb.UpdateItemOutput
	if err := decode(t, body, &want); err != nil {
		t.Errorf("%q is plain for us, and for the SDK: %v", body, err)
	}
	if diff := cmp.Diff(want.Attributes, got, exported); diff != "" || want.ConsumedCapacity != nil || want.ItemCollectionMetrics != nil {
		t.Errorf("%q: the SDK's item and ours differ: %s", body, diff)
	}
	return true
}

// checkItems does that for a batch.
func checkItems(t *testing.T, body string) (plain bool) {
	t.Helper()
	got, plain := codec.ReadItems(body, "t")
	if !plain {
		return false
	}
	var want dynamodb.BatchGetItemOutput
	if err := decode(t, body, &want); err != nil {
		t.Errorf("%q is plain for us, and for the SDK: %v", body, err)
	}
	if diff := cmp.Diff(want.Responses, map[string][]schema.Item{"t": got}, exported); diff != "" || want.UnprocessedKeys == nil || len(want.UnprocessedKeys) > 0 {
		t.Errorf("%q: the SDK's items and ours differ: %s, unprocessed %v", body, diff, want.UnprocessedKeys)
	}
	return true
}

// checkRefusal does that for a failed condition.
func checkRefusal(t *testing.T, body string) (plain bool) {
	t.Helper()
	message, it, plain := codec.ReadRefusal(body)
	if !plain {
		return false
	}
	operation := smithy.NewOperationSchema(schemas.UpdateItem, schemas.UpdateItemInput, schemas.UpdateItemOutput)
	response := &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusBadRequest, Body: io.NopCloser(strings.NewReader(body))}}
	err := protocol.DeserializeResponse(t.Context(), operation, dynamodb.TypeRegistry, response, nil)
	want := (*types.ConditionalCheckFailedException)(nil)
	if !errors.As(err, &want) {
		t.Errorf("%q is plain for us, and for the SDK: %v", body, err)
	} else if diff := cmp.Diff(want.Item, it, exported); diff != "" || *want.Message != message {
		t.Errorf("%q: the SDK's item and ours differ: %s; %q, %q", body, diff, *want.Message, message)
	}
	return true
}

// manyAttributes has more names than the codec has room for.
var manyAttributes = func() string {
	var names strings.Builder
	for i := range 100 {
		fmt.Fprintf(&names, `"a%d":{"N":"1"},`, i)
	}
	return `{"Attributes":{` + names.String() + `"b":{"S":"x"}}}`
}()

// items are answers with an item: which of them are plain.
var items = map[string]bool{
	`{}`:                true,
	`{"Attributes":{}}`: true,
	`{"Attributes":{"a":{"S":"x"},"b":{"N":"1"},"c":{"BOOL":true},"d":{"BOOL":false},"":{"S":""},"ü":{"S":"😀"}}}`: true,
	`{"Attributes":{"a":{"S":"x"},"a":{"N":"1"}}}`:                                                                false,
	"{\"Attributes\":{\"a\":{\"S\":\"\xff\"}}}":                                                                   true,
	manyAttributes:                         true,
	``:                                     false,
	`null`:                                 false,
	`{} `:                                  false,
	`{"Attributes":null}`:                  false,
	`{"Attributes":{"a":null}}`:            false,
	`{"Attributes":{"a":{}}}`:              false,
	`{"Attributes":{"a":{"S":null}}}`:      false,
	`{"Attributes":{"a":{"S":1}}}`:         false,
	`{"Attributes":{"a":{"N":1}}}`:         false,
	`{"Attributes":{"a":{"BOOL":"true"}}}`: false,
	`{"Attributes":{"a":{"BOOL":truefalse}}}`:                       false,
	`{"Attributes":{"a":{"S":"x","N":"1"}}}`:                        false,
	`{"Attributes":{"a":{"S":"\u0041"}}}`:                           false,
	`{"Attributes":{"\u0041":{"S":"a"}}}`:                           false,
	"{\"Attributes\":{\"a\":{\"S\":\"\n\"}}}":                       false,
	`{"Attributes":{"a":{"L":[]}}}`:                                 false,
	`{"Attributes":{"a":{"M":{}}}}`:                                 false,
	`{"Attributes":{"a":{"SS":["a"]}}}`:                             false,
	`{"Attributes":{"a":{"NULL":true}}}`:                            false,
	`{"Attributes":{"a":{"S":"x"},}}`:                               false,
	`{"Attributes":{,"a":{"S":"x"}}}`:                               false,
	`{"Attributes":{"a":{"S":"x"}"b":{"S":"x"}}}`:                   false,
	`{"Attributes":{"a":{"S":"x"}}`:                                 false,
	`{"Attributes":{"a":{"S":"x`:                                    false,
	`{"Attributes":{"a":{"S":"x"}}}}`:                               false,
	`{"Attributes":{"a":{"S":"x"}}}{}`:                              false,
	`{"Attributes": {"a":{"S":"x"}}}`:                               false,
	`{"Item":{"a":{"S":"x"}}}`:                                      false,
	`{"Attributes":{},"ConsumedCapacity":{"CapacityUnits":1.0}}`:    false,
	`{"ConsumedCapacity":{"CapacityUnits":1.0},"Attributes":{}}`:    false,
	`{"Attributes":{"a":{"S":"x"}},"Attributes":{"b":{"N":"1"}}}`:   false,
	`{"__type":"com.amazonaws.dynamodb#ConditionalCheckException"}`: false,
}

var batches = map[string]bool{
	`{"Responses":{"t":[]},"UnprocessedKeys":{}}`:                                          true,
	`{"Responses":{"t":[{}]},"UnprocessedKeys":{}}`:                                        true,
	`{"Responses":{"t":[{"a":{"S":"x"}},{"a":{"N":"1"}}]},"UnprocessedKeys":{}}`:           true,
	`{"UnprocessedKeys":{},"Responses":{"t":[{"a":{"S":"x"}}]}}`:                           true,
	`{"Responses":{"t":[]}}`:                                                               false,
	`{"Responses":{},"UnprocessedKeys":{}}`:                                                false,
	`{"Responses":{"u":[]},"UnprocessedKeys":{}}`:                                          false,
	`{"Responses":{"t":[],"u":[]},"UnprocessedKeys":{}}`:                                   false,
	`{"Responses":{"t":[null]},"UnprocessedKeys":{}}`:                                      false,
	`{"Responses":{"t":[{},]},"UnprocessedKeys":{}}`:                                       false,
	`{"Responses":{"t":[{}{}]},"UnprocessedKeys":{}}`:                                      false,
	`{"Responses":{"t":[,{}]},"UnprocessedKeys":{}}`:                                       false,
	`{"Responses":{"t":[]},"UnprocessedKeys":{"t":{"Keys":[{"a":{"S":"x"}}]}}}`:            false,
	`{"UnprocessedKeys":{},"Responses":{"t":[]},"UnprocessedKeys":{}}`:                     false,
	`{"Responses":{"t":[]},"UnprocessedKeys":{},"ConsumedCapacity":[{"CapacityUnits":1}]}`: false,
	`{"Responses":{"t":[`:                                                                  false,
}

const failed = `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",`

var refusals = map[string]bool{
	failed + `"message":"why"}`:                                         true,
	failed + `"Message":"why","Item":{}}`:                               true,
	failed + `"message":"","Item":{"a":{"S":"x"}}}`:                     true,
	failed + `"Item":{"a":{"S":"x"}},"message":"why"}`:                  false,
	failed + `"message":"why","Item":null}`:                             false,
	failed + `"message":"why","Item":{"a":{"M":{}}}}`:                   false,
	failed + `"message":"why","Item":{}}{}`:                             false,
	failed + `"message":null}`:                                          false,
	`{"message":"why"}`:                                                 false,
	strings.Replace(failed, "Failed", "Passed", 1) + `"message":"why"}`: false,
}

// The codec reads an item as the SDK does. It never guesses: what it does not know is not
// plain.
func TestReaderIsTheSDKs(t *testing.T) {
	t.Parallel()
	for body, plain := range items {
		if got := checkItem(t, body); got != plain {
			t.Errorf("%q is plain: %t", body, got)
		}
	}
	for body, plain := range batches {
		if got := checkItems(t, body); got != plain {
			t.Errorf("%q is plain: %t", body, got)
		}
	}
	for body, plain := range refusals {
		if got := checkRefusal(t, body); got != plain {
			t.Errorf("%q is plain: %t", body, got)
		}
	}
}

func FuzzReadRefusal(f *testing.F) {
	for body := range refusals {
		f.Add(strings.TrimPrefix(body, failed))
	}
	f.Fuzz(func(t *testing.T, rest string) { checkRefusal(t, failed+rest) })
}

// Every answer that the codec reads, the SDK reads alike.
func FuzzReadItem(f *testing.F) {
	for body := range items {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) { checkItem(t, body) })
}

func FuzzReadItems(f *testing.F) {
	for body := range batches {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) { checkItems(t, body) })
}
