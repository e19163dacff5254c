package differential_test

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func transact(items ...types.TransactWriteItem) *dynamodb.TransactWriteItemsInput {
	return &dynamodb.TransactWriteItemsInput{TransactItems: items}
}

func transactGet(gets ...types.Get) *dynamodb.TransactGetItemsInput {
	in := &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{}}
	for _, get := range gets {
		in.TransactItems = append(in.TransactItems, types.TransactGetItem{Get: &get})
	}
	return in
}

// transactOne returns the TransactWriteItem for a request on one item.
func transactOne(request any) types.TransactWriteItem {
	switch in := request.(type) {
	case *dynamodb.PutItemInput:
		return types.TransactWriteItem{Put: &types.Put{
			TableName: in.TableName, Item: in.Item, ConditionExpression: in.ConditionExpression,
			ExpressionAttributeNames: in.ExpressionAttributeNames, ExpressionAttributeValues: in.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: in.ReturnValuesOnConditionCheckFailure,
		}}
	case *dynamodb.UpdateItemInput:
		return types.TransactWriteItem{Update: &types.Update{
			TableName: in.TableName, Key: in.Key, UpdateExpression: in.UpdateExpression, ConditionExpression: in.ConditionExpression,
			ExpressionAttributeNames: in.ExpressionAttributeNames, ExpressionAttributeValues: in.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: in.ReturnValuesOnConditionCheckFailure,
		}}
	case *dynamodb.DeleteItemInput:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: in.TableName, Key: in.Key, ConditionExpression: in.ConditionExpression,
			ExpressionAttributeNames: in.ExpressionAttributeNames, ExpressionAttributeValues: in.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: in.ReturnValuesOnConditionCheckFailure,
		}}
	default:
		panic("no transaction of this")
	}
}

// conditionCheck returns an update's key and condition without the update.
func conditionCheck(in *dynamodb.UpdateItemInput) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: in.TableName, Key: in.Key, ConditionExpression: in.ConditionExpression,
		ExpressionAttributeNames: in.ExpressionAttributeNames, ExpressionAttributeValues: in.ExpressionAttributeValues,
		ReturnValuesOnConditionCheckFailure: in.ReturnValuesOnConditionCheckFailure,
	}}
}

// at moves an update of the usual item to another key of the hash table.
func at(pk string, in *dynamodb.UpdateItemInput) *dynamodb.UpdateItemInput {
	in.Key = fields{"pk": pk}.values()
	return in
}

// under puts a condition on an update; the failure returns the item.
func under(condition string, in *dynamodb.UpdateItemInput) *dynamodb.UpdateItemInput {
	in.ConditionExpression = &condition
	in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	return in
}

