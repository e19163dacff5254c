package differential_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// localCases test local secondary indexes.
func localCases() []testCase {
	all := append(localCreateCases(), localQueryCases()...)
	all = append(all, localScanCases()...)
	all = append(all, localWriteCases()...)
	all = append(all, localBillCases()...)
	return append(all, metricsCases()...)
}

// localItems are in one partition except the last; no two of them have equal keys in an index.
func localItems() []stored {
	return many(localTable,
		fields{"pk": "p", "sk": "a", "nsk": 3, "tsk": "t3", "ssk": "s1", "x": 1, "y": fields{"z": 1}, "w": "w1", "gpk": "g"},
		fields{"pk": "p", "sk": "b", "nsk": 1, "tsk": "t1", "ssk": "s2", "w": "w2", "gpk": "g"},
		fields{"pk": "p", "sk": "c", "nsk": num("-2.5"), "tsk": "t2", "x": 3},
		fields{"pk": "p", "sk": "d", "nsk": 10, "x": 4, "gpk": "g"},
		fields{"pk": "p", "sk": "e", "tsk": "u", "ssk": "s3", "y": "y5"},
		fields{"pk": "p", "sk": "f", "w": "w6"},
		fields{"pk": "q", "sk": "a", "nsk": 2, "tsk": "t1", "ssk": "s1", "w": "w7"})
}

func localCreateCases() []testCase {
	all, keysOnly, include := types.ProjectionTypeAll, types.ProjectionTypeKeysOnly, types.ProjectionTypeInclude
	made := func(name string, in *dynamodb.CreateTableInput) testCase {
		return testCase{"local/create " + name, nil, []any{in, &dynamodb.DescribeTableInput{TableName: new("Made")}}}
	}
	ranged := func(indexes ...indexSpec) *dynamodb.CreateTableInput {
		return local(table("Made", "pk:S sk:S"), indexes...)
	}
	numberedIndexes := func(n int) []indexSpec {
		var specs []indexSpec
		for i := range n {
			specs = append(specs, index(fmt.Sprintf("Index%d", i), keysOnly, fmt.Sprintf("pk:S k%d:N", i)))
		}
		return specs
	}
	var names []string
	for i := range 101 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return []testCase{
		made("of each projection", ranged(index("One", all, "pk:S a:N"), index("Two", keysOnly, "pk:S b:B"), index("Three", include, "pk:S c:S", "x", "y"))),
		made("with five", ranged(numberedIndexes(5)...)),
		made("with six", ranged(numberedIndexes(6)...)),
		made("on a table without a sort key", local(table("Made", "pk:S"), index("One", all, "pk:S a:N"))),
		made("with another partition key", ranged(index("One", all, "a:S sk:S"))),
		made("without a sort key", ranged(index("One", all, "pk:S"))),
		made("on the table's own keys", ranged(index("One", all, "pk:S sk:S"))),
		made("with the partition key in both roles", ranged(index("One", all, "pk:S "+"pk:S"))),
		made("with two of one name", ranged(index("One", all, "pk:S a:S"), index("One", all, "pk:S b:S"))),
		made("with two on one attribute", ranged(index("One", all, "pk:S a:S"), index("Two", keysOnly, "pk:S a:S"))),
		made("beside a global one", local(table("Made", "pk:S sk:S", index("Two", all, "a:S")), index("One", all, "pk:S a:S"))),
		made("beside a global one of its name", local(table("Made", "pk:S sk:S", index("One", all, "a:S")), index("One", all, "pk:S b:S"))),
		made("of a bad name", ranged(index("On", all, "pk:S a:S"))),
		made("of no definition", tweak(ranged(index("One", all, "pk:S a:S")), func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = in.AttributeDefinitions[:2]
		})),
		made("with an unused definition", tweak(ranged(index("One", all, "pk:S a:S")), func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: new("q"), AttributeType: "S"})
		})),
		made("with an empty list", tweak(ranged(), func(in *dynamodb.CreateTableInput) { in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{} })),
		made("of a bogus projection", ranged(index("One", "BOGUS", "pk:S a:S"))),
		made("without a projection", tweak(ranged(index("One", all, "pk:S a:S")), func(in *dynamodb.CreateTableInput) {
			in.LocalSecondaryIndexes[0].Projection = &types.Projection{}
		})),
		made("that includes nothing", ranged(index("One", include, "pk:S a:S"))),
		made("that includes an attribute twice", ranged(index("One", include, "pk:S a:S", "x", "x"))),
		made("that includes a key", ranged(index("One", include, "pk:S a:S", "sk"))),
		made("that names attributes on ALL", ranged(index("One", all, "pk:S a:S", "x"))),
		made("that names attributes on KEYS_ONLY", ranged(index("One", keysOnly, "pk:S a:S", "x"))),
		made("that includes 101", ranged(index("One", include, "pk:S a:S", names...))),
		made("that include 101 with a global one", local(table("Made", "pk:S sk:S", index("Two", include, "a:S", names[:50]...)), index("One", include, "pk:S a:S", names[50:]...))),
		made("provisioned", tweak(ranged(index("One", all, "pk:S a:S")), provision(3, 4))),
	}
}

