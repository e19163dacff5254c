package differential_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// scanCases scan tables and indexes.
func scanCases() []testCase {
	// One partition has one order on any engine, so that pages can be compared.
	items := many(rangeTable,
		fields{"pk": "p", "sk": "a", "n": 1, "m": fields{"x": 1}}, fields{"pk": "p", "sk": "ab", "n": 2}, fields{"pk": "p", "sk": "abc", "n": 3},
		fields{"pk": "p", "sk": "b", "n": 4}, fields{"pk": "p", "sk": "c", "n": 5, "s": "five"}, fields{"pk": "p", "sk": "é", "n": 6},
		fields{"pk": "p", "sk": "😀", "n": 7})
	type request = func(*dynamodb.ScanInput)
	filter := func(expression string, values fields) request {
		return func(in *dynamodb.ScanInput) {
			in.FilterExpression, in.ExpressionAttributeValues = &expression, values.values()
		}
	}
	start := func(key fields) request {
		return func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = key.values() }
	}
	var all []testCase
	for _, c := range []struct {
		name   string
		change request
	}{
		{"whole", func(*dynamodb.ScanInput) {}},
		{"limit", func(in *dynamodb.ScanInput) { in.Limit = new(int32(3)) }},
		{"limit of zero", func(in *dynamodb.ScanInput) { in.Limit = new(int32(0)) }},
		{"limit negative", func(in *dynamodb.ScanInput) { in.Limit = new(int32(-1)) }},
		{"limit of all", func(in *dynamodb.ScanInput) { in.Limit = new(int32(7)) }},
		{"limit of more", func(in *dynamodb.ScanInput) { in.Limit = new(int32(8)) }},
		{"consistent", func(in *dynamodb.ScanInput) { in.ConsistentRead = new(true) }},
		{"inconsistent", func(in *dynamodb.ScanInput) { in.ConsistentRead = new(false) }},
		{"count", func(in *dynamodb.ScanInput) { in.Select = types.SelectCount }},
		{"count with limit", func(in *dynamodb.ScanInput) { in.Select, in.Limit = types.SelectCount, new(int32(2)) }},
		{"all attributes", func(in *dynamodb.ScanInput) { in.Select = types.SelectAllAttributes }},
		{"all attributes and projection", func(in *dynamodb.ScanInput) {
			in.Select, in.ProjectionExpression = types.SelectAllAttributes, new("n")
		}},
		{"all projected of a table", func(in *dynamodb.ScanInput) { in.Select = types.SelectAllProjectedAttributes }},
		{"specific without projection", func(in *dynamodb.ScanInput) { in.Select = types.SelectSpecificAttributes }},
		{"select bogus", func(in *dynamodb.ScanInput) { in.Select = "BOGUS" }},
		{"projection", func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("n, m.x") }},
		{"projection of a missing attribute", func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("q") }},
		{"projection with keys", func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("pk, sk") }},
		{"projection through alias", func(in *dynamodb.ScanInput) {
			in.ProjectionExpression, in.ExpressionAttributeNames = new("#m.x"), names("#m", "m")
		}},
		{"projection malformed", func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("n,") }},
		{"projection overlapping", func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("m, m.x") }},
		{"projection empty", func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("") }},
		{"projection and select", func(in *dynamodb.ScanInput) {
			in.ProjectionExpression, in.Select = new("n"), types.SelectSpecificAttributes
		}},
		{"projection and count", func(in *dynamodb.ScanInput) { in.ProjectionExpression, in.Select = new("n"), types.SelectCount }},
		{"filter", filter("n >= :n", fields{":n": 3})},
		{"filter of all", filter("n >= :n", fields{":n": 30})},
		{"filter on partition key", filter("pk = :p", fields{":p": "p"})},
		{"filter on sort key", filter("begins_with(sk, :s)", fields{":s": "a"})},
		{"filter on missing", filter("attribute_not_exists(s)", nil)},
		{"filter of another type", filter("n >= :n", fields{":n": "3"})},
		{"filter malformed", filter("n >", nil)},
		{"filter empty", filter("", nil)},
		{"filter with an unused value", filter("n >= :n", fields{":n": 3, ":m": 3})},
		{"filter with an undefined value", filter("n >= :n", nil)},
		{"filter with an unused alias", func(in *dynamodb.ScanInput) {
			filter("n >= :n", fields{":n": 3})(in)
			in.ExpressionAttributeNames = names("#n", "n")
		}},
		{"filter and count", func(in *dynamodb.ScanInput) { filter("n >= :n", fields{":n": 3})(in); in.Select = types.SelectCount }},
		{"filter after limit", func(in *dynamodb.ScanInput) { filter("n >= :n", fields{":n": 3})(in); in.Limit = new(int32(3)) }},
		{"filter of all in limit", func(in *dynamodb.ScanInput) { filter("n > :n", fields{":n": 9})(in); in.Limit = new(int32(3)) }},
		{"filter on unprojected", func(in *dynamodb.ScanInput) {
			filter("s = :s", fields{":s": "five"})(in)
			in.ProjectionExpression = new("n")
		}},
		{"values without expression", func(in *dynamodb.ScanInput) { in.ExpressionAttributeValues = fields{":n": 1}.values() }},
		{"names without expression", func(in *dynamodb.ScanInput) { in.ExpressionAttributeNames = names("#n", "n") }},
		{"start", start(fields{"pk": "p", "sk": "abc"})},
		{"start between items", start(fields{"pk": "p", "sk": "abcd"})},
		{"start at the last", start(fields{"pk": "p", "sk": "😀"})},
		{"start before the first", start(fields{"pk": "p", "sk": "\x00"})},
		{"start without sort key", start(fields{"pk": "p"})},
		{"start without partition key", start(fields{"sk": "a"})},
		{"start of wrong type", start(fields{"pk": "p", "sk": 1})},
		{"start with too much", start(fields{"pk": "p", "sk": "a", "n": 1})},
		{"start with an empty string", start(fields{"pk": "p", "sk": ""})},
		{"start empty", start(fields{})},
		{"segment without total", func(in *dynamodb.ScanInput) { in.Segment = new(int32(0)) }},
		{"total without segment", func(in *dynamodb.ScanInput) { in.TotalSegments = new(int32(2)) }},
		{"segment as large as total", func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = new(int32(2)), new(int32(2)) }},
		{"segment beyond total", func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = new(int32(5)), new(int32(2)) }},
		{"segment negative", func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = new(int32(-1)), new(int32(2)) }},
		{"segment too large", func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = new(int32(1000000)), new(int32(1000000)) }},
		{"total of zero", func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = new(int32(0)), new(int32(0)) }},
		{"total negative", func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = new(int32(0)), new(int32(-2)) }},
		{"total of a million", func(in *dynamodb.ScanInput) {
			in.Segment, in.TotalSegments, in.Select = new(int32(0)), new(int32(1000000)), types.SelectCount
			filter("n = :n", fields{":n": "nothing"})(in)
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityNone
			in.TableName = new(hashTable)
		}},
		{"total of more than a million", func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = new(int32(0)), new(int32(1000001)) }},
		{"only segment of one", func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = new(int32(0)), new(int32(1)) }},
		{"missing table", func(in *dynamodb.ScanInput) { in.TableName = new("Nowhere") }},
		{"missing index", func(in *dynamodb.ScanInput) { in.IndexName = new("Nowhere") }},
		{"bad table name", func(in *dynamodb.ScanInput) { in.TableName = new("no/name") }},
		{"bad index name", func(in *dynamodb.ScanInput) { in.IndexName = new("no/name") }},
		{"total bill", func(in *dynamodb.ScanInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal }},
		{"no bill", func(in *dynamodb.ScanInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityNone }},
		{"bogus bill", func(in *dynamodb.ScanInput) { in.ReturnConsumedCapacity = "BOGUS" }},
	} {
		all = append(all, testCase{"scan/" + c.name, items, []any{tweak(scan(rangeTable), c.change)}})
	}
	for _, limit := range []int32{1, 2, 3, 7} {
		all = append(all, testCase{fmt.Sprintf("scan/pages of %d", limit), items, []any{
			pages{tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { in.Limit = &limit })},
			pages{tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { in.Limit, in.Select = &limit, types.SelectCount })},
			pages{tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { filter("n = :n", fields{":n": 4})(in); in.Limit = &limit })},
		}})
	}
	return append(append(append(all, sweepCases()...), scanIndexCases()...), scanPageCases()...)
}

