package differential_test

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// itemCases test which items are valid: keys, types, numbers and limits.
func itemCases() []testCase {
	var all []testCase
	for _, c := range []struct {
		name  string
		table string
		item  fields
	}{
		{"all types", hashTable, key.with(fields{
			"s": "x", "n": num("-1.50"), "b": []byte{0, 1, 255}, "t": true, "z": nil, "l": []any{1, []any{}, fields{}},
			"m": fields{"a": fields{"b": nil}}, "ss": strs{"b", "a", ""}, "ns": nums{"2", "1.0"}, "bs": bins{"b", ""}, "e": "", "eb": []byte{},
		})},
		{"no attributes but the key", hashTable, key},
		{"no key", hashTable, fields{"a": 1}},
		{"empty", hashTable, fields{}},
		{"key of wrong type", hashTable, fields{"pk": 1}},
		{"key null", hashTable, fields{"pk": nil}},
		{"key list", hashTable, fields{"pk": []any{}}},
		{"key empty", hashTable, fields{"pk": ""}},
		{"key of 2048 bytes", hashTable, fields{"pk": strings.Repeat("k", 2048)}},
		{"key of 2049 bytes", hashTable, fields{"pk": strings.Repeat("k", 2049)}},
		{"key of 2048 bytes in 1024 letters", hashTable, fields{"pk": strings.Repeat("é", 1024)}},
		{"no sort key", rangeTable, key},
		{"sort key of wrong type", rangeTable, key.with(fields{"sk": 1})},
		{"sort key empty", rangeTable, key.with(fields{"sk": ""})},
		{"sort key of 1024 bytes", rangeTable, key.with(fields{"sk": strings.Repeat("k", 1024)})},
		{"sort key of 1025 bytes", rangeTable, key.with(fields{"sk": strings.Repeat("k", 1025)})},
		{"number sort key normalised", numberTable, key.with(fields{"sk": num("007.500")})},
		{"number sort key negative zero", numberTable, key.with(fields{"sk": num("-0.0")})},
		{"number sort key of 39 digits", numberTable, key.with(fields{"sk": num(strings.Repeat("1", 39))})},
		{"binary key", binaryTable, fields{"pk": []byte{0}, "sk": []byte{255, 0}}},
		{"binary key empty", binaryTable, fields{"pk": []byte{}, "sk": []byte{1}}},
		{"binary sort key empty", binaryTable, fields{"pk": []byte{1}, "sk": []byte{}}},
		{"string for binary key", binaryTable, fields{"pk": "k", "sk": []byte{1}}},
		{"empty attribute name", hashTable, key.with(fields{"": 1})},
		{"empty name in map", hashTable, key.with(fields{"m": fields{"": 1}})},
		{"odd attribute names", hashTable, key.with(fields{"a.b": 1, "l[0]": 2, "#a": 3, ":v": 4, " ": 5, "é": 6})},
		{"name of 65535 bytes", hashTable, key.with(fields{strings.Repeat("n", 65535): 1})},
		{"empty string set", hashTable, key.with(fields{"s": strs{}})},
		{"empty number set", hashTable, key.with(fields{"s": nums{}})},
		{"empty set in list", hashTable, key.with(fields{"l": []any{strs{}}})},
		{"duplicate in string set", hashTable, key.with(fields{"s": strs{"a", "b", "a"}})},
		{"duplicate in number set", hashTable, key.with(fields{"s": nums{"1", "1.0"}})},
		{"duplicate in number set by exponent", hashTable, key.with(fields{"s": nums{"100", "1e2"}})},
		{"duplicate in binary set", hashTable, key.with(fields{"s": bins{"a", "a"}})},
		{"duplicate in nested set", hashTable, key.with(fields{"m": fields{"s": nums{"1", "1.0"}}})},
		{"null false", hashTable, key.with(fields{"z": &types.AttributeValueMemberNULL{Value: false}})},
		{"nesting of 32", hashTable, key.with(fields{"d": deep(31)})},
		{"nesting of 33", hashTable, key.with(fields{"d": deep(32)})},
		{"nesting of 34", hashTable, key.with(fields{"d": deep(33)})},
		{"nesting of maps", hashTable, key.with(fields{"d": deepMap(31)})},
		{"nesting of too many maps", hashTable, key.with(fields{"d": deepMap(33)})},
		{"missing table", "Nowhere", key},
		{"table name too short", "ab", key},
		{"table name of odd letters", "no/table", key},
		{"table name empty", "", key},
		{"index key of wrong type", indexedTable, key.with(fields{"sk": "s", "gpk": 1, "gsk": 1})},
		{"index sort key of wrong type", indexedTable, key.with(fields{"sk": "s", "gpk": "g", "gsk": "1"})},
		{"index sort key of wrong type without partition key", indexedTable, key.with(fields{"sk": "s", "gsk": "1"})},
		{"index key empty", indexedTable, key.with(fields{"sk": "s", "gpk": "", "gsk": 1})},
		{"index key null", indexedTable, key.with(fields{"sk": "s", "kpk": nil})},
		{"index key too long", indexedTable, key.with(fields{"sk": "s", "kpk": strings.Repeat("k", 2049)})},
		{"index sort key too long", indexedTable, key.with(fields{"sk": "s", "spk": "p", "ssk": strings.Repeat("k", 1025)})},
		{"index keys in part", indexedTable, key.with(fields{"sk": "s", "gpk": "g"})},
	} {
		all = append(all, testCase{name: "item/put " + c.name, requests: []any{put(c.table, c.item)}})
	}
	all = append(all, keyCases()...)
	all = append(all, numberCases()...)
	all = append(all, replaceCases()...)
	return append(all, projectionCases()...)
}

