package differential_test

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// updateCases test the update expression: each is one expression on one item.
func updateCases() []testCase {
	nested := fields{"m": fields{"x": 1, "y": fields{"z": "deep"}}, "l": []any{10, 20, 30}, "a": 1}
	list := fields{"l": []any{"a", "b", "c", "d", "e"}}
	var all []testCase
	for _, c := range []struct {
		name   string
		old    fields // nil: the item is missing
		expr   string
		values fields
		names  map[string]string
	}{
		{"set new attribute", fields{"a": 1}, "SET b = :v", fields{":v": 2}, nil},
		{"set over another type", fields{"a": 1}, "SET a = :v", fields{":v": "text"}, nil},
		{"set several", fields{"a": 1}, "SET a = :v, b = :w, c = :v", fields{":v": 2, ":w": "x"}, nil},
		{"upsert", nil, "SET a = :v", fields{":v": 1}, nil},
		{"upsert by add", nil, "ADD a :v", fields{":v": 1}, nil},
		{"upsert by remove", nil, "REMOVE a", nil, nil},
		{"upsert by delete", nil, "DELETE a :v", fields{":v": strs{"x"}}, nil},
		{"no expression on nothing", nil, "", nil, nil},
		{"no expression", fields{"a": 1}, "", nil, nil},
		{"keywords in lower case", fields{"a": 1}, "set b = :v remove a", fields{":v": 2}, nil},
		{"keywords in mixed case", fields{"a": 1}, "sEt b = :v aDd a :v", fields{":v": 2}, nil},
		{"function in upper case", fields{"a": 1}, "SET b = IF_NOT_EXISTS(b, :v)", fields{":v": 2}, nil},
		{"no blanks", fields{"a": 1}, "SET b=:v,c=a+:v REMOVE a", fields{":v": 2}, nil},
		{"odd blanks", fields{"a": 1}, " \tSET\n b\t=  :v\r\n", fields{":v": 2}, nil},
		{"sections in any order", fields{"a": 1, "s": strs{"x", "y"}, "r": 1}, "DELETE s :s REMOVE r ADD a :v SET b = :v", fields{":v": 2, ":s": strs{"x"}}, nil},
		{"section twice", fields{"a": 1}, "SET a = :v SET b = :v", fields{":v": 2}, nil},
		{"remove section twice", fields{"a": 1, "b": 1}, "REMOVE a REMOVE b", nil, nil},
		{"empty section", fields{"a": 1}, "SET", nil, nil},
		{"unknown section", fields{"a": 1}, "PUT a = :v", fields{":v": 2}, nil},
		{"trailing comma", fields{"a": 1}, "SET a = :v,", fields{":v": 2}, nil},
		{"missing operand", fields{"a": 1}, "SET a =", nil, nil},
		{"missing equals", fields{"a": 1}, "SET a :v", fields{":v": 2}, nil},
		{"blank expression", fields{"a": 1}, "  ", nil, nil},

		{"plus", fields{"a": 1}, "SET a = a + :v", fields{":v": 2}, nil},
		{"minus", fields{"a": 1}, "SET a = a - :v", fields{":v": 2}, nil},
		{"value first", fields{"a": 1}, "SET a = :v - a", fields{":v": 10}, nil},
		{"two attributes", fields{"a": 1, "b": 5}, "SET c = a + b", nil, nil},
		{"two values", fields{"a": 1}, "SET c = :v + :w", fields{":v": 1, ":w": 2}, nil},
		{"three operands", fields{"a": 1}, "SET a = a + :v + :v", fields{":v": 2}, nil},
		{"parenthesised operand", fields{"a": 1}, "SET a = (a + :v)", fields{":v": 2}, nil},
		{"parenthesised value", fields{"a": 1}, "SET a = (:v)", fields{":v": 2}, nil},
		{"times", fields{"a": 1}, "SET a = a * :v", fields{":v": 2}, nil},
		{"literal number", fields{"a": 1}, "SET a = 2", nil, nil},
		{"plus missing attribute", fields{"a": 1}, "SET a = b + :v", fields{":v": 2}, nil},
		{"plus missing item", nil, "SET a = a + :v", fields{":v": 2}, nil},
		{"plus a string attribute", fields{"a": "1"}, "SET a = a + :v", fields{":v": 2}, nil},
		{"plus a string value", fields{"a": 1}, "SET a = a + :v", fields{":v": "2"}, nil},
		{"minus to negative", fields{"a": 1}, "SET a = a - :v", fields{":v": num("3.5")}, nil},
		{"sum to zero", fields{"a": 1}, "ADD a :v", fields{":v": -1}, nil},
		{"copy attribute", fields{"a": []any{1, "x"}}, "SET b = a", nil, nil},
		{"copy missing attribute", fields{"a": 1}, "SET b = c", nil, nil},
		{"swap", fields{"a": 1, "b": 2}, "SET a = b, b = a", nil, nil},
		{"all read the old image", fields{"a": 1, "b": 2}, "SET a = :v, b = a + :v REMOVE c ADD d :v", fields{":v": 100}, nil},
		{"remove and copy", fields{"a": 1}, "SET b = a REMOVE a", nil, nil},

		{"if_not_exists absent", fields{"a": 1}, "SET b = if_not_exists(b, :v)", fields{":v": 2}, nil},
		{"if_not_exists present", fields{"a": 1}, "SET a = if_not_exists(a, :v)", fields{":v": 2}, nil},
		{"if_not_exists other path", fields{"a": 1}, "SET b = if_not_exists(a, :v)", fields{":v": 2}, nil},
		{"if_not_exists plus", fields{}, "SET a = if_not_exists(a, :z) + :v", fields{":z": 0, ":v": 2}, nil},
		{"if_not_exists minus if_not_exists", fields{"a": 7}, "SET a = if_not_exists(a, :z) - if_not_exists(b, :v)", fields{":z": 0, ":v": 2}, nil},
		{"if_not_exists nested", fields{}, "SET a = if_not_exists(a, if_not_exists(b, :v))", fields{":v": 2}, nil},
		{"if_not_exists of a path default", fields{"b": 3}, "SET a = if_not_exists(a, b)", nil, nil},
		{"if_not_exists of a missing default", fields{}, "SET a = if_not_exists(a, b)", nil, nil},
		{"if_not_exists of a value first", fields{}, "SET a = if_not_exists(:v, :v)", fields{":v": 2}, nil},
		{"if_not_exists one argument", fields{}, "SET a = if_not_exists(a)", nil, nil},
		{"if_not_exists null present", fields{"a": nil}, "SET a = if_not_exists(a, :v)", fields{":v": 2}, nil},
		{"list_append end", list, "SET l = list_append(l, :v)", fields{":v": []any{"z"}}, nil},
		{"list_append front", list, "SET l = list_append(:v, l)", fields{":v": []any{"z"}}, nil},
		{"list_append to itself", list, "SET l = list_append(l, l)", nil, nil},
		{"list_append with default", fields{}, "SET l = list_append(if_not_exists(l, :e), :v)", fields{":e": []any{}, ":v": []any{1}}, nil},
		{"list_append non list", list, "SET l = list_append(l, :v)", fields{":v": "z"}, nil},
		{"list_append to non list", fields{"l": 1}, "SET l = list_append(l, :v)", fields{":v": []any{1}}, nil},
		{"list_append to missing", fields{}, "SET l = list_append(l, :v)", fields{":v": []any{1}}, nil},
		{"list_append three", list, "SET l = list_append(l, :v, :v)", fields{":v": []any{1}}, nil},
		{"list_append plus", list, "SET l = list_append(l, :v) + :n", fields{":v": []any{1}, ":n": 1}, nil},
		{"unknown function", fields{"a": 1}, "SET a = size(a)", nil, nil},
		{"condition function", fields{"a": 1}, "SET a = attribute_exists(a)", nil, nil},

		{"set in map", nested, "SET m.x = :v", fields{":v": 2}, nil},
		{"set new in map", nested, "SET m.w = :v", fields{":v": 2}, nil},
		{"set deep", nested, "SET m.y.z = :v", fields{":v": 2}, nil},
		{"set under missing map", nested, "SET q.x = :v", fields{":v": 2}, nil},
		{"set under scalar", nested, "SET a.x = :v", fields{":v": 2}, nil},
		{"set under list", nested, "SET l.x = :v", fields{":v": 2}, nil},
		{"index of map", nested, "SET m[0] = :v", fields{":v": 2}, nil},
		{"index of scalar", nested, "SET a[0] = :v", fields{":v": 2}, nil},
		{"index of missing", nested, "SET q[0] = :v", fields{":v": 2}, nil},
		{"set in list", nested, "SET l[1] = :v", fields{":v": 2}, nil},
		{"set at the end of list", nested, "SET l[3] = :v", fields{":v": 2}, nil},
		{"set past the end appends", nested, "SET l[10] = :v", fields{":v": 2}, nil},
		{"set twice past the end", nested, "SET l[10] = :v, l[20] = :w", fields{":v": 2, ":w": 3}, nil},
		{"set twice past the end, reversed", nested, "SET l[20] = :v, l[10] = :w", fields{":v": 2, ":w": 3}, nil},
		{"set past the end and in range", nested, "SET l[0] = :v, l[9] = :w", fields{":v": 2, ":w": 3}, nil},
		{"huge index", nested, "SET l[99999999999] = :v", fields{":v": 2}, nil},
		{"negative index", nested, "SET l[-1] = :v", fields{":v": 2}, nil},
		{"index of a value", nested, "SET l[:v] = :v", fields{":v": 2}, nil},
		{"read of nested operand", nested, "SET b = m.x + l[0]", nil, nil},
		{"read past the end", nested, "SET b = l[9]", nil, nil},
		{"map in list", fields{"l": []any{fields{"x": 1}}}, "SET l[0].x = :v, l[0].y = :v", fields{":v": 2}, nil},
		{"list in list", fields{"l": []any{[]any{1, 2}}}, "SET l[0][1] = :v", fields{":v": 9}, nil},
		{"nested if_not_exists", nested, "SET m.n = if_not_exists(m.n, :v)", fields{":v": 0}, nil},
		{"nested arithmetic", nested, "SET m.x = m.x + :v", fields{":v": 5}, nil},

		{"remove attribute", nested, "REMOVE a", nil, nil},
		{"remove missing attribute", nested, "REMOVE q", nil, nil},
		{"remove several", nested, "REMOVE a, m, q", nil, nil},
		{"remove in map", nested, "REMOVE m.x, m.y.z", nil, nil},
		{"remove last of map", fields{"m": fields{"x": 1}}, "REMOVE m.x", nil, nil},
		{"remove under missing", nested, "REMOVE q.x", nil, nil},
		{"remove under scalar", nested, "REMOVE a.x", nil, nil},
		{"remove missing in map", nested, "REMOVE m.q", nil, nil},
		{"remove list element", list, "REMOVE l[1]", nil, nil},
		{"remove by original position", list, "REMOVE l[0], l[1]", nil, nil},
		{"remove scattered", list, "REMOVE l[4], l[0], l[2]", nil, nil},
		{"remove past the end", list, "REMOVE l[9]", nil, nil},
		{"remove and set in list", list, "SET l[0] = :v REMOVE l[1]", fields{":v": "new"}, nil},
		{"remove and append to list", list, "SET l[9] = :v REMOVE l[1]", fields{":v": "new"}, nil},
		{"remove all elements", fields{"l": []any{1, 2}}, "REMOVE l[0], l[1]", nil, nil},
		{"remove key", nested, "REMOVE pk", nil, nil},
		{"remove value", nested, "REMOVE :v", fields{":v": 1}, nil},

		{"add number", fields{"a": 1}, "ADD a :v", fields{":v": num("2.5")}, nil},
		{"add negative", fields{"a": 1}, "ADD a :v", fields{":v": -5}, nil},
		{"add to missing", fields{}, "ADD a :v", fields{":v": 5}, nil},
		{"add zero to missing", fields{}, "ADD a :v", fields{":v": 0}, nil},
		{"add several", fields{"a": 1, "b": 2}, "ADD a :v, b :w, c :v", fields{":v": 5, ":w": -2}, nil},
		{"add to string", fields{"a": "1"}, "ADD a :v", fields{":v": 5}, nil},
		{"add string", fields{"a": 1}, "ADD a :v", fields{":v": "5"}, nil},
		{"add list", fields{"a": []any{1}}, "ADD a :v", fields{":v": []any{2}}, nil},
		{"add map", fields{"a": fields{"x": 1}}, "ADD a :v", fields{":v": fields{"y": 1}}, nil},
		{"add to set", fields{"s": strs{"a", "b"}}, "ADD s :v", fields{":v": strs{"b", "c"}}, nil},
		{"add to number set", fields{"s": nums{"1", "2"}}, "ADD s :v", fields{":v": nums{"2.0", "3"}}, nil},
		{"add to binary set", fields{"s": bins{"1", "2"}}, "ADD s :v", fields{":v": bins{"2", "3"}}, nil},
		{"add set to missing", fields{}, "ADD s :v", fields{":v": strs{"b", "c"}}, nil},
		{"add set of other type", fields{"s": strs{"a"}}, "ADD s :v", fields{":v": nums{"1"}}, nil},
		{"add number to set", fields{"s": nums{"1"}}, "ADD s :v", fields{":v": 2}, nil},
		{"add set to number", fields{"s": 1}, "ADD s :v", fields{":v": nums{"2"}}, nil},
		{"add nested", nested, "ADD m.x :v", fields{":v": 2}, nil},
		{"add new nested", nested, "ADD m.n :v", fields{":v": 2}, nil},
		{"add to list element", nested, "ADD l[0] :v", fields{":v": 2}, nil},
		{"add past the end of list", nested, "ADD l[7] :v", fields{":v": 2}, nil},
		{"add under missing", nested, "ADD q.x :v", fields{":v": 2}, nil},
		{"add a path", fields{"a": 1, "b": 2}, "ADD a b", nil, nil},
		{"add to key", fields{"a": 1}, "ADD pk :v", fields{":v": 2}, nil},
		{"add with equals", fields{"a": 1}, "ADD a = :v", fields{":v": 2}, nil},

		{"delete from set", fields{"s": strs{"a", "b", "c"}}, "DELETE s :v", fields{":v": strs{"b", "x"}}, nil},
		{"delete from number set", fields{"s": nums{"1", "2"}}, "DELETE s :v", fields{":v": nums{"1.0"}}, nil},
		{"delete from binary set", fields{"s": bins{"1", "2"}}, "DELETE s :v", fields{":v": bins{"1"}}, nil},
		{"delete the last", fields{"s": strs{"a"}, "a": 1}, "DELETE s :v", fields{":v": strs{"a"}}, nil},
		{"delete from missing", fields{"a": 1}, "DELETE s :v", fields{":v": strs{"a"}}, nil},
		{"delete of other type", fields{"s": strs{"a"}}, "DELETE s :v", fields{":v": nums{"1"}}, nil},
		{"delete from a non set", fields{"s": "a"}, "DELETE s :v", fields{":v": strs{"a"}}, nil},
		{"delete a scalar", fields{"s": strs{"a"}}, "DELETE s :v", fields{":v": "a"}, nil},
		{"delete a number", fields{"s": nums{"1"}}, "DELETE s :v", fields{":v": 1}, nil},
		{"delete nested", fields{"m": fields{"s": strs{"a", "b"}}}, "DELETE m.s :v", fields{":v": strs{"a"}}, nil},
		{"delete the last nested", fields{"m": fields{"s": strs{"a"}}}, "DELETE m.s :v", fields{":v": strs{"a"}}, nil},
		{"delete the last in list", fields{"l": []any{strs{"a"}, 1}}, "DELETE l[0] :v", fields{":v": strs{"a"}}, nil},

		{"overlap same path", nested, "SET a = :v, a = :v", fields{":v": 1}, nil},
		{"overlap across sections", nested, "SET a = :v REMOVE a", fields{":v": 1}, nil},
		{"overlap parent and child", nested, "SET m = :v, m.x = :v", fields{":v": 1}, nil},
		{"overlap child and parent", nested, "SET m.y.z = :v REMOVE m", fields{":v": 1}, nil},
		{"overlap list and element", nested, "SET l = :v, l[0] = :v", fields{":v": 1}, nil},
		{"overlap same element", nested, "SET l[0] = :v REMOVE l[0]", fields{":v": 1}, nil},
		{"conflict index and member", nested, "SET m.x = :v, m[0] = :v", fields{":v": 1}, nil},
		{"overlap through alias", nested, "SET #a = :v, a = :v", fields{":v": 1}, names("#a", "a")},
		{"no overlap of siblings", nested, "SET m.x = :v, m.w = :v, l[0] = :v REMOVE l[1]", fields{":v": 1}, nil},
		{"set key", nested, "SET pk = :v", fields{":v": "k"}, nil},
		{"set under key", nested, "SET pk.x = :v", fields{":v": "k"}, nil},
		{"set key through alias", nested, "SET #k = :v", fields{":v": "k"}, names("#k", "pk")},

		{"alias", fields{"a": 1}, "SET #x = :v REMOVE #y", fields{":v": 1}, names("#x", "size", "#y", "a")},
		{"alias with a dot is one name", fields{"a": 1}, "SET #x = :v", fields{":v": 1}, names("#x", "a.b")},
		{"alias with brackets is one name", fields{"a": 1}, "SET #x = :v", fields{":v": 1}, names("#x", "l[0]")},
		{"alias in nested path", nested, "SET #m.#x = :v, m.#x2 = :v", fields{":v": 1}, names("#m", "m", "#x", "x", "#x2", "new")},
		{"alias undefined", fields{"a": 1}, "SET #x = :v", fields{":v": 1}, nil},
		{"alias undefined among defined", fields{"a": 1}, "SET #x = :v, #y = :v", fields{":v": 1}, names("#x", "b")},
		{"alias unused", fields{"a": 1}, "SET b = :v", fields{":v": 1}, names("#x", "b")},
		{"alias malformed", fields{"a": 1}, "SET b = :v", fields{":v": 1}, names("x", "b")},
		{"alias to nothing", fields{"a": 1}, "SET #x = :v", fields{":v": 1}, names("#x", "")},
		{"alias bare", fields{"a": 1}, "SET # = :v", fields{":v": 1}, names("#", "b")},
		{"aliases without expression", fields{"a": 1}, "", nil, names("#x", "b")},
		{"value undefined", fields{"a": 1}, "SET b = :v", nil, nil},
		{"value unused", fields{"a": 1}, "SET b = :v", fields{":v": 1, ":w": 1}, nil},
		{"values without expression", fields{"a": 1}, "", fields{":v": 1}, nil},
		{"value malformed", fields{"a": 1}, "SET b = :v", fields{":v": 1, "w": 1}, nil},
		{"value bare colon", fields{"a": 1}, "SET b = :", fields{":": 1}, nil},
		{"values empty", fields{"a": 1}, "REMOVE a", fields{}, nil},
		{"names empty", fields{"a": 1}, "REMOVE a", nil, map[string]string{}},
		{"value of an empty set", fields{"a": 1}, "SET b = :v", fields{":v": strs{}}, nil},
		{"value of a duplicate set", fields{"a": 1}, "SET b = :v", fields{":v": strs{"x", "x"}}, nil},
		{"reserved word", fields{"a": 1}, "SET name = :v", fields{":v": 1}, nil},
		{"reserved word in lower case", fields{"a": 1}, "SET ttl = :v", fields{":v": 1}, nil},
		{"reserved word nested", nested, "SET m.status = :v", fields{":v": 1}, nil},
		{"reserved word read", fields{"a": 1}, "SET b = date", nil, nil},
		{"name with a dash", fields{"a": 1}, "SET a-b = :v", fields{":v": 1}, nil},
		{"name with a digit first", fields{"a": 1}, "SET 1a = :v", fields{":v": 1}, nil},
		{"name with an underscore first", fields{"a": 1}, "SET _a = :v", fields{":v": 1}, nil},
		{"name of other letters", fields{"a": 1}, "SET é = :v", fields{":v": 1}, nil},
		{"alias of other letters", fields{"a": 1}, "SET #n = :v", fields{":v": 1}, names("#n", "é ü")},
		{"dangling dot", nested, "SET m. = :v", fields{":v": 1}, nil},
		{"blank in path", nested, "SET m . x = :v", fields{":v": 1}, nil},
		{"blank in index", nested, "SET l[ 0 ] = :v", fields{":v": 1}, nil},
		{"semicolon", fields{"a": 1}, "SET a = :v;", fields{":v": 1}, nil},
		{"set a set", fields{"a": 1}, "SET a = :v", fields{":v": nums{"3", "1.50", "2"}}, nil},
		{"set all types", fields{}, "SET a=:a, b=:b, c=:c, d=:d, e=:e, f=:f, g=:g", fields{
			":a": []byte{0, 255}, ":b": bins{"x"}, ":c": nil, ":d": true, ":e": fields{}, ":f": []any{}, ":g": "",
		}, nil},
		{"operators limit", fields{}, "SET " + repeat("x_% = :v", ", ", 100), fields{":v": 1}, nil},
		{"expression of 4096 bytes", fields{}, "SET a = :v" + strings.Repeat(" ", 4086), fields{":v": 1}, nil},
		{"expression of 4097 bytes", fields{}, "SET a = :v" + strings.Repeat(" ", 4087), fields{":v": 1}, nil},
	} {
		setup := one(c.old)
		if c.old == nil {
			setup = nil
		}
		request := update(c.expr, c.values)
		request.ExpressionAttributeNames = c.names
		if c.name == "blank expression" {
			request.UpdateExpression = &c.expr
		}
		all = append(all, testCase{"update/" + c.name, setup, []any{request}})
	}
	return append(all, returnCases()...)
}