// partitions returns n items of the range table, three to a partition.
func partitions(n int) []stored {
	var all []stored
	for i := range n {
		all = append(all, stored{rangeTable, fields{"pk": fmt.Sprintf("p%d", i/3), "sk": fmt.Sprintf("s%d", i%3), "n": i}})
	}
	return all
}

// sweepCases scan several partitions.
func sweepCases() []testCase {
	items := partitions(31)
	var all []testCase
	for _, limit := range []int32{0, 1, 4, 31, 32} {
		in := scan(rangeTable)
		if limit > 0 {
			in.Limit = &limit
		}
		all = append(all, testCase{fmt.Sprintf("scan/sweep with limit %d", limit), items, []any{sweep{in, 0}}})
	}
	for _, segments := range []int32{1, 2, 3, 7, 50} {
		all = append(all, testCase{fmt.Sprintf("scan/sweep of %d segments", segments), items, []any{
			sweep{scan(rangeTable), segments},
			sweep{tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { in.Limit, in.ConsistentRead = new(int32(3)), new(true) }), segments},
			sweep{tweak(scan(rangeTable), func(in *dynamodb.ScanInput) {
				in.FilterExpression, in.ExpressionAttributeValues = new("n < :n"), fields{":n": 10}.values()
			}), segments},
		}})
	}
	var hashes, numbers, bytes []stored
	for i, k := range numbered(20) {
		hashes = append(hashes, stored{hashTable, k.with(fields{"n": i})})
		numbers = append(numbers, stored{numberTable, k.with(fields{"sk": num(fmt.Sprintf("%de%d", i-10, i*3-30))})})
		bytes = append(bytes, stored{binaryTable, fields{"pk": []byte{byte(i % 5)}, "sk": []byte{byte(i)}}})
	}
	whole := func(where string) []any {
		return []any{
			sweep{scan(where), 0},
			sweep{scan(where), 4},
			sweep{tweak(scan(where), func(in *dynamodb.ScanInput) { in.Limit = new(int32(6)) }), 0},
			sweep{tweak(scan(where), func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("pk") }), 3},
		}
	}
	return append(all,
		testCase{"scan/sweep of nothing", nil, []any{scan(hashTable), scan(rangeTable), scan(indexedTable + "." + allIndex), sweep{scan(rangeTable), 4}}},
		testCase{"scan/sweep without sort keys", hashes, whole(hashTable)},
		testCase{"scan/sweep of numbers", numbers, whole(numberTable)},
		testCase{"scan/sweep of bytes", bytes, whole(binaryTable)},
		testCase{"scan/sweep after writes", hashes, []any{
			remove(hashTable, fields{"pk": "k003"}), put(hashTable, fields{"pk": "k100", "n": 100}), at("k004", update("SET n = :n", fields{":n": 400})),
			sweep{scan(hashTable), 0},
		}},
		testCase{"scan/of one item by its table's kind", append(append(one(fields{"a": 1}), many(numberTable, fields{"pk": "p", "sk": 1})...), many(binaryTable, fields{"pk": []byte("p"), "sk": []byte("s")})...), []any{
			scan(hashTable),
			pages{tweak(scan(hashTable), func(in *dynamodb.ScanInput) { in.Limit = new(int32(1)) })},
			scan(numberTable),
			pages{tweak(scan(numberTable), func(in *dynamodb.ScanInput) { in.Limit = new(int32(1)) })},
			scan(binaryTable),
			pages{tweak(scan(binaryTable), func(in *dynamodb.ScanInput) { in.Limit = new(int32(1)) })},
			tweak(scan(numberTable), func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": num("1.0")}.values() }),
			tweak(scan(numberTable), func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": num("abc")}.values() }),
		}})
}

// scanIndexCases scan the global indexes; lsi_test.go scans local ones.
func scanIndexCases() []testCase {
	items := many(indexedTable,
		fields{"pk": "a", "sk": "1", "gpk": "g", "gsk": 2, "kpk": "k", "x": 1, "w": "w1"},
		fields{"pk": "a", "sk": "2", "gpk": "g", "gsk": 3, "kpk": "k", "x": 2},
		fields{"pk": "b", "sk": "1", "gpk": "g", "gsk": 1, "spk": "s", "ssk": "z", "x": 3, "y": 4, "w": 5},
		fields{"pk": "b", "sk": "2", "gpk": "g", "spk": "s", "ssk": "y"},
		fields{"pk": "c", "sk": "1", "gpk": "g", "gsk": num("-1.5"), "kpk": "k"},
		fields{"pk": "c", "sk": "2", "gpk": "g", "gsk": 20, "kpk": "k2"})
	everything, keysOnly, some := indexedTable+"."+allIndex, indexedTable+"."+keysIndex, indexedTable+"."+someIndex
	index := func(where string, change func(*dynamodb.ScanInput)) any { return tweak(scan(where), change) }
	var all []testCase
	for _, where := range []string{everything, keysOnly, some} {
		_, name, _ := strings.Cut(where, ".")
		own := map[string]string{allIndex: "gpk", keysIndex: "kpk", someIndex: "spk"}[name]
		for _, c := range []struct {
			name     string
			requests []any
		}{
			{"whole", []any{scan(where)}},
			{"sweep", []any{sweep{scan(where), 0}, sweep{scan(where), 3}, sweep{index(where, func(in *dynamodb.ScanInput) { in.Limit = new(int32(2)) }), 0}}},
			{"consistent", []any{index(where, func(in *dynamodb.ScanInput) { in.ConsistentRead = new(true) })}},
			{"count", []any{index(where, func(in *dynamodb.ScanInput) { in.Select = types.SelectCount })}},
			{"all attributes", []any{index(where, func(in *dynamodb.ScanInput) { in.Select = types.SelectAllAttributes })}},
			{"all projected", []any{index(where, func(in *dynamodb.ScanInput) { in.Select = types.SelectAllProjectedAttributes })}},
			{"projection", []any{index(where, func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("pk, sk") })}},
			{"projection of an attribute of some", []any{index(where, func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("x") })}},
			{"projection of an attribute of one", []any{index(where, func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("w") })}},
			{"filter", []any{index(where, func(in *dynamodb.ScanInput) {
				in.FilterExpression, in.ExpressionAttributeValues = new("pk > :a"), fields{":a": "a"}.values()
			})}},
			{"filter on its own key", []any{index(where, func(in *dynamodb.ScanInput) { in.FilterExpression = new("attribute_exists(" + own + ")") })}},
			{"filter on an attribute of one", []any{index(where, func(in *dynamodb.ScanInput) { in.FilterExpression = new("attribute_exists(w)") })}},
			{"total bill", []any{index(where, func(in *dynamodb.ScanInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal })}},
			{"start at the table's key", []any{index(where, func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = fields{"pk": "a", "sk": "1"}.values() })}},
			{"start at the index's key", []any{index(where, func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = fields{own: "g"}.values() })}},
		} {
			all = append(all, testCase{fmt.Sprintf("scan/index %s: %s", name, c.name), items, c.requests})
		}
	}
	return append(all,
		testCase{"scan/index: pages of 2", items, []any{pages{index(everything, func(in *dynamodb.ScanInput) { in.Limit = new(int32(2)) })}}},
		testCase{"scan/index: pages with a filter", items, []any{pages{index(everything, func(in *dynamodb.ScanInput) {
			in.Limit, in.FilterExpression = new(int32(2)), new("attribute_exists(w)")
		})}}},
		testCase{"scan/index: start", items, []any{
			index(everything, func(in *dynamodb.ScanInput) {
				in.ExclusiveStartKey = fields{"gpk": "g", "gsk": 1, "pk": "b", "sk": "1"}.values()
			}),
			index(everything, func(in *dynamodb.ScanInput) {
				in.ExclusiveStartKey = fields{"gpk": "g", "gsk": num("1.5"), "pk": "none", "sk": "none"}.values()
			}),
			index(everything, func(in *dynamodb.ScanInput) {
				in.ExclusiveStartKey = fields{"gpk": "g", "gsk": "1", "pk": "b", "sk": "1"}.values()
			}),
			index(everything, func(in *dynamodb.ScanInput) {
				in.ExclusiveStartKey = fields{"gpk": "g", "gsk": 1, "pk": "b", "sk": "1", "x": 1}.values()
			}),
		}},
		testCase{"scan/index: after an update", items, []any{
			tweak(update("SET gsk = :v REMOVE kpk", fields{":v": 7}), func(in *dynamodb.UpdateItemInput) {
				in.TableName, in.Key = new(indexedTable), fields{"pk": "a", "sk": "1"}.values()
			}),
			scan(everything), scan(keysOnly),
		}})
}