// provision makes a table provisioned.
func provision(read, write int64) func(*dynamodb.CreateTableInput) {
	return func(in *dynamodb.CreateTableInput) {
		in.BillingMode = types.BillingModeProvisioned
		in.ProvisionedThroughput = throughput(read, write)
	}
}

func throughput(read, write int64) *types.ProvisionedThroughput {
	return &types.ProvisionedThroughput{ReadCapacityUnits: &read, WriteCapacityUnits: &write}
}

func localQueryCases() []testCase {
	var all []testCase
	for _, c := range []struct {
		name, index, where string
		values             fields
		change             func(*dynamodb.QueryInput)
	}{
		{"partition", byNumber, "", nil, nil},
		{"partition of the keys", byText, "", nil, nil},
		{"partition of some", bySome, "", nil, nil},
		{"backwards", byNumber, "", nil, func(in *dynamodb.QueryInput) { in.ScanIndexForward = new(false) }},
		{"equals", byNumber, "nsk = :a", fields{":a": num("1.0")}, nil},
		{"less", byNumber, "nsk < :a", fields{":a": 3}, nil},
		{"less or equal", byNumber, "nsk <= :a", fields{":a": 3}, nil},
		{"greater", byNumber, "nsk > :a", fields{":a": 1}, nil},
		{"greater or equal", byNumber, "nsk >= :a", fields{":a": 1}, nil},
		{"between", byNumber, "nsk BETWEEN :a AND :b", fields{":a": -2, ":b": 3}, nil},
		{"begins_with", byText, "begins_with(tsk, :a)", fields{":a": "t"}, nil},
		{"begins_with a number", byNumber, "begins_with(nsk, :a)", fields{":a": 1}, nil},
		{"wrong type", byNumber, "nsk = :a", fields{":a": "1"}, nil},
		{"the table's sort key", byNumber, "sk = :a", fields{":a": "a"}, nil},
		{"another index's sort key", byNumber, "tsk = :a", fields{":a": "t1"}, nil},
		{"both sort keys", byNumber, "nsk = :a AND sk = :b", fields{":a": 3, ":b": "a"}, nil},
		{"consistent", byNumber, "", nil, func(in *dynamodb.QueryInput) { in.ConsistentRead = new(true) }},
		{"consistent of the keys", byText, "", nil, func(in *dynamodb.QueryInput) { in.ConsistentRead = new(true) }},
		{"count", byText, "", nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectCount }},
		{"count with limit", byText, "", nil, func(in *dynamodb.QueryInput) { in.Select, in.Limit = types.SelectCount, new(int32(2)) }},
		{"all attributes of all", byNumber, "", nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes }},
		{"all attributes of the keys", byText, "", nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes }},
		{"all attributes of some", bySome, "", nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes }},
		{"all attributes, consistent", byText, "", nil, func(in *dynamodb.QueryInput) {
			in.Select, in.ConsistentRead = types.SelectAllAttributes, new(true)
		}},
		{"all attributes of few", byText, "tsk = :a", fields{":a": "t1"}, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes }},
		{"all attributes of none", byText, "tsk = :a", fields{":a": "no"}, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes }},
		{"all attributes with limit", byText, "", nil, func(in *dynamodb.QueryInput) {
			in.Select, in.Limit = types.SelectAllAttributes, new(int32(2))
		}},
		{"all projected of the keys", byText, "", nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllProjectedAttributes }},
		{"all projected of some", bySome, "", nil, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllProjectedAttributes }},
		{"projection of keys", byText, "", nil, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("sk, tsk") }},
		{"projection of a projected attribute", bySome, "", nil, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("sk, x") }},
		{"projection within a projected attribute", bySome, "", nil, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("sk, y.z") }},
		{"projection of an unprojected attribute", bySome, "", nil, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("sk, w") }},
		{"projection of an attribute that none has", byText, "", nil, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("nothing") }},
		{"projection of another index's key", byText, "", nil, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("sk, nsk") }},
		{"filter on a projected attribute", bySome, "", fields{":f": 1}, func(in *dynamodb.QueryInput) { in.FilterExpression = new("x = :f") }},
		{"filter on an unprojected attribute", byText, "", nil, func(in *dynamodb.QueryInput) { in.FilterExpression = new("attribute_exists(w)") }},
		{"filter on an unprojected attribute, which is returned", byText, "", nil, func(in *dynamodb.QueryInput) {
			in.FilterExpression, in.ProjectionExpression = new("attribute_exists(w)"), new("sk, w")
		}},
		{"filter on a projected attribute, an unprojected one is returned", bySome, "", fields{":f": 1}, func(in *dynamodb.QueryInput) {
			in.FilterExpression, in.ProjectionExpression = new("x = :f"), new("sk, w")
		}},
		{"filter on its own sort key", byNumber, "", fields{":f": 1}, func(in *dynamodb.QueryInput) { in.FilterExpression = new("nsk > :f") }},
		{"filter on the table's sort key", byNumber, "", fields{":f": "b"}, func(in *dynamodb.QueryInput) { in.FilterExpression = new("sk > :f") }},
		{"filter on the partition key", byNumber, "", nil, func(in *dynamodb.QueryInput) { in.FilterExpression = new("pk = :p") }},
		{"start", byNumber, "", nil, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": "b", "nsk": 1}.values() }},
		{"start between items", byNumber, "", nil, func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = fields{"pk": "p", "sk": "none", "nsk": 2}.values()
		}},
		{"start backwards", byNumber, "", nil, func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey, in.ScanIndexForward = fields{"pk": "p", "sk": "b", "nsk": 1}.values(), new(false)
		}},
		{"start without the index's key", byNumber, "", nil, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": "b"}.values() }},
		{"start without the table's sort key", byNumber, "", nil, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = fields{"pk": "p", "nsk": 1}.values() }},
		{"start in another partition", byNumber, "", nil, func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = fields{"pk": "q", "sk": "b", "nsk": 1}.values()
		}},
		{"start of wrong type", byNumber, "", nil, func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = fields{"pk": "p", "sk": "b", "nsk": "1"}.values()
		}},
		{"start with too much", byNumber, "", nil, func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = fields{"pk": "p", "sk": "b", "nsk": 1, "x": 1}.values()
		}},
		{"total bill", byText, "", nil, func(in *dynamodb.QueryInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal }},
		{"total bill of all attributes", byText, "", nil, func(in *dynamodb.QueryInput) {
			in.Select, in.ReturnConsumedCapacity = types.SelectAllAttributes, types.ReturnConsumedCapacityTotal
		}},
		{"no bill", byText, "", nil, func(in *dynamodb.QueryInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityNone }},
		{"of nothing", byText, "tsk = :a", fields{":a": "no"}, nil},
	} {
		where := "pk = :p"
		if c.where != "" {
			where += " AND " + c.where
		}
		request := query(localTable+"."+c.index, where, fields{":p": "p"}.with(c.values))
		if c.change != nil {
			c.change(request)
		}
		all = append(all, testCase{"local/query " + c.name, localItems(), []any{request}})
	}
	return append(all, localPageCases()...)
}

