package differential_test

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tokenAndReasonCases test tokens, and the reasons of canceled transactions.
func tokenAndReasonCases() []testCase {
	return append(tokenCases(), reasonCases()...)
}

func tokenCases() []testCase {
	items := many(hashTable, fields{"pk": "a", "v": 1}, fields{"pk": "b", "v": 2})
	send := func(token string, change func(*dynamodb.TransactWriteItemsInput), writes ...types.TransactWriteItem) *dynamodb.TransactWriteItemsInput {
		in := transact(writes...)
		in.ClientRequestToken = &token
		if change != nil {
			change(in)
		}
		return in
	}
	add := func(pk string, v any) types.TransactWriteItem {
		return transactOne(at(pk, update("ADD v :n", fields{":n": v})))
	}
	aliased := func(alias string) types.TransactWriteItem {
		return transactOne(at("a", tweak(update("ADD "+alias+" :n", fields{":n": 1}), func(in *dynamodb.UpdateItemInput) { in.ExpressionAttributeNames = names(alias, "v") })))
	}
	deleted := transactOne(remove(hashTable, fields{"pk": "a"}))
	var all []testCase
	for _, c := range []struct {
		name     string
		requests []any
	}{
		{"of the longest length", []any{send(strings.Repeat("t", 36), nil, add("a", 1))}},
		{"empty", []any{send("", nil, add("a", 1))}},
		{"three times", []any{send("t3", nil, add("a", 1)), send("t3", nil, add("a", 1)), send("t3", nil, add("a", 1))}},
		{"of another item", []any{send("ti", nil, add("a", 1)), send("ti", nil, add("b", 1))}},
		{"of more items", []any{send("tm", nil, add("a", 1)), send("tm", nil, add("a", 1), add("b", 1))}},
		{"of fewer items", []any{send("tf", nil, add("a", 1), add("b", 1)), send("tf", nil, add("a", 1))}},
		{"of another action", []any{send("ta", nil, add("a", 1)), send("ta", nil, deleted)}},
		{"of another expression", []any{send("te", nil, add("a", 1)), send("te", nil, transactOne(at("a", update("ADD  v :n", fields{":n": 1}))))}},
		{"of another alias", []any{send("tn", nil, aliased("#v")), send("tn", nil, aliased("#w"))}},
		{"of the same number written otherwise", []any{send("tw", nil, add("a", num("1"))), send("tw", nil, add("a", num("1.0")))}},
		{"of a set in another order", []any{
			send("ts", nil, transactOne(put(hashTable, fields{"pk": "c", "s": strs{"x", "y"}}))), send("ts", nil, transactOne(put(hashTable, fields{"pk": "c", "s": strs{"y", "x"}}))),
		}},
		{"asking for the bill the second time", []any{send("tb", nil, add("a", 1), add("b", 1)), send("tb", func(in *dynamodb.TransactWriteItemsInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		}, add("a", 1), add("b", 1))}},
		{"asking for the metrics the second time", []any{send("tc", nil, add("a", 1), add("b", 1)), send("tc", func(in *dynamodb.TransactWriteItemsInput) {
			in.ReturnItemCollectionMetrics = types.ReturnItemCollectionMetricsSize
		}, add("a", 1), add("b", 1))}},
		{"after the item changed", []any{send("td", nil, add("a", 1)), put(hashTable, fields{"pk": "a", "v": 50}), send("td", nil, add("a", 1)), get(hashTable, fields{"pk": "a"})}},
		{"of a condition that would fail now", []any{
			send("tg", nil, transactOne(tweak(put(hashTable, fields{"pk": "c"}), func(in *dynamodb.PutItemInput) { in.ConditionExpression = new("attribute_not_exists(pk)") }))),
			send("tg", nil, transactOne(tweak(put(hashTable, fields{"pk": "c"}), func(in *dynamodb.PutItemInput) { in.ConditionExpression = new("attribute_not_exists(pk)") }))),
		}},
		{"of a canceled one, the same", []any{
			send("tx", nil, transactOne(at("a", under("v > :n", update("ADD v :n", fields{":n": 5}))))), put(hashTable, fields{"pk": "a", "v": 9}),
			send("tx", nil, transactOne(at("a", under("v > :n", update("ADD v :n", fields{":n": 5}))))),
		}},
		{"of an invalid one", []any{send("tv", nil, transactOne(at("a", update("ADD v", nil)))), send("tv", nil, add("a", 1))}},
		{"of deletes", []any{send("tk", nil, deleted), put(hashTable, fields{"pk": "a"}), send("tk", nil, deleted)}},
		{"two tokens", []any{send("t1", nil, add("a", 1)), send("t2", nil, add("a", 1))}},
	} {
		all = append(all, testCase{"transact/token " + c.name, items, c.requests})
	}
	return all
}