func transactCases() []testCase {
	items := append(many(hashTable, fields{"pk": "a", "v": 1}, fields{"pk": "b", "v": 2, "s": "text"}, fields{"pk": "c", "v": 3}),
		many(indexedTable, fields{"pk": "a", "sk": "1", "kpk": "k", "v": 1})...)
	add := func(pk string, n int) types.TransactWriteItem {
		return transactOne(at(pk, update("ADD v :n", fields{":n": n})))
	}
	refused := func(pk string) types.TransactWriteItem {
		return transactOne(at(pk, under("v > :n", update("ADD v :n", fields{":n": 100}))))
	}
	token := func(token string, in *dynamodb.TransactWriteItemsInput) *dynamodb.TransactWriteItemsInput {
		in.ClientRequestToken = &token
		return in
	}
	many := func(n int) []types.TransactWriteItem {
		var all []types.TransactWriteItem
		for _, key := range numbered(n) {
			all = append(all, transactOne(put(hashTable, key)))
		}
		return all
	}
	gets := func(keys ...string) []types.Get {
		var all []types.Get
		for _, k := range keys {
			all = append(all, types.Get{TableName: new(hashTable), Key: fields{"pk": k}.values()})
		}
		return all
	}
	exists := check("attribute_exists(pk)", nil)
	cases := []testCase{
		{"transact/all four kinds", items, []any{transact(
			transactOne(put(hashTable, fields{"pk": "d", "v": 4})), add("a", 5), transactOne(remove(hashTable, fields{"pk": "b"})), conditionCheck(at("c", exists)))}},
		{"transact/one", items, []any{transact(add("a", 1))}},
		{"transact/two tables", items, []any{
			transact(add("a", 1), transactOne(put(indexedTable, fields{"pk": "b", "sk": "1", "kpk": "k"}))),
			query(indexedTable+"."+keysIndex, "kpk = :k", fields{":k": "k"}),
		}},
		{"transact/one condition fails", items, []any{transact(add("a", 1), refused("b"), add("c", 1))}},
		{"transact/two conditions fail", items, []any{transact(refused("a"), refused("b"), add("c", 1))}},
		{"transact/condition fails on nothing", items, []any{transact(refused("none"), add("c", 1))}},
		{"transact/condition fails without the item", items, []any{transact(add("a", 1), transactOne(at("b", tweak(
			under("v > :n", update("ADD v :n", fields{":n": 100})), func(in *dynamodb.UpdateItemInput) {
				in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureNone
			}))))}},
		{"transact/check fails", items, []any{transact(add("a", 1), conditionCheck(at("none", check("attribute_exists(pk)", nil))))}},
		{"transact/put fails", items, []any{transact(add("c", 1), transactOne(tweak(put(hashTable, fields{"pk": "a"}), func(in *dynamodb.PutItemInput) {
			in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure = new("attribute_not_exists(pk)"), types.ReturnValuesOnConditionCheckFailureAllOld
		})))}},
		{"transact/delete fails", items, []any{transact(add("c", 1), transactOne(tweak(remove(hashTable, fields{"pk": "a"}), func(in *dynamodb.DeleteItemInput) {
			in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure = new("attribute_not_exists(pk)"), types.ReturnValuesOnConditionCheckFailureAllOld
		})))}},
		{"transact/type error of an item", items, []any{transact(add("a", 1), transactOne(at("b", update("ADD s :n", fields{":n": 1}))))}},
		{"transact/type error and failed condition", items, []any{transact(refused("a"), transactOne(at("b", update("SET s = s + :n", fields{":n": 1}))))}},
		{"transact/number overflow", items, []any{transact(add("a", 1), transactOne(at("b", update("SET v = v + :n", fields{":n": num("1e100")}))))}},
		{"transact/set under a missing path", items, []any{transact(add("a", 1), transactOne(at("b", update("SET q.x = :n", fields{":n": 1}))))}},
		{"transact/twice the same item", items, []any{transact(add("a", 1), add("a", 1))}},
		{"transact/check and write of the same item", items, []any{transact(conditionCheck(at("a", check("attribute_exists(pk)", nil))), add("a", 1))}},
		{"transact/nothing", items, []any{transact([]types.TransactWriteItem{}...)}},
		{"transact/empty action", items, []any{transact(types.TransactWriteItem{}, add("a", 1))}},
		{"transact/two actions in one", items, []any{transact(types.TransactWriteItem{
			Put: transactOne(put(hashTable, fields{"pk": "d"})).Put, Update: add("a", 1).Update,
		})}},
		{"transact/hundred", nil, []any{transact(many(100)...)}},
		{"transact/hundred and one", nil, []any{transact(many(101)...)}},
		{"transact/missing table", items, []any{transact(add("a", 1), transactOne(put("Nowhere", fields{"pk": "d"})))}},
		{"transact/malformed update", items, []any{transact(add("a", 1), transactOne(at("b", update("SET v", nil))))}},
		{"transact/malformed condition", items, []any{transact(add("a", 1), transactOne(at("b", under("v >", update("REMOVE v", nil)))))}},
		{"transact/unused value", items, []any{transact(add("a", 1), transactOne(at("b", update("REMOVE v", fields{":v": 1}))))}},
		{"transact/update of a key", items, []any{transact(add("a", 1), transactOne(at("b", update("SET pk = :v", fields{":v": "b"}))))}},
		{"transact/bad key", items, []any{transact(add("a", 1), transactOne(remove(hashTable, fields{"pk": 1})))}},
		{"transact/bad item", items, []any{transact(add("a", 1), transactOne(put(hashTable, fields{"pk": "d", "s": strs{}})))}},
		{"transact/item without key", items, []any{transact(add("a", 1), transactOne(put(hashTable, fields{"v": 1})))}},
		{"transact/bad index key", items, []any{transact(add("a", 1), transactOne(put(indexedTable, fields{"pk": "d", "sk": "1", "kpk": 1})))}},
		{"transact/update upserts", items, []any{transact(add("new", 1), transactOne(at("newer", update("SET w = if_not_exists(w, :n)", fields{":n": 1}))))}},
		{"transact/delete of nothing", items, []any{transact(transactOne(remove(hashTable, fields{"pk": "none"})), add("a", 1))}},
		{"transact/token repeated", items, []any{
			token("token-a", transact(add("a", 1), add("b", 1))), token("token-a", transact(add("a", 1), add("b", 1))), get(hashTable, fields{"pk": "a"}),
		}},
		{"transact/token of other parameters", items, []any{
			token("token-b", transact(add("a", 1), add("b", 1))), token("token-b", transact(add("a", 1), add("b", 2))),
		}},
		{"transact/token of other order", items, []any{
			token("token-c", transact(add("a", 1), add("b", 1))), token("token-c", transact(add("b", 1), add("a", 1))),
		}},
		{"transact/token of a canceled one", items, []any{
			token("token-d", transact(add("a", 1), refused("b"))), token("token-d", transact(add("a", 1), add("b", 1))),
		}},
		{"transact/token too long", items, []any{token("0123456789012345678901234567890123456", transact(add("a", 1)))}},

		{"transact/get", items, []any{transactGet(gets("a", "b", "none", "c")...)}},
		{"transact/get of nothing", items, []any{transactGet(gets("none")...)}},
		{"transact/get no items", items, []any{transactGet()}},
		{"transact/get twice the same", items, []any{transactGet(gets("a", "a")...)}},
		{"transact/get projected", items, []any{transactGet(types.Get{
			TableName: new(hashTable), Key: fields{"pk": "b"}.values(), ProjectionExpression: new("#s"), ExpressionAttributeNames: names("#s", "s"),
		})}},
		{"transact/get malformed projection", items, []any{transactGet(types.Get{
			TableName: new(hashTable), Key: fields{"pk": "b"}.values(), ProjectionExpression: new("s,"),
		})}},
		{"transact/get unused alias", items, []any{transactGet(types.Get{
			TableName: new(hashTable), Key: fields{"pk": "b"}.values(), ProjectionExpression: new("s"), ExpressionAttributeNames: names("#s", "s"),
		})}},
		{"transact/get of a missing table", items, []any{transactGet(types.Get{TableName: new("Nowhere"), Key: fields{"pk": "b"}.values()})}},
		{"transact/get of a bad key", items, []any{transactGet(types.Get{TableName: new(hashTable), Key: fields{"pk": 1}.values()})}},
		{"transact/get of hundred and one", nil, []any{transactGet(hundredGets(101)...)}},
	}
	return append(cases, transactBills()...)
}