func localPageCases() []testCase {
	by := func(index string) *dynamodb.QueryInput {
		return query(localTable+"."+index, "pk = :p", fields{":p": "p"})
	}
	var all []testCase
	for _, limit := range []int32{1, 2, 4} {
		for _, forward := range []bool{true, false} {
			paged := func(in *dynamodb.QueryInput) { in.Limit, in.ScanIndexForward = &limit, &forward }
			all = append(all, testCase{fmt.Sprintf("local/pages of %d, forward %v", limit, forward), localItems(), []any{
				pages{tweak(by(byNumber), paged)},
				pages{tweak(by(byText), paged)},
				pages{tweak(by(bySome), func(in *dynamodb.QueryInput) { paged(in); in.Select = types.SelectAllAttributes })},
				pages{tweak(by(byNumber), func(in *dynamodb.QueryInput) {
					paged(in)
					in.FilterExpression = new("contains(w, :p) OR attribute_exists(x)")
				})},
			}})
		}
	}
	var ties, large []stored
	for i := range 9 {
		ties = append(ties, stored{localTable, fields{"pk": "p", "sk": strconv.Itoa(i), "nsk": i / 4, "tsk": "t", "w": i}})
	}
	for i := range 12 {
		large = append(large, stored{localTable, fields{"pk": "p", "sk": fmt.Sprintf("%02d", i), "nsk": -i, "tsk": fmt.Sprintf("%02d", i), "v": strings.Repeat("v", 100*1024)}})
	}
	count := func(in *dynamodb.QueryInput) { in.Select = types.SelectCount }
	return append(all,
		testCase{"local/ties", ties, []any{by(byNumber), by(byText), by(bySome)}},
		testCase{"local/pages with ties", ties, []any{
			sweep{tweak(by(byNumber), func(in *dynamodb.QueryInput) { in.Limit = new(int32(2)) }), 0},
			sweep{tweak(by(byNumber), func(in *dynamodb.QueryInput) { in.Limit, in.ScanIndexForward = new(int32(2)), new(false) }), 0},
			sweep{tweak(by(byText), func(in *dynamodb.QueryInput) { in.Limit, in.Select = new(int32(2)), types.SelectAllAttributes }), 0},
			sweep{tweak(query(localTable+"."+byNumber, "pk = :p AND nsk = :n", fields{":p": "p", ":n": 1}), func(in *dynamodb.QueryInput) { in.Limit = new(int32(3)) }), 0},
			sweep{tweak(scan(localTable+"."+byNumber), func(in *dynamodb.ScanInput) { in.Limit = new(int32(2)) }), 0},
		}},
		testCase{"local/page of a megabyte", large, []any{pages{tweak(by(byNumber), count)}}},
		testCase{"local/page of a megabyte with a filter", large, []any{pages{tweak(by(byNumber), func(in *dynamodb.QueryInput) { in.FilterExpression = new("attribute_exists(w) AND w = :p") })}}},
		testCase{"local/page of a megabyte of which the index holds little", large, []any{pages{tweak(by(byText), count)}}},
		testCase{"local/page of a megabyte of which the index holds what is wanted", large, []any{
			pages{tweak(by(byText), func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("sk") })},
		}},
		testCase{"local/page of a megabyte of fetched attributes", large, []any{
			tweak(by(byText), func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("sk, v") }),
		}})
}