// reasonCases test every reason for every action.
func reasonCases() []testCase {
	items := append(many(hashTable, fields{"pk": "a", "v": 1, "l": []any{1}, "s": strs{"x"}}, fields{"pk": "b", "v": 2}), many(indexedTable, fields{"pk": "a", "sk": "1", "kpk": "k", "gpk": "g", "gsk": 1})...)
	good := transactOne(at("b", update("ADD v :n", fields{":n": 1})))
	one := func(request any) types.TransactWriteItem { return transactOne(request) }
	item := func(expression string, values fields) types.TransactWriteItem {
		return one(at("a", update(expression, values)))
	}
	shown, hidden := types.ReturnValuesOnConditionCheckFailureAllOld, types.ReturnValuesOnConditionCheckFailureNone
	failing := func(show types.ReturnValuesOnConditionCheckFailure, pk string) map[string]types.TransactWriteItem {
		condition := new("attribute_exists(nothing)")
		return map[string]types.TransactWriteItem{
			"put": one(tweak(put(hashTable, fields{"pk": pk}), func(in *dynamodb.PutItemInput) {
				in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure = condition, show
			})),
			"update": one(at(pk, tweak(update("ADD v :n", fields{":n": 1}), func(in *dynamodb.UpdateItemInput) {
				in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure = condition, show
			}))),
			"delete": one(tweak(remove(hashTable, fields{"pk": pk}), func(in *dynamodb.DeleteItemInput) {
				in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure = condition, show
			})),
			"check": conditionCheck(at(pk, tweak(check(*condition, nil), func(in *dynamodb.UpdateItemInput) { in.ReturnValuesOnConditionCheckFailure = show }))),
		}
	}
	var all []testCase
	for _, action := range []string{"put", "update", "delete", "check"} {
		all = append(all,
			testCase{"transact/reason of a failed " + action, items, []any{transact(good, failing(shown, "a")[action])}},
			testCase{"transact/reason of a failed " + action + ", unseen", items, []any{transact(good, failing(hidden, "a")[action])}},
			testCase{"transact/reason of a failed " + action + " of nothing", items, []any{transact(good, failing(shown, "none")[action])}},
			testCase{"transact/reason of a failed " + action + ", bogus", items, []any{transact(good, failing("BOGUS", "a")[action])}})
	}
	for _, c := range []struct {
		name  string
		write types.TransactWriteItem
	}{
		{"adding to a list", item("ADD l :n", fields{":n": 1})},
		{"adding a string", item("ADD v :n", fields{":n": "x"})},
		{"adding a set of another type", item("ADD s :n", fields{":n": nums{"1"}})},
		{"deleting from a number", item("DELETE v :n", fields{":n": strs{"x"}})},
		{"copying what is missing", item("SET v = q", nil)},
		{"adding what is missing", item("SET v = q + :n", fields{":n": 1})},
		{"appending to a number", item("SET v = list_append(v, :n)", fields{":n": []any{1}})},
		{"setting inside a number", item("SET v.x = :n", fields{":n": 1})},
		{"setting inside an element", item("SET l[0].x = :n", fields{":n": 1})},
		{"removing inside a number", item("REMOVE v.x", nil)},
		{"an item too large", item("SET q = :n", fields{":n": strings.Repeat("q", 410000)})},
		{"a put too large", one(put(hashTable, fields{"pk": "a", "q": strings.Repeat("q", 410000)}))},
		{"an update to a wrong index key", one(tweak(update("SET kpk = :n", fields{":n": 1}), func(in *dynamodb.UpdateItemInput) {
			in.TableName, in.Key = new(indexedTable), fields{"pk": "a", "sk": "1"}.values()
		}))},
		{"an update to an empty index key", one(tweak(update("SET kpk = :n", fields{":n": ""}), func(in *dynamodb.UpdateItemInput) {
			in.TableName, in.Key = new(indexedTable), fields{"pk": "a", "sk": "1"}.values()
		}))},
		{"an empty key", one(remove(hashTable, fields{"pk": ""}))},
		{"a key too long", one(remove(hashTable, fields{"pk": strings.Repeat("k", 2049)}))},
		{"too many keys", one(remove(hashTable, fields{"pk": "a", "sk": "b"}))},
		{"too few keys", one(remove(rangeTable, fields{"pk": "a"}))},
		{"a check on a bad key", conditionCheck(at("a", tweak(check("attribute_exists(pk)", nil), func(in *dynamodb.UpdateItemInput) { in.TableName = new(rangeTable) })))},
		{"a check of a condition on types", conditionCheck(at("a", check("v < :n", fields{":n": "x"})))},
		{"a check of an invalid condition", conditionCheck(at("a", check("v < :n AND", fields{":n": "x"})))},
		{"a check without a condition", types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: new(hashTable), Key: fields{"pk": "a"}.values(), ConditionExpression: new("")}}},
		{"an update without an expression", types.TransactWriteItem{Update: &types.Update{TableName: new(hashTable), Key: fields{"pk": "a"}.values(), UpdateExpression: new("")}}},
		{"a number of 39 digits", item("SET v = :n", fields{":n": num("1" + strings.Repeat("0", 37) + "1")})},
		{"a put of 39 digits", one(put(hashTable, fields{"pk": "a", "v": num("1" + strings.Repeat("0", 37) + "1")}))},
	} {
		all = append(all, testCase{"transact/reason: " + c.name, items, []any{
			tweak(transact(good, c.write), func(in *dynamodb.TransactWriteItemsInput) {
				in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			}),
			get(hashTable, fields{"pk": "b"}),
		}})
	}
	fails := failing(shown, "a")["update"]
	return append(all,
		testCase{"transact/reason: a failed condition before an invalid request", items, []any{transact(fails, transactOne(at("b", update("SET", nil))))}},
		testCase{"transact/reason: a failed condition before a missing table", items, []any{transact(fails, one(put("Nowhere", fields{"pk": "a"})))}},
		testCase{"transact/reason: a failed condition beside a type error", items, []any{transact(failing(hidden, "b")["delete"], item("SET v = q", nil))}},
		testCase{"transact/reason: type errors in both", items, []any{transact(item("SET v = q", nil), one(at("b", update("ADD v :n", fields{":n": strs{"x"}}))))}},
		testCase{"transact/reason: three failures of four", items, []any{transact(failing(shown, "a")["put"], good, failing(shown, "none")["check"], failing(hidden, "c")["delete"])}},
		testCase{"transact/bill of a canceled one", items, []any{tweak(transact(good, fails), func(in *dynamodb.TransactWriteItemsInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
		})}},
		testCase{"transact/bill of two tables", items, []any{tweak(transact(good, one(put(indexedTable, fields{"pk": "z", "sk": "1"}))), func(in *dynamodb.TransactWriteItemsInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
		})}},
		testCase{"transact/bill of deletes of nothing", items, []any{tweak(transact(one(remove(hashTable, fields{"pk": "x"})), one(remove(hashTable, fields{"pk": "y"}))), func(in *dynamodb.TransactWriteItemsInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
		})}})
}