// deep nests a number in n lists, deepMap in n maps.
func deep(n int) any {
	var v any = 1
	for range n {
		v = []any{v}
	}
	return v
}

func deepMap(n int) any {
	var v any = 1
	for range n {
		v = fields{"m": v}
	}
	return v
}

// keyCases give the same bad keys to every operation that takes a key.
func keyCases() []testCase {
	var all []testCase
	for _, c := range []struct {
		name  string
		table string
		key   fields
	}{
		{"right", rangeTable, fields{"pk": "k", "sk": "s"}},
		{"without sort key", rangeTable, fields{"pk": "k"}},
		{"without partition key", rangeTable, fields{"sk": "s"}},
		{"with too much", hashTable, fields{"pk": "k", "a": 1}},
		{"of another attribute", hashTable, fields{"a": "k"}},
		{"empty map", hashTable, fields{}},
		{"of wrong type", hashTable, fields{"pk": 1}},
		{"of wrong sort key type", rangeTable, fields{"pk": "k", "sk": 1}},
		{"empty string", hashTable, fields{"pk": ""}},
		{"empty sort key", rangeTable, fields{"pk": "k", "sk": ""}},
		{"too long", hashTable, fields{"pk": strings.Repeat("k", 2049)}},
		{"sort key too long", rangeTable, fields{"pk": "k", "sk": strings.Repeat("k", 1025)}},
		{"in a missing table", "Nowhere", fields{"pk": "k"}},
		{"number not normalised", numberTable, fields{"pk": "k", "sk": num("1.50e1")}},
		{"number malformed", numberTable, fields{"pk": "k", "sk": num("abc")}},
		{"binary", binaryTable, fields{"pk": []byte("k"), "sk": []byte{0}}},
	} {
		all = append(all, testCase{
			name:  "item/key " + c.name,
			setup: []stored{{rangeTable, fields{"pk": "k", "sk": "s", "a": 1}}, {numberTable, fields{"pk": "k", "sk": 15}}},
			requests: []any{
				get(c.table, c.key),
				tweak(update("SET a = :v", fields{":v": 2}), func(in *dynamodb.UpdateItemInput) {
					in.TableName, in.Key = &c.table, c.key.values()
				}),
				remove(c.table, c.key),
				&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
					c.table: {Keys: []map[string]types.AttributeValue{c.key.values()}},
				}},
				&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
					c.table: {{DeleteRequest: &types.DeleteRequest{Key: c.key.values()}}},
				}},
			},
		})
	}
	return all
}

