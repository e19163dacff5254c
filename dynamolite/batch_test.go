package dynamolite_test

import (
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func putRequest(item attrs) types.WriteRequest {
	return types.WriteRequest{PutRequest: &types.PutRequest{Item: item}}
}

func deleteRequest(key attrs) types.WriteRequest {
	return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}}
}

func TestBatchWriteThenGet(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(keyed("a", "old"))
	ctx := t.Context()
	written, err := f.db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
		mainTable: {putRequest(with(keyed("a", "1"), attrs{"n": num("1"), "m": num("2")})), deleteRequest(keyed("a", "old"))},
		otherName: {putRequest(attrs{"id": str("x")})},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if written.UnprocessedItems == nil || len(written.UnprocessedItems) != 0 {
		t.Errorf("unprocessed: %v", written.UnprocessedItems)
	}
	got, err := f.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		mainTable: {
			Keys: []attrs{keyed("a", "1"), keyed("a", "old")}, ProjectionExpression: ptr("#n"),
			ExpressionAttributeNames: map[string]string{"#n": "n"},
		},
		otherName: {Keys: []attrs{{"id": str("y")}, {"id": str("x")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "responses", map[string][]attrs{mainTable: {{"n": num("1")}}, otherName: {{"id": str("x")}}}, got.Responses)
	if got.UnprocessedKeys == nil || len(got.UnprocessedKeys) != 0 {
		t.Errorf("unprocessed: %v", got.UnprocessedKeys)
	}
}

func manyKeys(n int) []attrs {
	keys := make([]attrs, n)
	for i := range keys {
		keys[i] = keyed("a", strconv.Itoa(i))
	}
	return keys
}

// An answer of more than 16 MB is cut, and requests for the unprocessed keys return the rest.
func TestBatchGetUnprocessed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n, each = 50, 399 * 1024
	for i := range n {
		f.put(with(keyed("a", strconv.Itoa(i)), attrs{"s": blob(each), "n": num(strconv.Itoa(i))}))
	}
	request := map[string]types.KeysAndAttributes{mainTable: {
		Keys: manyKeys(n), ConsistentRead: ptr(true), ProjectionExpression: ptr("#n"), ExpressionAttributeNames: map[string]string{"#n": "n"},
	}}
	var got []attrs
	rounds := 0
	for ; len(request) > 0 && rounds < 5; rounds++ {
		out, err := f.db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
			RequestItems: request, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			t.Fatal(err)
		}
		items := out.Responses[mainTable]
		if units := *out.ConsumedCapacity[0].CapacityUnits; units != float64(len(items)*100) {
			t.Errorf("%d items cost %v RCU: what is unprocessed is not billed", len(items), units)
		}
		if rounds == 0 && len(items) != 16*1024/399 {
			t.Errorf("the first answer has %d items, want as many as 16 MB hold", len(items))
		}
		got = append(got, items...)
		request = out.UnprocessedKeys
	}
	if rounds != 2 || len(got) != n {
		t.Fatalf("got %d items in %d rounds", len(got), rounds)
	}
	for i, item := range got {
		mustEqual(t, "item", attrs{"n": num(strconv.Itoa(i))}, item)
	}
}