func localScanCases() []testCase {
	var items []stored // of one partition, whose order is the same on every engine
	for _, s := range localItems() {
		if s.item["pk"] == "p" {
			items = append(items, s)
		}
	}
	index := func(name string, change func(*dynamodb.ScanInput)) any {
		return tweak(scan(localTable+"."+name), change)
	}
	var all []testCase
	for _, name := range []string{byNumber, byText, bySome} {
		for _, c := range []struct {
			name    string
			request any
		}{
			{"whole", scan(localTable + "." + name)},
			{"consistent", index(name, func(in *dynamodb.ScanInput) { in.ConsistentRead = new(true) })},
			{"count", index(name, func(in *dynamodb.ScanInput) { in.Select = types.SelectCount })},
			{"all attributes", index(name, func(in *dynamodb.ScanInput) { in.Select = types.SelectAllAttributes })},
			{"all projected", index(name, func(in *dynamodb.ScanInput) { in.Select = types.SelectAllProjectedAttributes })},
			{"projection of an unprojected attribute", index(name, func(in *dynamodb.ScanInput) { in.ProjectionExpression = new("sk, w") })},
			{"filter on an unprojected attribute", index(name, func(in *dynamodb.ScanInput) { in.FilterExpression = new("attribute_exists(w)") })},
			{"filter on keys", index(name, func(in *dynamodb.ScanInput) {
				in.FilterExpression = new("attribute_exists(pk) AND attribute_exists(tsk)")
			})},
			{"pages of 2", pages{index(name, func(in *dynamodb.ScanInput) { in.Limit = new(int32(2)) })}},
			{"segments", sweep{scan(localTable + "." + name), 3}},
			{"start at the table's key", index(name, func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": "a"}.values() })},
		} {
			all = append(all, testCase{fmt.Sprintf("local/scan %s: %s", name, c.name), items, []any{c.request}})
		}
	}
	return append(all,
		testCase{"local/scan of two partitions", localItems(), []any{scan(localTable + "." + byNumber), sweep{scan(localTable + "." + byText), 2}, scan(localTable + "." + besideIndex)}},
		testCase{"local/scan from a start", items, []any{
			index(byNumber, func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": "b", "nsk": 1}.values() }),
			index(byNumber, func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = fields{"pk": "p", "sk": "b", "nsk": "1"}.values() }),
			index(byNumber, func(in *dynamodb.ScanInput) {
				in.ExclusiveStartKey = fields{"pk": "p", "sk": "b", "nsk": 1, "x": 1}.values()
			}),
		}})
}

// localWriteCases check the effect of writes on the indexes, and try bad keys.
func localWriteCases() []testCase {
	set := func(sk, expression string, values fields) any {
		return tweak(update(expression, values), func(in *dynamodb.UpdateItemInput) {
			in.TableName, in.Key = new(localTable), fields{"pk": "p", "sk": sk}.values()
		})
	}
	look := func(requests ...any) []any {
		for _, name := range []string{byNumber, byText, bySome} {
			requests = append(requests, query(localTable+"."+name, "pk = :p", fields{":p": "p"}))
		}
		return append(requests, query(localTable+"."+besideIndex, "gpk = :g", fields{":g": "g"}))
	}
	place := fields{"pk": "p", "sk": "a"}
	var all []testCase
	for _, c := range []struct {
		name     string
		requests []any
	}{
		{"put replaces entries", look(put(localTable, place.with(fields{"nsk": 99, "tsk": "z", "ssk": "z"})))},
		{"put drops entries", look(put(localTable, place))},
		{"delete drops entries", look(remove(localTable, place))},
		{"update of a plain attribute", look(set("a", "SET w = :v", fields{":v": "other"}))},
		{"update of an included attribute", look(set("a", "SET x = :v", fields{":v": "other"}))},
		{"update of index keys", look(set("a", "SET nsk = :n, tsk = :t", fields{":n": 7, ":t": "t9"}))},
		{"update by add", look(set("a", "ADD nsk :n", fields{":n": num("-20.5")}))},
		{"update into indexes", look(set("f", "SET nsk = :n, tsk = :t, ssk = :t", fields{":n": 7, ":t": "t9"}))},
		{"update out of indexes", look(set("a", "REMOVE nsk, tsk, ssk", nil))},
		{"upsert", look(set("new", "SET nsk = :n", fields{":n": 7}))},
		{"put of a wrong type", []any{put(localTable, place.with(fields{"nsk": "text"})), put(localTable, place.with(fields{"tsk": 1})), put(localTable, place.with(fields{"tsk": nil}))}},
		{"put of an empty key", []any{put(localTable, place.with(fields{"tsk": ""}))}},
		{"put of a long key", []any{put(localTable, place.with(fields{"tsk": strings.Repeat("t", 1024)})), put(localTable, place.with(fields{"tsk": strings.Repeat("t", 1025)}))}},
		{"update to a wrong type", []any{set("a", "SET nsk = :v", fields{":v": "text"}), set("a", "SET tsk = :v", fields{":v": 1})}},
		{"update to an empty key", []any{set("a", "SET tsk = :v", fields{":v": ""})}},
		{"update to a long key", []any{tweak(set("a", "SET tsk = :v", fields{":v": strings.Repeat("t", 1025)}).(*dynamodb.UpdateItemInput), func(in *dynamodb.UpdateItemInput) { in.ReturnValues = "" })}},
		{"update inside an index key", []any{set("a", "SET nsk.x = :v", fields{":v": 1})}},
		{"batch of a wrong type", []any{batchWrite(localTable, batchPut(place.with(fields{"nsk": "text"})))}},
		{"transaction of a wrong type", []any{transact(transactOne(put(localTable, place.with(fields{"nsk": "text"}))), transactOne(put(localTable, place.with(fields{"sk": "z"}))))}},
		{"batch", look(batchWrite(localTable, batchPut(place.with(fields{"nsk": 50})), batchDelete(fields{"pk": "p", "sk": "b"}), batchPut(fields{"pk": "p", "sk": "z", "tsk": "zz"})))},
		{"transaction", look(transact(
			transactOne(put(localTable, place.with(fields{"nsk": 50}))), transactOne(remove(localTable, fields{"pk": "p", "sk": "b"})), transactOne(set("f", "SET tsk = :v", fields{":v": "zz"}))))},
		{"canceled transaction", look(transact(
			transactOne(put(localTable, place.with(fields{"nsk": 50}))),
			transactOne(under("attribute_not_exists(pk)", set("f", "SET tsk = :v", fields{":v": "zz"}).(*dynamodb.UpdateItemInput)))))},
	} {
		all = append(all, testCase{"local/" + c.name, localItems(), c.requests})
	}
	return all
}

// localBillCases check the cost of writes in local indexes, and of reads that fetch from the
// table.
func localBillCases() []testCase {
	place := fields{"pk": "a", "sk": "1"}
	whole := place.with(fields{"nsk": 1, "tsk": "t", "ssk": "s", "x": 1, "w": 1, "gpk": "g"})
	set := func(expression string, values fields) *dynamodb.UpdateItemInput {
		return tweak(update(expression, values), func(in *dynamodb.UpdateItemInput) {
			in.TableName, in.Key, in.ReturnValues = new(localTable), place.values(), types.ReturnValueNone
		})
	}
	by := func(index string, change func(*dynamodb.QueryInput)) any {
		return tweak(query(localTable+"."+index, "pk = :p", fields{":p": "a"}), change)
	}
	var all []testCase
	for _, c := range []struct {
		name     string
		requests []any
	}{
		{"put of the same", []any{put(localTable, whole)}},
		{"put of other plain attribute", []any{put(localTable, whole.with(fields{"w": 2}))}},
		{"put of other included attribute", []any{put(localTable, whole.with(fields{"x": 2}))}},
		{"put of other index keys", []any{put(localTable, whole.with(fields{"nsk": 2, "tsk": "tt"}))}},
		{"put out of all indexes", []any{put(localTable, place), put(localTable, place)}},
		{"put into all indexes", []any{remove(localTable, place), put(localTable, whole)}},
		{"delete", []any{remove(localTable, place), remove(localTable, place)}},
		{"update of nothing", []any{set("", nil)}},
		{"update to the same", []any{set("SET w = :v, x = :v", fields{":v": 1})}},
		{"update of a plain attribute", []any{set("SET w = :v", fields{":v": 2})}},
		{"update of an included attribute", []any{set("SET x = :v", fields{":v": 2})}},
		{"update of a sort key", []any{set("SET tsk = :v", fields{":v": "u"})}},
		{"update of the shared sort key", []any{set("SET nsk = :v", fields{":v": 2})}},
		{"update out of an index", []any{set("REMOVE tsk", nil)}},
		{"update into an index", []any{set("REMOVE tsk", nil), set("SET tsk = :v", fields{":v": "t"})}},
		{"update of a large plain attribute", []any{set("SET w = :v", fields{":v": strings.Repeat("w", 3000)}), set("SET w = :v", fields{":v": 1})}},
		{"update of a large included attribute", []any{set("SET x = :v", fields{":v": strings.Repeat("x", 3000)}), set("SET ssk = :v", fields{":v": "ss"})}},
		{"update of one key and removal of the other", []any{set("REMOVE nsk", nil), set("SET nsk = :v REMOVE gpk", fields{":v": 1})}},
		{"refused update", []any{tweak(set("SET x = :v", fields{":v": 2}), func(in *dynamodb.UpdateItemInput) { in.ConditionExpression = new("attribute_not_exists(pk)") })}},
		{"total", []any{tweak(set("SET nsk = :v", fields{":v": 2}), func(in *dynamodb.UpdateItemInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal })}},
		{"batch", []any{batchWrite(localTable, batchPut(whole.with(fields{"nsk": 2})), batchPut(whole.with(fields{"sk": "2"})))}},
		{"transaction", []any{tweak(transact(transactOne(put(localTable, whole.with(fields{"nsk": 2}))), transactOne(put(localTable, whole.with(fields{"sk": "2"})))), func(in *dynamodb.TransactWriteItemsInput) {
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
		})}},
		{"queries", []any{by(byNumber, func(*dynamodb.QueryInput) {}), by(byText, func(*dynamodb.QueryInput) {}), by(bySome, func(*dynamodb.QueryInput) {})}},
	} {
		all = append(all, testCase{"local/bill: " + c.name, many(localTable, whole), c.requests})
	}
	for _, size := range []int{900, 924, 925, 1024} { // of the entry in BySome
		item := place.with(fields{"tsk": "t", "ssk": "s"})
		item["x"] = strings.Repeat("x", size-len("pka"+"sk1"+"ssks"+"x"))
		all = append(all, testCase{fmt.Sprintf("local/bill: an entry of %d bytes", size), nil, []any{put(localTable, item)}})
	}
	for _, size := range []int{100, 4000, 5000, 9000} {
		var items []stored
		for i := range 5 {
			items = append(items, stored{localTable, fields{"pk": "a", "sk": strconv.Itoa(i), "tsk": strconv.Itoa(i), "nsk": i, "ssk": strconv.Itoa(i), "x": 1, "w": strings.Repeat("w", size)}})
		}
		all = append(all, testCase{fmt.Sprintf("local/bill: fetching five of %d bytes", size), items, []any{
			by(byText, func(*dynamodb.QueryInput) {}),
			by(byText, func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes }),
			by(byText, func(in *dynamodb.QueryInput) { in.Select, in.ConsistentRead = types.SelectAllAttributes, new(true) }),
			by(byText, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("x") }),
			by(bySome, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("x") }),
			by(byNumber, func(in *dynamodb.QueryInput) { in.ProjectionExpression = new("w2") }),
			by(byText, func(in *dynamodb.QueryInput) { in.ProjectionExpression, in.Limit = new("x"), new(int32(2)) }),
			by(byText, func(in *dynamodb.QueryInput) {
				in.FilterExpression, in.ProjectionExpression = new("sk > :p"), new("x") // no item passes
			}),
		}})
	}
	return all
}

