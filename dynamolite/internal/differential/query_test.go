package differential_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// queryCases query tables and indexes.
func queryCases() []testCase {
	items := many(rangeTable,
		fields{"pk": "p", "sk": "a", "n": 1, "m": fields{"x": 1}}, fields{"pk": "p", "sk": "ab", "n": 2}, fields{"pk": "p", "sk": "abc", "n": 3},
		fields{"pk": "p", "sk": "b", "n": 4}, fields{"pk": "p", "sk": "c", "n": 5, "s": "five"}, fields{"pk": "p", "sk": "é", "n": 6},
		fields{"pk": "p", "sk": "😀", "n": 7}, fields{"pk": "p2", "sk": "a", "n": 8}, fields{"pk": "q", "sk": "b", "n": 9})
	var all []testCase
	for _, c := range []struct {
		name, where string
		values      fields
		names       []string
		change      func(*dynamodb.QueryInput)
	}{
		{"partition", "pk = :p", fields{":p": "p"}, nil, nil},
		{"no such partition", "pk = :p", fields{":p": "none"}, nil, nil},
		{"backwards", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ScanIndexForward = new(false) }},
		{"equals", "pk = :p AND sk = :s", fields{":p": "p", ":s": "ab"}, nil, nil},
		{"less", "pk = :p AND sk < :s", fields{":p": "p", ":s": "b"}, nil, nil},
		{"less or equal", "pk = :p AND sk <= :s", fields{":p": "p", ":s": "b"}, nil, nil},
		{"greater", "pk = :p AND sk > :s", fields{":p": "p", ":s": "b"}, nil, nil},
		{"greater or equal", "pk = :p AND sk >= :s", fields{":p": "p", ":s": "b"}, nil, nil},
		{"between", "pk = :p AND sk BETWEEN :s AND :t", fields{":p": "p", ":s": "ab", ":t": "b"}, nil, nil},
		{"between backwards", "pk = :p AND sk BETWEEN :s AND :t", fields{":p": "p", ":s": "ab", ":t": "b"}, nil, func(in *dynamodb.QueryInput) { in.ScanIndexForward = new(false) }},
		{"between reversed", "pk = :p AND sk BETWEEN :t AND :s", fields{":p": "p", ":s": "ab", ":t": "b"}, nil, nil},
		{"between of two types", "pk = :p AND sk BETWEEN :s AND :t", fields{":p": "p", ":s": "ab", ":t": 1}, nil, nil},
		{"begins_with", "pk = :p AND begins_with(sk, :s)", fields{":p": "p", ":s": "ab"}, nil, nil},
		{"begins_with empty", "pk = :p AND begins_with(sk, :s)", fields{":p": "p", ":s": ""}, nil, nil},
		{"empty sort key value", "pk = :p AND sk > :s", fields{":p": "p", ":s": ""}, nil, nil},
		{"empty partition key value", "pk = :p", fields{":p": ""}, nil, nil},
		{"sort key first", "sk = :s AND pk = :p", fields{":p": "p", ":s": "ab"}, nil, nil},
		{"value first", ":p = pk", fields{":p": "p"}, nil, nil},
		{"value first less", "pk = :p AND :s < sk", fields{":p": "p", ":s": "b"}, nil, nil},
		{"in parentheses", "(pk = :p) AND (sk = :s)", fields{":p": "p", ":s": "b"}, nil, nil},
		{"all in parentheses", "(pk = :p AND sk = :s)", fields{":p": "p", ":s": "b"}, nil, nil},
		{"doubled parentheses", "((pk = :p)) AND sk = :s", fields{":p": "p", ":s": "b"}, nil, nil},
		{"keywords in lower case", "pk = :p and sk between :s and :t", fields{":p": "p", ":s": "a", ":t": "b"}, nil, nil},
		{"aliases", "#p = :p AND begins_with(#s, :s)", fields{":p": "p", ":s": "a"}, []string{"#p", "pk", "#s", "sk"}, nil},
		{"or", "pk = :p OR sk = :s", fields{":p": "p", ":s": "b"}, nil, nil},
		{"not", "pk = :p AND NOT sk = :s", fields{":p": "p", ":s": "b"}, nil, nil},
		{"differs", "pk = :p AND sk <> :s", fields{":p": "p", ":s": "b"}, nil, nil},
		{"in", "pk = :p AND sk IN (:s)", fields{":p": "p", ":s": "b"}, nil, nil},
		{"contains", "pk = :p AND contains(sk, :s)", fields{":p": "p", ":s": "b"}, nil, nil},
		{"attribute_exists", "pk = :p AND attribute_exists(sk)", fields{":p": "p"}, nil, nil},
		{"partition key less", "pk < :p", fields{":p": "p"}, nil, nil},
		{"partition key begins_with", "begins_with(pk, :p)", fields{":p": "p"}, nil, nil},
		{"partition key twice", "pk = :p AND pk = :p", fields{":p": "p"}, nil, nil},
		{"sort key twice", "pk = :p AND sk > :s AND sk < :t", fields{":p": "p", ":s": "a", ":t": "b"}, nil, nil},
		{"sort key twice, partition key twice", "pk = :p AND sk > :s AND pk = :p", fields{":p": "p", ":s": "a"}, nil, nil},
		{"no partition key", "sk = :s", fields{":s": "a"}, nil, nil},
		{"other attribute", "pk = :p AND n = :n", fields{":p": "p", ":n": 1}, nil, nil},
		{"other attribute alone", "n = :n", fields{":n": 1}, nil, nil},
		{"wrong type", "pk = :p", fields{":p": 1}, nil, nil},
		{"sort key of wrong type", "pk = :p AND sk > :s", fields{":p": "p", ":s": 1}, nil, nil},
		{"nested path", "pk.x = :p", fields{":p": "p"}, nil, nil},
		{"compare two paths", "pk = sk", nil, nil, nil},
		{"malformed", "pk = :p AND", fields{":p": "p"}, nil, nil},
		{"blank", " ", nil, nil, nil},
		{"undefined value", "pk = :p", nil, nil, nil},
		{"unused value", "pk = :p", fields{":p": "p", ":q": "p"}, nil, nil},
		{"unused alias", "pk = :p", fields{":p": "p"}, []string{"#q", "q"}, nil},
		{"limit", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Limit = new(int32(3)) }},
		{"limit of zero", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Limit = new(int32(0)) }},
		{"limit negative", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Limit = new(int32(-1)) }},
		{"limit of all", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Limit = new(int32(7)) }},
		{"limit of more", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Limit = new(int32(8)) }},
		{"consistent", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ConsistentRead = new(true) }},
		{"count", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectCount }},
		{"all attributes", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes }},
		{"all projected of a table", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllProjectedAttributes }},
		{"specific without projection", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectSpecificAttributes }},
		{"select bogus", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.Select = "BOGUS" }},
		{"projection", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("n, m.x") }},
		{"projection and select", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) {
			in.ProjectionExpression, in.Select = new("n"), types.SelectSpecificAttributes
		}},
		{"projection and count", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) {
			in.ProjectionExpression, in.Select = new("n"), types.SelectCount
		}},
		{"filter", "pk = :p", fields{":p": "p", ":n": 3}, nil, func(in *dynamodb.QueryInput) { in.FilterExpression = new("n >= :n") }},
		{"filter of all", "pk = :p", fields{":p": "p", ":n": 30}, nil, func(in *dynamodb.QueryInput) { in.FilterExpression = new("n >= :n") }},
		{"filter after limit", "pk = :p", fields{":p": "p", ":n": 3}, nil, func(in *dynamodb.QueryInput) {
			in.FilterExpression, in.Limit = new("n >= :n"), new(int32(3))
		}},
		{"filter and count", "pk = :p", fields{":p": "p", ":n": 3}, nil, func(in *dynamodb.QueryInput) {
			in.FilterExpression, in.Select = new("n >= :n"), types.SelectCount
		}},
		{"filter on unprojected", "pk = :p", fields{":p": "p", ":s": "five"}, nil, func(in *dynamodb.QueryInput) {
			in.FilterExpression, in.ProjectionExpression = new("s = :s"), new("n")
		}},
		{"filter on missing", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.FilterExpression = new("attribute_not_exists(s)") }},
		{"filter on partition key", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.FilterExpression = new("pk = :p") }},
		{"filter on sort key", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.FilterExpression = new("attribute_exists(sk)") }},
		{"filter on key through alias", "pk = :p", fields{":p": "p"}, []string{"#s", "sk"}, func(in *dynamodb.QueryInput) { in.FilterExpression = new("attribute_exists(#s)") }},
		{"filter malformed", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.FilterExpression = new("n >") }},
		{"filter empty", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.FilterExpression = new("") }},
		{"start", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": "abc"}.values() }},
		{"start between items", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": "abcd"}.values() }},
		{"start backwards", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey, in.ScanIndexForward = fields{"pk": "p", "sk": "abcd"}.values(), new(false)
		}},
		{"start in another partition", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"pk": "q", "sk": "b"}.values() }},
		{"start outside the range", "pk = :p AND sk > :s", fields{":p": "p", ":s": "b"}, nil, func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = fields{"pk": "p", "sk": "a"}.values()
		}},
		{"start without sort key", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"pk": "p"}.values() }},
		{"start of wrong type", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": 1}.values() }},
		{"start with too much", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = fields{"pk": "p", "sk": "a", "n": 1}.values()
		}},
		{"missing table", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.TableName = new("Nowhere") }},
		{"missing index", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.IndexName = new("Nowhere") }},
		{"no key condition", "", nil, nil, func(in *dynamodb.QueryInput) { in.KeyConditionExpression = nil }},
		{"total bill", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal }},
		{"no bill", "pk = :p", fields{":p": "p"}, nil, func(in *dynamodb.QueryInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityNone }},
	} {
		request := query(rangeTable, c.where, c.values)
		if c.names != nil {
			request.ExpressionAttributeNames = names(c.names...)
		}
		if c.change != nil {
			c.change(request)
		}
		all = append(all, testCase{"query/" + c.name, items, []any{request}})
	}
	for _, limit := range []int32{1, 2, 3, 7} {
		for _, forward := range []bool{true, false} {
			all = append(all, testCase{fmt.Sprintf("query/pages of %d, forward %v", limit, forward), items, []any{
				pages{tweak(query(rangeTable, "pk = :p", fields{":p": "p"}), func(in *dynamodb.QueryInput) {
					in.Limit, in.ScanIndexForward = &limit, &forward
				})},
			}})
		}
	}
	all = append(all, testCase{"query/limit at the bound of the range", items, []any{
		pages{tweak(query(rangeTable, "pk = :p AND sk <= :s", fields{":p": "p", ":s": "ab"}), func(in *dynamodb.QueryInput) { in.Limit = new(int32(2)) })},
	}})
	return append(append(all, numberQueryCases()...), indexCases()...)
}