func hundredGets(n int) []types.Get {
	var all []types.Get
	for _, key := range numbered(n) {
		all = append(all, types.Get{TableName: new(hashTable), Key: key.values()})
	}
	return all
}

// transactBills request the bills of transactions.
func transactBills() []testCase {
	items := many(hashTable, fields{"pk": "a", "v": 1}, fields{"pk": "b", "v": 2})
	billed := func(in *dynamodb.TransactWriteItemsInput) *dynamodb.TransactWriteItemsInput {
		in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
		return in
	}
	billedGet := func(in *dynamodb.TransactGetItemsInput) *dynamodb.TransactGetItemsInput {
		in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		return in
	}
	add := func(pk string) types.TransactWriteItem {
		return transactOne(at(pk, update("ADD v :n", fields{":n": 1})))
	}
	replay := func() any {
		return tweak(billed(transact(add("a"), add("b"))), func(in *dynamodb.TransactWriteItemsInput) { in.ClientRequestToken = new("bill") })
	}
	big := fields{"pk": "big", "v": string(make([]byte, 5000))}
	return []testCase{
		{"transact/bill of one write", items, []any{billed(transact(add("a")))}},
		{"transact/bill of two writes", items, []any{billed(transact(add("a"), add("b")))}},
		{"transact/bill of a large write", items, []any{billed(transact(transactOne(put(hashTable, big))))}},
		{"transact/bill of a check", items, []any{billed(transact(conditionCheck(at("a", check("attribute_exists(pk)", nil))), add("b")))}},
		{"transact/bill of a replay", items, []any{replay(), replay()}},
		{"transact/bill of reads", items, []any{billedGet(transactGet(
			types.Get{TableName: new(hashTable), Key: fields{"pk": "a"}.values()}, types.Get{TableName: new(hashTable), Key: fields{"pk": "b"}.values()}))}},
	}
}
