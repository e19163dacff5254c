package differential_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// batchGet requests keys of one table.
func batchGet(table string, keys ...fields) *dynamodb.BatchGetItemInput {
	request := types.KeysAndAttributes{}
	for _, key := range keys {
		request.Keys = append(request.Keys, key.values())
	}
	return &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: request}}
}

// batchWrite makes writes to one table.
func batchWrite(table string, writes ...types.WriteRequest) *dynamodb.BatchWriteItemInput {
	return &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: writes}}
}

func batchPut(item fields) types.WriteRequest {
	return types.WriteRequest{PutRequest: &types.PutRequest{Item: item.values()}}
}

func batchDelete(key fields) types.WriteRequest {
	return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key.values()}}
}

// numbered returns the keys of n items of the hash table.
func numbered(n int) []fields {
	keys := make([]fields, n)
	for i := range keys {
		keys[i] = fields{"pk": fmt.Sprintf("k%03d", i)}
	}
	return keys
}

func batchCases() []testCase {
	items := append(many(hashTable,
		fields{"pk": "a", "v": 1, "m": fields{"x": 1, "y": 2}}, fields{"pk": "b", "v": 2}, fields{"pk": "c", "v": strings.Repeat("v", 5000)}),
		many(rangeTable, fields{"pk": "p", "sk": "1", "v": 1}, fields{"pk": "p", "sk": "2", "v": 2})...)
	a, b, c := fields{"pk": "a"}, fields{"pk": "b"}, fields{"pk": "c"}
	with := func(in *dynamodb.BatchGetItemInput, change func(*types.KeysAndAttributes)) *dynamodb.BatchGetItemInput {
		request := in.RequestItems[hashTable]
		change(&request)
		in.RequestItems[hashTable] = request
		return in
	}
	var puts []types.WriteRequest
	for _, key := range numbered(26) {
		puts = append(puts, batchPut(key.with(fields{"v": 1})))
	}
	return []testCase{
		{"batch/get", items, []any{batchGet(hashTable, a, b, c)}},
		{"batch/get consistent", items, []any{with(batchGet(hashTable, a, b, c), func(k *types.KeysAndAttributes) { k.ConsistentRead = new(true) })}},
		{"batch/get of one missing", items, []any{batchGet(hashTable, a, fields{"pk": "none"})}},
		{"batch/get of nothing", items, []any{batchGet(hashTable, fields{"pk": "none"}, fields{"pk": "no"})}},
		{"batch/get of two tables", items, []any{&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			hashTable:  {Keys: []map[string]types.AttributeValue{a.values(), c.values()}},
			rangeTable: {Keys: []map[string]types.AttributeValue{fields{"pk": "p", "sk": "1"}.values(), fields{"pk": "p", "sk": "2"}.values()}, ConsistentRead: new(true)},
		}}}},
		{"batch/get twice the same", items, []any{batchGet(hashTable, a, a)}},
		{"batch/get twice the same number", nil, []any{batchGet(numberTable, fields{"pk": "p", "sk": num("1")}, fields{"pk": "p", "sk": num("1.0")})}},
		{"batch/get projected", items, []any{with(batchGet(hashTable, a, b), func(k *types.KeysAndAttributes) {
			k.ProjectionExpression, k.ExpressionAttributeNames = new("#m.x, pk"), names("#m", "m")
		})}},
		{"batch/get with an unused alias", items, []any{with(batchGet(hashTable, a, b), func(k *types.KeysAndAttributes) {
			k.ProjectionExpression, k.ExpressionAttributeNames = new("pk"), names("#m", "m")
		})}},
		{"batch/get with a malformed projection", items, []any{with(batchGet(hashTable, a, b), func(k *types.KeysAndAttributes) { k.ProjectionExpression = new("a,,b") })}},
		{"batch/get of no keys", items, []any{with(batchGet(hashTable), func(k *types.KeysAndAttributes) { k.Keys = []map[string]types.AttributeValue{} })}},
		{"batch/get of no tables", items, []any{&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{}}}},
		{"batch/get of 100", nil, []any{batchGet(hashTable, numbered(100)...)}},
		{"batch/get of 101", nil, []any{batchGet(hashTable, numbered(101)...)}},
		{"batch/get of a missing table", items, []any{batchGet("Nowhere", a)}},
		{"batch/get of a bad key", items, []any{batchGet(hashTable, a, fields{"pk": 1})}},
		{"batch/get total bill", items, []any{tweak(batchGet(hashTable, a, c), func(in *dynamodb.BatchGetItemInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		})}},
		{"batch/get no bill", items, []any{tweak(batchGet(hashTable, a, c), func(in *dynamodb.BatchGetItemInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityNone
		})}},

		{"batch/write", items, []any{batchWrite(hashTable, batchPut(fields{"pk": "d", "v": 1}), batchDelete(a), batchPut(b), batchDelete(fields{"pk": "none"}))}},
		{"batch/write to two tables", items, []any{&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			hashTable:  {batchPut(fields{"pk": "d"}), batchDelete(b)},
			rangeTable: {batchDelete(fields{"pk": "p", "sk": "1"}), batchPut(fields{"pk": "p", "sk": "3"})},
		}}}},
		{"batch/write to indexes", many(indexedTable, fields{"pk": "a", "sk": "1", "kpk": "k"}), []any{
			batchWrite(indexedTable, batchPut(fields{"pk": "b", "sk": "1", "gpk": "g", "gsk": 1, "kpk": "k"}), batchDelete(fields{"pk": "a", "sk": "1"})),
			query(indexedTable+"."+keysIndex, "kpk = :k", fields{":k": "k"}),
		}},
		{"batch/write twice the same", items, []any{batchWrite(hashTable, batchPut(a), batchDelete(a))}},
		{"batch/write of 25", nil, []any{batchWrite(hashTable, puts[:25]...)}},
		{"batch/write of 26", nil, []any{batchWrite(hashTable, puts...)}},
		{"batch/write of none", nil, []any{batchWrite(hashTable)}},
		{"batch/write to no tables", nil, []any{&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{}}}},
		{"batch/write of neither", nil, []any{batchWrite(hashTable, types.WriteRequest{})}},
		{"batch/write of both", nil, []any{batchWrite(hashTable, types.WriteRequest{PutRequest: batchPut(a).PutRequest, DeleteRequest: batchDelete(a).DeleteRequest})}},
		{"batch/write to a missing table", nil, []any{batchWrite("Nowhere", batchPut(a))}},
		{"batch/write to a missing table and another", nil, []any{&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			hashTable: {batchPut(a)}, "Nowhere": {batchPut(a)},
		}}}},
		{"batch/write of one bad item", nil, []any{batchWrite(hashTable, batchPut(a), batchPut(fields{"v": 1}))}},
		{"batch/write of one bad set", nil, []any{batchWrite(hashTable, batchPut(a), batchPut(b.with(fields{"s": strs{}})))}},
		{"batch/write of one bad key", nil, []any{batchWrite(hashTable, batchPut(a), batchDelete(fields{"pk": "b", "sk": "c"}))}},
		{"batch/write of one bad index key", nil, []any{batchWrite(indexedTable, batchPut(fields{"pk": "b", "sk": "1", "gpk": 1}))}},
		{"batch/write total bill", items, []any{tweak(batchWrite(hashTable, batchPut(a), batchDelete(c)), func(in *dynamodb.BatchWriteItemInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		})}},
		{"batch/write no bill", items, []any{tweak(batchWrite(hashTable, batchPut(a), batchDelete(c)), func(in *dynamodb.BatchWriteItemInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityNone
		})}},
	}
}