// numberCases put numbers, add them and compare them.
func numberCases() []testCase {
	nines := strings.Repeat("9", 38)
	var all []testCase
	for _, n := range []num{
		"0", "-0", "0.0", "00", "+5", "5.", ".5", "007.500", "1e3", "1E+3", "1e-3", "1E-7", "-1E-7", "100000000000000000000000", "1e20", "1e21", "1e38", "1e40",
		num(nines), "-" + num(nines), num(nines) + "0", "1" + num(nines), "0." + num(nines), "0.0" + num(nines), num(nines[:19] + "." + nines[19:]), num(nines) + ".0", num(nines) + ".1",
		"1e125", "9.99e125", "9.9999999999999999999999999999999999999e125", "1e126", "-9.9e125", "-1e126", "1e-130", "1e-131", "-1e-130", "1.5e-130", "0e200", "0e-200", "1e99999",
		"", " ", " 1", "1 ", "1 2", "abc", "NaN", "Infinity", "-", "+", ".", "e5", "1e", "1e+", "--1", "0x10", "1_000", "1,5", "1e5.5", "0000000000000000000000000000000000000000000001", "1.000000000000000000000000000000000000000000000",
		"123456789012345678901234567890", "0.000000000000000000000000000000000000000000000123", "-0.00", "10e-1", "12.30e1",
	} {
		all = append(all, testCase{
			name: "number/put " + string(n),
			requests: []any{
				put(hashTable, key.with(fields{"n": n, "s": nums{string(n), "77"}})),
				check("n = :v", fields{":v": n}),
			},
		})
	}
	for _, c := range []struct {
		name string
		a, b num
	}{
		{"integers", "1", "2"},
		{"to an exact decimal", "0.1", "0.2"},
		{"carry to 1e38", num(nines), "1"},
		{"beyond 38 digits", "1e38", "1"},
		{"of far exponents", "1e100", "1e-100"},
		{"within 38 digits", "1e37", "1"},
		{"within 38 digits of a fraction", "1e20", "1e-17"},
		{"one digit too many", "1e20", "1e-18"},
		{"overflow", "9.9e125", "9.9e125"},
		{"to nothing", num(nines), "-" + num(nines)},
		{"underflow", "1.1e-130", "-1e-130"},
		{"negative", "-5", "3"},
		{"of beyond int64", "9223372036854775807", "1"},
		{"of below int64", "-9223372036854775808", "-1"},
		{"of zeros", "-0", "0.00"},
		{"trailing zeros", "1.25", "0.75"},
		{"cancel large", "1e38", "-1"},
	} {
		all = append(all, testCase{"number/sum " + c.name, one(fields{"n": c.a, "m": c.a, "k": c.a}), []any{
			update("ADD n :v", fields{":v": c.b}),
			update("SET m = m + :v", fields{":v": c.b}),
			update("SET k = k - :v", fields{":v": c.b}),
		}})
	}
	for _, pair := range [][2]num{
		{"1", "1.0"},
		{"9", "10"},
		{"-1", "-2"},
		{"1e-130", "0"},
		{num(nines), "1e38"},
		{"0.1", "0.10000000000000000000000000000000000001"},
		{"9007199254740993", "9007199254740992"},
		{"-1e125", "1e-130"},
		{"123.456", "123.4560"},
	} {
		all = append(all, testCase{"number/order " + string(pair[0]+" and "+pair[1]), one(fields{"n": pair[0]}), []any{
			check("n = :v", fields{":v": pair[1]}), check("n < :v", fields{":v": pair[1]}), check("n >= :v", fields{":v": pair[1]}),
			check("n BETWEEN :v AND :v", fields{":v": pair[1]}), check("n IN (:v)", fields{":v": pair[1]}),
		}})
	}
	return all
}