// scanPageCases read large items.
func scanPageCases() []testCase {
	count := func(in *dynamodb.ScanInput) { in.Select = types.SelectCount }
	return []testCase{
		{"scan/page of a megabyte", hundredKilobytes(12), []any{
			tweak(scan(rangeTable), count),
			tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("sk") }),
			tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { count(in); in.Limit = new(int32(11)) }),
			tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { count(in); in.Limit = new(int32(10)) }),
			pages{tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { count(in); in.ConsistentRead = new(true) })},
			tweak(scan(rangeTable), func(in *dynamodb.ScanInput) {
				in.FilterExpression, in.ExpressionAttributeValues = new("v = :x"), fields{":x": "x"}.values()
			}),
			tweak(scan(rangeTable), func(in *dynamodb.ScanInput) {
				count(in)
				in.Segment, in.TotalSegments = new(int32(0)), new(int32(1))
			}),
		}},
		{"scan/bill adds before it rounds", many(rangeTable, fields{"pk": "p", "sk": "1"}, fields{"pk": "q", "sk": "2"}, fields{"pk": "r", "sk": "3", "v": strings.Repeat("v", 4090)}), []any{
			tweak(scan(rangeTable), count),
			tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { count(in); in.ConsistentRead = new(true) }),
		}},
		{"scan/bill of what the index does not hold", many(indexedTable, fields{"pk": "p", "sk": "1", "gpk": "g", "gsk": 1, "kpk": "k", "spk": "s", "ssk": "t", "w": strings.Repeat("w", 9000)}), []any{
			tweak(scan(indexedTable+"."+allIndex), count), tweak(scan(indexedTable+"."+keysIndex), count), tweak(scan(indexedTable+"."+someIndex), count),
			tweak(query(indexedTable+"."+keysIndex, "kpk = :k", fields{":k": "k"}), func(in *dynamodb.QueryInput) { in.Select = types.SelectCount }),
		}},
		{"scan/bill of what the local index does not hold", many(localTable, fields{"pk": "p", "sk": "1", "nsk": 1, "tsk": "t", "w": strings.Repeat("w", 9000)}), []any{
			tweak(scan(localTable+"."+byNumber), count), tweak(scan(localTable+"."+byText), count),
		}},
		{"scan/bill of what the filter drops", many(rangeTable, fields{"pk": "p", "sk": "1", "v": strings.Repeat("v", 9000)}), []any{
			tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { in.FilterExpression = new("attribute_exists(w)") }),
			tweak(scan(rangeTable), func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("sk") }),
		}},
	}
}