// numberQueryCases order numbers and bytes.
func numberQueryCases() []testCase {
	var numbers, bytes []stored
	for i, n := range []num{"-1e125", "-100", "-99.5", "-1", "-0.5", "-1e-130", "0", "1e-130", "0.5", "0.55", "1", "2", "10", "99.5", "100", "1e125"} {
		numbers = append(numbers, stored{numberTable, fields{"pk": "p", "sk": n, "i": i}})
	}
	for _, b := range [][]byte{{0}, {0, 0}, {0, 1}, {1}, {127}, {128}, {255}, {255, 0}, {255, 255}} {
		bytes = append(bytes, stored{binaryTable, fields{"pk": []byte("p"), "sk": b}})
	}
	return []testCase{
		{"query/numbers in order", numbers, []any{query(numberTable, "pk = :p", fields{":p": "p"})}},
		{"query/numbers backwards by pages", numbers, []any{pages{tweak(query(numberTable, "pk = :p", fields{":p": "p"}), func(in *dynamodb.QueryInput) {
			in.ScanIndexForward, in.Limit = new(false), new(int32(5))
		})}}},
		{"query/numbers in a range", numbers, []any{
			query(numberTable, "pk = :p AND sk BETWEEN :a AND :b", fields{":p": "p", ":a": num("-99.50"), ":b": num("5.5e-1")}),
			query(numberTable, "pk = :p AND sk > :a", fields{":p": "p", ":a": num("-0")}),
			query(numberTable, "pk = :p AND sk <= :a", fields{":p": "p", ":a": num("-1.000")}),
			query(numberTable, "pk = :p AND sk = :a", fields{":p": "p", ":a": num("1e2")}),
			query(numberTable, "pk = :p AND begins_with(sk, :a)", fields{":p": "p", ":a": 1}),
			query(numberTable, "pk = :p AND sk = :a", fields{":p": "p", ":a": num("1e126")}),
		}},
		{"query/bytes in order", bytes, []any{
			query(binaryTable, "pk = :p", fields{":p": []byte("p")}),
			query(binaryTable, "pk = :p AND begins_with(sk, :a)", fields{":p": []byte("p"), ":a": []byte{255}}),
			query(binaryTable, "pk = :p AND begins_with(sk, :a)", fields{":p": []byte("p"), ":a": []byte{0}}),
			query(binaryTable, "pk = :p AND sk < :a", fields{":p": []byte("p"), ":a": []byte{128}}),
			query(binaryTable, "pk = :p AND begins_with(sk, :a)", fields{":p": []byte("p"), ":a": []byte{255, 255}}),
		}},
		{"query/no sort key", one(fields{"a": 1}), []any{
			query(hashTable, "pk = :p", fields{":p": "k"}),
			query(hashTable, "pk = :p AND sk = :p", fields{":p": "k"}),
			pages{tweak(query(hashTable, "pk = :p", fields{":p": "k"}), func(in *dynamodb.QueryInput) { in.Limit = new(int32(1)) })},
		}},
		{"query/page of a megabyte", hundredKilobytes(12), []any{
			query(rangeTable, "pk = :p", fields{":p": "p"}),
			tweak(query(rangeTable, "pk = :p", fields{":p": "p"}), func(in *dynamodb.QueryInput) { in.Select = types.SelectCount }),
			tweak(query(rangeTable, "pk = :p", fields{":p": "p"}), func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("sk") }),
			pages{tweak(query(rangeTable, "pk = :p", fields{":p": "p"}), func(in *dynamodb.QueryInput) {
				in.Select, in.ConsistentRead, in.ScanIndexForward = types.SelectCount, new(true), new(false)
			})},
			tweak(query(rangeTable, "pk = :p", fields{":p": "p", ":x": "x"}), func(in *dynamodb.QueryInput) {
				in.FilterExpression = new("attribute_exists(sk2) OR v = :x")
			}),
		}},
	}
}