// metricsCases request the metrics of item collections, which only tables with local indexes
// have.
func metricsCases() []testCase {
	place := fields{"pk": "p", "sk": "a"}
	size := types.ReturnItemCollectionMetricsSize
	putOf := func(table string, metrics types.ReturnItemCollectionMetrics) any {
		return tweak(put(table, place.with(fields{"nsk": 1})), func(in *dynamodb.PutItemInput) { in.ReturnItemCollectionMetrics = metrics })
	}
	return []testCase{
		{"local/metrics of a put", localItems(), []any{putOf(localTable, size), putOf(localTable, types.ReturnItemCollectionMetricsNone), putOf(localTable, "BOGUS")}},
		{"local/metrics of a put to no index", nil, []any{tweak(put(localTable, place), func(in *dynamodb.PutItemInput) { in.ReturnItemCollectionMetrics = size })}},
		{"local/metrics of a put without local indexes", nil, []any{putOf(rangeTable, size), putOf(indexedTable, size)}},
		{"local/metrics of an update", localItems(), []any{tweak(update("SET nsk = :v", fields{":v": 5}), func(in *dynamodb.UpdateItemInput) {
			in.TableName, in.Key, in.ReturnItemCollectionMetrics = new(localTable), place.values(), size
		}), tweak(update("", nil), func(in *dynamodb.UpdateItemInput) {
			in.TableName, in.Key, in.ReturnItemCollectionMetrics = new(localTable), place.values(), size
		})}},
		{"local/metrics of a refused update", localItems(), []any{tweak(check("attribute_not_exists(pk)", nil), func(in *dynamodb.UpdateItemInput) {
			in.TableName, in.Key, in.ReturnItemCollectionMetrics = new(localTable), place.values(), size
		})}},
		{"local/metrics of a delete", localItems(), []any{
			tweak(remove(localTable, place), func(in *dynamodb.DeleteItemInput) { in.ReturnItemCollectionMetrics = size }),
		}},
		{"local/metrics of a batch", localItems(), []any{
			tweak(batchWrite(localTable, batchPut(place), batchDelete(fields{"pk": "q", "sk": "a"}), batchPut(fields{"pk": "p", "sk": "z"})), func(in *dynamodb.BatchWriteItemInput) {
				in.ReturnItemCollectionMetrics = size
			}),
			tweak(batchWrite(rangeTable, batchPut(place)), func(in *dynamodb.BatchWriteItemInput) { in.ReturnItemCollectionMetrics = size }),
		}},
		{"local/metrics of a transaction", localItems(), []any{
			tweak(transact(transactOne(put(localTable, place)), transactOne(remove(localTable, fields{"pk": "q", "sk": "a"})), transactOne(put(rangeTable, place))), func(in *dynamodb.TransactWriteItemsInput) {
				in.ReturnItemCollectionMetrics = size
			}),
		}},
	}
}