// repeat joins n copies of pattern, with its % replaced by the copy's letters.
func repeat(pattern, separator string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(pattern, "%", letters(i))
	}
	return strings.Join(parts, separator)
}

// letters writes i as two letters.
func letters(i int) string { return string([]byte{'a' + byte(i/26), 'a' + byte(i%26)}) }

// returnCases test the results of an update.
func returnCases() []testCase {
	old := fields{"a": 1, "b": "text", "m": fields{"x": 1, "y": 2}, "l": []any{1, 2, 3}}
	returning := func(v types.ReturnValue, expression string, values fields) any {
		return tweak(update(expression, values), func(in *dynamodb.UpdateItemInput) { in.ReturnValues = v })
	}
	var all []testCase
	for _, v := range append(types.ReturnValue("").Values(), "BOGUS") {
		all = append(all,
			testCase{"return/update " + string(v), one(old), []any{returning(v, "SET a = :v, n = :v REMOVE b", fields{":v": 7})}},
			testCase{"return/upsert " + string(v), nil, []any{returning(v, "SET a = :v REMOVE b", fields{":v": 7})}},
			testCase{"return/no change " + string(v), one(old), []any{returning(v, "SET a = :v", fields{":v": 1})}},
			testCase{"return/no expression " + string(v), one(old), []any{returning(v, "", nil)}},
			testCase{"return/removals only " + string(v), one(old), []any{returning(v, "REMOVE b, q", nil)}},
			testCase{"return/nested " + string(v), one(old), []any{returning(v, "SET m.x = :v, l[1] = :v", fields{":v": 7})}},
			testCase{"return/nested new " + string(v), one(old), []any{returning(v, "SET m.z = :v, l[8] = :v", fields{":v": 7})}},
			testCase{"return/nested remove " + string(v), one(old), []any{returning(v, "REMOVE m.x, l[0]", nil)}},
			testCase{"return/put " + string(v), one(old), []any{
				tweak(put(hashTable, key.with(fields{"n": 1})), func(in *dynamodb.PutItemInput) { in.ReturnValues = v }),
			}},
			testCase{"return/put new " + string(v), nil, []any{
				tweak(put(hashTable, key.with(fields{"n": 1})), func(in *dynamodb.PutItemInput) { in.ReturnValues = v }),
			}},
			testCase{"return/delete " + string(v), one(old), []any{
				tweak(remove(hashTable, key), func(in *dynamodb.DeleteItemInput) { in.ReturnValues = v }),
			}},
			testCase{"return/delete nothing " + string(v), nil, []any{
				tweak(remove(hashTable, key), func(in *dynamodb.DeleteItemInput) { in.ReturnValues = v }),
			}},
		)
	}
	return all
}