// hundredKilobytes returns n items of one partition, each of 100 KB, with short names and content
// that compresses in a golden file.
func hundredKilobytes(n int) []stored {
	var all []stored
	for i := range n {
		sk := fmt.Sprintf("%02d", i)
		all = append(all, stored{rangeTable, fields{"pk": "p", "sk": sk, "v": strings.Repeat("v", 100*1024-8)}})
	}
	return all
}

// indexCases query the secondary indexes and check the effect of writes on them.
func indexCases() []testCase {
	items := many(indexedTable,
		fields{"pk": "a", "sk": "1", "gpk": "g", "gsk": 2, "kpk": "k", "x": 1, "w": "w1"},
		fields{"pk": "a", "sk": "2", "gpk": "g", "gsk": 2, "kpk": "k", "x": 2},
		fields{"pk": "b", "sk": "1", "gpk": "g", "gsk": 1, "spk": "s", "ssk": "z", "x": 3, "y": 4, "w": 5},
		fields{"pk": "b", "sk": "2", "gpk": "g", "spk": "s", "ssk": "y"},
		fields{"pk": "c", "sk": "1", "gpk": "g", "gsk": num("-1.5"), "kpk": "k"},
		fields{"pk": "c", "sk": "2", "gpk": "h", "gsk": 2, "kpk": "k2"})
	all := indexedTable + "." + allIndex
	keys := indexedTable + "." + keysIndex
	some := indexedTable + "." + someIndex
	byG := func(change func(*dynamodb.QueryInput)) *dynamodb.QueryInput {
		return tweak(query(all, "gpk = :g", fields{":g": "g"}), change)
	}
	set := func(expression string, values fields) any {
		return tweak(update(expression, values), func(in *dynamodb.UpdateItemInput) {
			in.TableName, in.Key = new(indexedTable), fields{"pk": "b", "sk": "1"}.values()
		})
	}
	look := []any{query(all, "gpk = :g", fields{":g": "g"}), query(keys, "kpk = :k", fields{":k": "k"}), query(some, "spk = :s", fields{":s": "s"})}
	cases := []testCase{
		{"index/order, ties and absentees", items, look},
		{"index/range", items, []any{
			query(all, "gpk = :g AND gsk >= :n", fields{":g": "g", ":n": 1}),
			query(all, "gpk = :g AND gsk BETWEEN :m AND :n", fields{":g": "g", ":m": -2, ":n": num("1.0")}),
			query(some, "spk = :s AND begins_with(ssk, :z)", fields{":s": "s", ":z": "z"}),
		}},
		{"index/table's keys in its key condition", items, []any{query(all, "pk = :g", fields{":g": "a"}), query(keys, "kpk = :k AND pk = :a", fields{":k": "k", ":a": "a"})}},
		{"index/consistent read", items, []any{byG(func(in *dynamodb.QueryInput) { in.ConsistentRead = new(true) })}},
		{"index/all attributes of one that has them", items, []any{byG(func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes })}},
		{"index/all attributes of one that lacks them", items, []any{
			tweak(query(keys, "kpk = :k", fields{":k": "k"}), func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes }),
		}},
		{"index/all projected attributes", items, []any{
			tweak(query(some, "spk = :k", fields{":k": "s"}), func(in *dynamodb.QueryInput) { in.Select = types.SelectAllProjectedAttributes }),
		}},
		{"index/projection", items, []any{tweak(query(some, "spk = :k", fields{":k": "s"}), func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("pk, x") })}},
		{"index/projection of an unprojected attribute", items, []any{tweak(query(some, "spk = :k", fields{":k": "s"}), func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("w") })}},
		{"index/filter", items, []any{tweak(query(all, "gpk = :k", fields{":k": "g", ":x": 1}), func(in *dynamodb.QueryInput) { in.FilterExpression = new("x > :x") })}},
		{"index/filter on an unprojected attribute", items, []any{tweak(query(some, "spk = :k", fields{":k": "s"}), func(in *dynamodb.QueryInput) { in.FilterExpression = new("attribute_exists(w)") })}},
		{"index/filter on its own key", items, []any{tweak(query(all, "gpk = :k", fields{":k": "g", ":x": 1}), func(in *dynamodb.QueryInput) { in.FilterExpression = new("gsk > :x") })}},
		{"index/filter on the table's key", items, []any{tweak(query(all, "gpk = :k", fields{":k": "g", ":x": "1"}), func(in *dynamodb.QueryInput) { in.FilterExpression = new("sk = :x") })}},
		{"index/start key", items, []any{
			byG(func(in *dynamodb.QueryInput) {
				in.ExclusiveStartKey = fields{"gpk": "g", "gsk": 1, "pk": "b", "sk": "1"}.values()
			}),
			byG(func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"gpk": "g", "gsk": 2}.values() }),
			byG(func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"pk": "a", "sk": "1"}.values() }),
		}},
		{"index/missing", items, []any{query(indexedTable+".None", "gpk = :k", fields{":k": "g"})}},
		{"index/two partitions of one name", items, []any{query(all, "gpk = :k", fields{":k": "h"}), query(keys, "kpk = :k", fields{":k": "k2"})}},
		{"index/put replaces entries", items, append([]any{
			put(indexedTable, fields{"pk": "b", "sk": "1", "gpk": "g", "gsk": 9, "kpk": "k"}),
		}, look...)},
		{"index/put drops entries", items, append([]any{put(indexedTable, fields{"pk": "a", "sk": "1"})}, look...)},
		{"index/delete drops entries", items, append([]any{remove(indexedTable, fields{"pk": "b", "sk": "1"})}, look...)},
		{"index/update of a plain attribute", items, append([]any{set("SET w = :v", fields{":v": "other"})}, look...)},
		{"index/update of an included attribute", items, append([]any{set("SET x = :v", fields{":v": "other"})}, look...)},
		{"index/update of the index sort key", items, append([]any{set("SET gsk = :v, ssk = :s", fields{":v": 7, ":s": "a"})}, look...)},
		{"index/update of the index partition key", items, append([]any{set("SET gpk = :v", fields{":v": "h"})}, look...)},
		{"index/update that enters an index", items, append([]any{set("SET kpk = :v", fields{":v": "k"})}, look...)},
		{"index/update that leaves an index", items, append([]any{set("REMOVE gsk", nil)}, look...)},
		{"index/update that changes nothing", items, append([]any{set("SET x = :v", fields{":v": 3})}, look...)},
		{"index/update of an index key to a wrong type", items, []any{set("SET gsk = :v", fields{":v": "seven"})}},
		{"index/update of an index key to nothing", items, append([]any{set("SET kpk = :v", fields{":v": ""})}, look...)},
		{"index/update of an index key by add", items, append([]any{set("ADD gsk :v", fields{":v": num("0.5")})}, look...)},
	}
	for _, limit := range []int32{1, 2, 4} {
		for _, forward := range []bool{true, false} {
			cases = append(cases, testCase{fmt.Sprintf("index/pages of %d, forward %v", limit, forward), items[1:], []any{ // no equal keys
				pages{byG(func(in *dynamodb.QueryInput) { in.Limit, in.ScanIndexForward = &limit, &forward })},
				pages{tweak(query(some, "spk = :s", fields{":s": "s"}), func(in *dynamodb.QueryInput) { in.Limit, in.ScanIndexForward = &limit, &forward })},
			}})
		}
	}
	return cases
}