// replaceCases replace an item and delete it.
func replaceCases() []testCase {
	old := fields{"a": 1, "b": "text"}
	exists := "attribute_exists(pk)"
	return []testCase{
		{"item/replace", one(old), []any{
			tweak(put(hashTable, key.with(fields{"c": 1})), func(in *dynamodb.PutItemInput) { in.ReturnValues = types.ReturnValueAllOld }),
			get(hashTable, key),
		}},
		{"item/replace by the same", one(old), []any{
			tweak(put(hashTable, key.with(old)), func(in *dynamodb.PutItemInput) { in.ReturnValues = types.ReturnValueAllOld }),
		}},
		{"item/replace if it exists", one(old), []any{
			tweak(put(hashTable, key.with(fields{"c": 1})), func(in *dynamodb.PutItemInput) { in.ConditionExpression = &exists }),
			tweak(put(hashTable, fields{"pk": "new"}), func(in *dynamodb.PutItemInput) { in.ConditionExpression = &exists }),
		}},
		{"item/delete", one(old), []any{
			tweak(remove(hashTable, key), func(in *dynamodb.DeleteItemInput) { in.ReturnValues = types.ReturnValueAllOld }),
			tweak(remove(hashTable, key), func(in *dynamodb.DeleteItemInput) { in.ReturnValues = types.ReturnValueAllOld }),
			get(hashTable, key),
		}},
		{"item/keys apart", many(rangeTable,
			fields{"pk": "a", "sk": "b", "v": 1}, fields{"pk": "ab", "sk": "", "v": 2}.with(fields{"sk": "x"}),
			fields{"pk": "a", "sk": "bx", "v": 3}, fields{"pk": "a\x00", "sk": "b", "v": 4}, fields{"pk": "a", "sk": "\x00b", "v": 5}), []any{
			get(rangeTable, fields{"pk": "a", "sk": "b"}), get(rangeTable, fields{"pk": "ab", "sk": "x"}),
			get(rangeTable, fields{"pk": "a\x00", "sk": "b"}), get(rangeTable, fields{"pk": "a", "sk": "\x00b"}),
			query(rangeTable, "pk = :p", fields{":p": "a"}),
		}},
		{"item/number key by value", []stored{{numberTable, fields{"pk": "k", "sk": num("1.0"), "v": 1}}}, []any{
			get(numberTable, fields{"pk": "k", "sk": num("1e0")}),
			put(numberTable, fields{"pk": "k", "sk": num("0.1e1"), "v": 2}),
			query(numberTable, "pk = :p", fields{":p": "k"}),
		}},
		{"item/get of nothing", nil, []any{
			get(hashTable, key),
			tweak(get(hashTable, key), func(in *dynamodb.GetItemInput) { in.ConsistentRead = new(true) }),
		}},
	}
}

// projectionCases read parts of an item.
func projectionCases() []testCase {
	item := fields{
		"a": 1, "b": "text", "m": fields{"x": 1, "y": fields{"z": 2, "w": 3}}, "l": []any{"a", "b", fields{"q": 1, "r": 2}, []any{7, 8}}, "a.b": "dotted",
	}
	var all []testCase
	for _, c := range []struct {
		name, expr string
		names      []string
	}{
		{"one", "a", nil},
		{"several", "a, b", nil},
		{"key", "pk", nil},
		{"missing", "q", nil},
		{"missing and present", "q, a", nil},
		{"nested", "m.x", nil},
		{"nested deep", "m.y.z", nil},
		{"nested siblings", "m.y.z, m.x", nil},
		{"nested missing", "m.q, m.y.q, a.x", nil},
		{"element", "l[1]", nil},
		{"elements keep their order", "l[2].q, l[0]", nil},
		{"elements out of order", "l[3], l[1], l[0]", nil},
		{"element past the end", "l[9]", nil},
		{"element of element", "l[3][1]", nil},
		{"members of one element", "l[2].q, l[2].r", nil},
		{"index of a map", "m[0]", nil},
		{"member of a list", "l.x", nil},
		{"overlap", "m, m.x", nil},
		{"same twice", "a, a", nil},
		{"overlap through alias", "a, #a", []string{"#a", "a"}},
		{"conflict", "m.x, m[0]", nil},
		{"alias", "#x", []string{"#x", "b"}},
		{"alias with a dot", "#x", []string{"#x", "a.b"}},
		{"alias unused", "a", []string{"#x", "b"}},
		{"alias undefined", "#x", nil},
		{"reserved word", "name", nil},
		{"trailing comma", "a,", nil},
		{"value", ":v", nil},
		{"function", "size(a)", nil},
		{"blanks", " a ,\tb ", nil},
		{"empty", "", nil},
		{"operators", "a + b", nil},
		{"star", "*", nil},
	} {
		request := get(hashTable, key)
		request.ProjectionExpression = &c.expr
		nothing := get(hashTable, fields{"pk": "nothing"})
		nothing.ProjectionExpression = &c.expr
		if c.names != nil {
			request.ExpressionAttributeNames = names(c.names...)
			nothing.ExpressionAttributeNames = names(c.names...)
		}
		all = append(all, testCase{"projection/" + c.name, one(item), []any{request, nothing}})
	}
	return append(all, testCase{"projection/names without one", one(item), []any{
		tweak(get(hashTable, key), func(in *dynamodb.GetItemInput) { in.ExpressionAttributeNames = names("#a", "a") }),
	}})
}

//go:fix inline
