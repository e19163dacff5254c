package differential_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// padded returns an item of the hash table whose size is n bytes. It has the given attributes and
// a string that fills the rest. The caller claims the size of the attributes, so that a case at
// an edge tests it.
func padded(n, claimed int, item fields) fields {
	const keyAndName = 2 + 1 + 1 // pk, k, and the name of v
	return key.with(item).with(fields{"v": strings.Repeat("v", n-keyAndName-claimed)})
}

// capacityCases check the bill at the steps from one unit to the next, which shows the size of a
// value to the byte.
func capacityCases() []testCase {
	var all []testCase
	for _, c := range []struct {
		name string
		size int // of the attribute, including the one byte of its name
		v    any
	}{
		{"nothing but strings", 0, nil},
		{"string", 6, "12345"},
		{"string of wide letters", 6, "é€"},
		{"empty string", 1, ""},
		{"0", 2, 0},
		{"1", 3, 1},
		{"12", 3, 12},
		{"123", 4, 123},
		{"100", 3, 100},
		{"1234567890", 7, 1234567890},
		{"-5", 4, -5},
		{"-50", 4, -50},
		{"0.001", 3, num("0.001")},
		{"1.5", 3, num("1.5")},
		{"0.12", 3, num("0.12")},
		{"12.3", 4, num("12.3")},
		{"38 digits", 21, num(strings.Repeat("1", 38))},
		{"-38 digits", 22, num("-" + strings.Repeat("1", 38))},
		{"1e100", 3, num("1e100")},
		{"1e101", 3, num("1e101")},
		{"1.2e-7", 3, num("1.2e-7")},
		{"10", 3, 10},
		{"1000", 3, 1000},
		{"1200", 3, 1200},
		{"1230", 4, 1230},
		{"bool", 2, true},
		{"null", 2, nil},
		{"binary", 4, []byte{1, 2, 3}},
		{"empty list", 4, []any{}},
		{"list", 3 + 1 + 2 + 1 + 2 + 1, []any{"a", 1}},
		{"empty map", 4, fields{}},
		{"map", 1 + 3 + (1 + 1 + 1) + (2 + 2 + 1), fields{"a": "b", "cc": 1}},
		{"nested list", 1 + 3 + 1 + 3 + 1 + 1, []any{[]any{"a"}}},
		{"string set", 4, strs{"a", "bc"}},
		{"number set", 6, nums{"1", "123"}},
		{"binary set", 4, bins{"a", "bc"}},
	} {
		item := fields{"a": c.v}
		if c.size == 0 {
			item = nil
		}
		full, over := padded(1024, c.size, item), padded(1025, c.size, item)
		all = append(all, testCase{"capacity/size of " + c.name, nil, []any{put(hashTable, full), put(hashTable, over), get(hashTable, key)}})
	}
	for _, size := range []int{1, 1024, 1025, 4096, 4097, 8192, 8193, 40000} {
		item := one(padded(max(size, 10), 0, nil))
		all = append(all, testCase{fmt.Sprintf("capacity/item of %d bytes", size), item, []any{
			get(hashTable, key),
			tweak(get(hashTable, key), func(in *dynamodb.GetItemInput) { in.ConsistentRead = new(true) }),
			tweak(get(hashTable, key), func(in *dynamodb.GetItemInput) { in.ProjectionExpression = new("pk") }),
			query(hashTable, "pk = :k", fields{":k": "k"}),
			check("attribute_exists(nothing)", nil),
			tweak(update("", nil), func(in *dynamodb.UpdateItemInput) { in.ReturnValues = types.ReturnValueNone }),
			tweak(update("SET w = :w", fields{":w": 1}), func(in *dynamodb.UpdateItemInput) { in.ReturnValues = types.ReturnValueNone }),
			put(hashTable, key),
			tweak(put(hashTable, padded(max(size, 10), 0, nil)), func(in *dynamodb.PutItemInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal }),
			remove(hashTable, key),
			remove(hashTable, key),
		}})
	}
	for _, size := range []int{409600, 409601} {
		all = append(all, testCase{fmt.Sprintf("capacity/largest item, %d bytes", size), nil, []any{put(hashTable, padded(size, 0, nil))}})
	}
	return append(append(all, growthCases()...), indexBillCases()...)
}

// growthCases grow an item to the largest size by updates.
func growthCases() []testCase {
	grow := func(n int) any {
		return tweak(update("SET w = :w", fields{":w": strings.Repeat("w", n)}), func(in *dynamodb.UpdateItemInput) { in.ReturnValues = types.ReturnValueNone })
	}
	return []testCase{
		{"capacity/update beyond the largest item", one(padded(400000, 0, nil)), []any{grow(9599), grow(9600), grow(1)}},
		{"capacity/shrinking update", one(padded(3000, 0, nil)), []any{update("REMOVE v", nil), update("SET v = :v", fields{":v": 1})}},
		{"capacity/replacement by less", one(padded(3000, 0, nil)), []any{put(hashTable, key), put(hashTable, key)}},
		{"capacity/many small items", many(rangeTable, fields{"pk": "p", "sk": "1"}, fields{"pk": "p", "sk": "2"}, fields{"pk": "p", "sk": "3", "v": strings.Repeat("v", 4090)}), []any{
			query(rangeTable, "pk = :p", fields{":p": "p"}),
			tweak(query(rangeTable, "pk = :p", fields{":p": "p"}), func(in *dynamodb.QueryInput) { in.ConsistentRead = new(true) }),
			tweak(query(rangeTable, "pk = :p", fields{":p": "p"}), func(in *dynamodb.QueryInput) { in.Limit = new(int32(2)) }),
		}},
	}
}

// indexBillCases check the cost of writes in the indexes.
func indexBillCases() []testCase {
	place := fields{"pk": "a", "sk": "1"}
	whole := place.with(fields{"gpk": "g", "gsk": 1, "kpk": "k", "spk": "s", "ssk": "t", "x": 1, "w": 1})
	set := func(expression string, values fields) any {
		return tweak(update(expression, values), func(in *dynamodb.UpdateItemInput) {
			in.TableName, in.Key, in.ReturnValues = new(indexedTable), place.values(), types.ReturnValueNone
		})
	}
	var all []testCase
	for _, c := range []struct {
		name     string
		requests []any
	}{
		{"put of the same", []any{put(indexedTable, whole)}},
		{"put of other plain attribute", []any{put(indexedTable, whole.with(fields{"w": 2}))}},
		{"put of other included attribute", []any{put(indexedTable, whole.with(fields{"x": 2}))}},
		{"put of other index keys", []any{put(indexedTable, whole.with(fields{"gsk": 2, "kpk": "kk"}))}},
		{"put out of all indexes", []any{put(indexedTable, place), put(indexedTable, place)}},
		{"put into all indexes", []any{remove(indexedTable, place), put(indexedTable, whole)}},
		{"delete", []any{remove(indexedTable, place), remove(indexedTable, place)}},
		{"update of nothing", []any{set("", nil)}},
		{"update to the same", []any{set("SET w = :v, x = :v", fields{":v": 1})}},
		{"update to the same number written otherwise", []any{set("SET x = :v", fields{":v": num("1.0")})}},
		{"update of a plain attribute", []any{set("SET w = :v", fields{":v": 2})}},
		{"update of an included attribute", []any{set("SET x = :v", fields{":v": 2})}},
		{"update of one missing included attribute", []any{set("SET y = :v", fields{":v": 2}), set("REMOVE y", nil)}},
		{"update of an index sort key", []any{set("SET gsk = :v", fields{":v": 2})}},
		{"update of an index partition key", []any{set("SET kpk = :v", fields{":v": "kk"})}},
		{"update out of an index", []any{set("REMOVE kpk", nil)}},
		{"update into an index", []any{set("REMOVE kpk", nil), set("SET kpk = :v", fields{":v": "k"})}},
		{"update of a large plain attribute", []any{set("SET w = :v", fields{":v": strings.Repeat("w", 3000)}), set("SET w = :v", fields{":v": 1})}},
		{"update of a large included attribute", []any{set("SET x = :v", fields{":v": strings.Repeat("x", 3000)}), set("SET ssk = :v", fields{":v": "tt"})}},
		{"refused update", []any{tweak(set("SET x = :v", fields{":v": 2}).(*dynamodb.UpdateItemInput), func(in *dynamodb.UpdateItemInput) {
			in.ConditionExpression = new("attribute_not_exists(pk)")
		})}},
		{"queries", []any{
			query(indexedTable+"."+allIndex, "gpk = :g", fields{":g": "g"}),
			query(indexedTable+"."+keysIndex, "kpk = :g", fields{":g": "k"}),
			query(indexedTable+"."+someIndex, "spk = :g", fields{":g": "s"}),
			tweak(query(indexedTable+"."+someIndex, "spk = :g", fields{":g": "s"}), func(in *dynamodb.QueryInput) {
				in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			}),
		}},
		{"total", []any{tweak(put(indexedTable, whole.with(fields{"x": 2})), func(in *dynamodb.PutItemInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		})}},
		{"none", []any{tweak(put(indexedTable, whole.with(fields{"x": 2})), func(in *dynamodb.PutItemInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityNone
		})}},
		{"bogus", []any{tweak(put(indexedTable, whole.with(fields{"x": 2})), func(in *dynamodb.PutItemInput) { in.ReturnConsumedCapacity = "BOGUS" })}},
	} {
		all = append(all, testCase{"capacity/indexes: " + c.name, many(indexedTable, whole), c.requests})
	}
	return all
}
