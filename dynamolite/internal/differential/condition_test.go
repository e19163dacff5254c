package differential_test

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// conditionCases test the condition expression, with an update that changes nothing.
func conditionCases() []testCase {
	item := fields{
		"s": "banana", "n": 10, "b": []byte("bin"), "t": true, "f": false, "z": nil,
		"ss": strs{"a", "b"}, "ns": nums{"1", "2.50"}, "bs": bins{"x", "y"},
		"l": []any{1, "two", fields{"three": 3}}, "m": fields{"x": 1, "y": fields{"z": "deep"}},
		"e": "", "uni": "héllo", "el": []any{}, "em": fields{},
	}
	var all []testCase
	for _, c := range []struct {
		name   string
		expr   string
		values fields
		names  []string
	}{
		{"exists", "attribute_exists(s)", nil, nil},
		{"exists missing", "attribute_exists(q)", nil, nil},
		{"exists null", "attribute_exists(z)", nil, nil},
		{"exists nested", "attribute_exists(m.y.z)", nil, nil},
		{"exists nested missing", "attribute_exists(m.q.z)", nil, nil},
		{"exists under scalar", "attribute_exists(s.q)", nil, nil},
		{"exists element", "attribute_exists(l[2].three)", nil, nil},
		{"exists past the end", "attribute_exists(l[3])", nil, nil},
		{"exists key", "attribute_exists(pk)", nil, nil},
		{"exists of a value", "attribute_exists(:v)", fields{":v": 1}, nil},
		{"exists of two", "attribute_exists(s, n)", nil, nil},
		{"exists without argument", "attribute_exists()", nil, nil},
		{"not exists", "attribute_not_exists(q)", nil, nil},
		{"not exists present", "attribute_not_exists(s)", nil, nil},
		{"not exists nested", "attribute_not_exists(m.q)", nil, nil},
		{"not exists of a value", "attribute_not_exists(:v)", fields{":v": 1}, nil},
		{"function in upper case", "ATTRIBUTE_EXISTS(s)", nil, nil},
		{"function with blanks", "attribute_exists ( s )", nil, nil},
		{"unknown function", "attribute_present(s)", nil, nil},
		{"update function", "if_not_exists(s, :v) = :v", fields{":v": 1}, nil},

		{"type N", "attribute_type(n, :v)", fields{":v": "N"}, nil},
		{"type wrong", "attribute_type(n, :v)", fields{":v": "S"}, nil},
		{"type of missing", "attribute_type(q, :v)", fields{":v": "S"}, nil},
		{"type bogus", "attribute_type(n, :v)", fields{":v": "NUMBER"}, nil},
		{"type lower case", "attribute_type(n, :v)", fields{":v": "n"}, nil},
		{"type not a string", "attribute_type(n, :v)", fields{":v": 1}, nil},
		{"type by path", "attribute_type(n, s)", nil, nil},
		{"type nested", "attribute_type(m.y, :v)", fields{":v": "M"}, nil},
		{"begins_with", "begins_with(s, :v)", fields{":v": "ban"}, nil},
		{"begins_with not", "begins_with(s, :v)", fields{":v": "nan"}, nil},
		{"begins_with empty", "begins_with(s, :v)", fields{":v": ""}, nil},
		{"begins_with binary", "begins_with(b, :v)", fields{":v": []byte("bi")}, nil},
		{"begins_with number operand", "begins_with(n, :v)", fields{":v": 1}, nil},
		{"begins_with of a number attribute", "begins_with(n, :v)", fields{":v": "1"}, nil},
		{"begins_with missing", "begins_with(q, :v)", fields{":v": "1"}, nil},
		{"begins_with two values", "begins_with(:w, :v)", fields{":v": "b", ":w": "banana"}, nil},
		{"begins_with two paths", "begins_with(s, e)", nil, nil},
		{"begins_with itself", "begins_with(s, s)", nil, nil},
		{"begins_with one argument", "begins_with(s)", nil, nil},
		{"contains substring", "contains(s, :v)", fields{":v": "nan"}, nil},
		{"contains not", "contains(s, :v)", fields{":v": "xyz"}, nil},
		{"contains in set", "contains(ss, :v)", fields{":v": "a"}, nil},
		{"contains not in set", "contains(ss, :v)", fields{":v": "c"}, nil},
		{"contains in number set", "contains(ns, :v)", fields{":v": num("2.5")}, nil},
		{"contains in binary set", "contains(bs, :v)", fields{":v": []byte("x")}, nil},
		{"contains in list", "contains(l, :v)", fields{":v": "two"}, nil},
		{"contains number in list", "contains(l, :v)", fields{":v": num("1.0")}, nil},
		{"contains map in list", "contains(l, :v)", fields{":v": fields{"three": 3}}, nil},
		{"contains in map", "contains(m, :v)", fields{":v": "x"}, nil},
		{"contains wrong type", "contains(ss, :v)", fields{":v": 1}, nil},
		{"contains in number", "contains(n, :v)", fields{":v": 1}, nil},
		{"contains binary", "contains(b, :v)", fields{":v": []byte("in")}, nil},
		{"contains set in set", "contains(ss, :v)", fields{":v": strs{"a"}}, nil},
		{"contains path", "contains(s, e)", nil, nil},
		{"contains itself", "contains(s, s)", nil, nil},
		{"contains missing", "contains(q, :v)", fields{":v": "a"}, nil},
		{"contains value first", "contains(:w, s)", fields{":w": "a banana split"}, nil},

		{"size of string", "size(s) = :v", fields{":v": 6}, nil},
		{"size counts characters", "size(uni) = :v", fields{":v": 5}, nil},
		{"size of binary", "size(b) = :v", fields{":v": 3}, nil},
		{"size of set", "size(ss) = :v", fields{":v": 2}, nil},
		{"size of list", "size(l) = :v", fields{":v": 3}, nil},
		{"size of map", "size(m) = :v", fields{":v": 2}, nil},
		{"size of empty", "size(e) = :v", fields{":v": 0}, nil},
		{"size of number", "size(n) = :v", fields{":v": 1}, nil},
		{"size of bool", "size(t) = :v", fields{":v": 1}, nil},
		{"size of missing", "size(q) = :v", fields{":v": 0}, nil},
		{"size of missing is not", "size(q) <> :v", fields{":v": 0}, nil},
		{"size compared", "size(s) > size(ss) AND size(s) BETWEEN :lo AND :hi", fields{":lo": 6, ":hi": 7}, nil},
		{"size in list", "size(s) IN (:a, :b)", fields{":a": 5, ":b": 6}, nil},
		{"size alone", "size(s)", nil, nil},
		{"size with a string", "size(s) = :v", fields{":v": "6"}, nil},
		{"size of a value", "size(:v) = :n", fields{":v": "abc", ":n": 3}, nil},

		{"and", "n = :v AND s = :s", fields{":v": 10, ":s": "banana"}, nil},
		{"and false", "n = :v AND s = :s", fields{":v": 10, ":s": "apple"}, nil},
		{"or", "n = :v OR s = :s", fields{":v": 11, ":s": "banana"}, nil},
		{"not", "NOT n = :v", fields{":v": 11}, nil},
		{"double negation", strings.Repeat("NOT ", 2) + "n = :v", fields{":v": 10}, nil},
		{"precedence of and", "n = :v OR n = :v AND s = :s", fields{":v": 10, ":s": "x"}, nil},
		{"precedence of not", "NOT n = :w OR n = :v AND n = :w", fields{":v": 10, ":w": 10}, nil},
		{"precedence of not over and", "NOT n = :v AND n = :w", fields{":v": 1, ":w": 10}, nil},
		{"parentheses", "(n = :v OR n = :w) AND s = :s", fields{":v": 10, ":w": 1, ":s": "x"}, nil},
		{"parentheses around all", "(n = :v)", fields{":v": 10}, nil},
		{"parentheses doubled", "((n = :v))", fields{":v": 10}, nil},
		{"parentheses doubled inside", "((n = :v)) AND s = :s", fields{":v": 10, ":s": "x"}, nil},
		{"parentheses nested with reason", "((n = :v) AND (s = :s)) OR (n = :v)", fields{":v": 10, ":s": "x"}, nil},
		{"parentheses around operand", "(n) = :v", fields{":v": 10}, nil},
		{"parentheses around value", "n = (:v)", fields{":v": 10}, nil},
		{"parenthesis open", "(n = :v", fields{":v": 10}, nil},
		{"parenthesis closed", "n = :v)", fields{":v": 10}, nil},
		{"keywords in lower case", "n = :v and not s = :s or n between :v and :v", fields{":v": 10, ":s": "x"}, nil},
		{"chained comparison", "n = :v = :v", fields{":v": 10}, nil},
		{"double equals", "n == :v", fields{":v": 10}, nil},
		{"not equals in C", "n != :v", fields{":v": 10}, nil},
		{"empty", "", nil, nil},
		{"path alone", "t", nil, nil},
		{"value alone", ":v", fields{":v": true}, nil},
		{"literal", "n = 10", nil, nil},
		{"quoted literal", "s = 'banana'", nil, nil},
		{"arithmetic", "n + :v = :w", fields{":v": 1, ":w": 11}, nil},
		{"xor", "n = :v XOR n = :v", fields{":v": 10}, nil},
		{"missing operator", "n :v", fields{":v": 10}, nil},
		{"dangling and", "n = :v AND", fields{":v": 10}, nil},
		{"leading and", "AND n = :v", fields{":v": 10}, nil},
		{"reserved word", "status = :v", fields{":v": 10}, nil},
		{"reserved word through alias", "#s = :v OR attribute_not_exists(#s)", fields{":v": 10}, []string{"#s", "status"}},
		{"two values", ":v = :w", fields{":v": 10, ":w": 10}, nil},
		{"two values unequal", ":v < :w", fields{":v": 10, ":w": 10}, nil},
		{"same value twice", ":v = :v", fields{":v": 10}, nil},
		{"same path twice", "n = n", nil, nil},
		{"two paths", "n < m.x", nil, nil},
		{"undefined value", "n = :v", nil, nil},
		{"undefined alias", "#n = :v", fields{":v": 1}, nil},
		{"unused value", "n = :v", fields{":v": 10, ":w": 1}, nil},
		{"unused alias", "n = :v", fields{":v": 10}, []string{"#n", "n"}},
		{"alias with a dot", "#m = :v", fields{":v": 1}, []string{"#m", "m.x"}},
		{"alias in path", "#m.#x = :v", fields{":v": 1}, []string{"#m", "m", "#x", "x"}},

		{"missing equals", "q = :v", fields{":v": 1}, nil},
		{"missing differs", "q <> :v", fields{":v": 1}, nil},
		{"missing less", "q < :v", fields{":v": 1}, nil},
		{"missing not equals", "NOT q = :v", fields{":v": 1}, nil},
		{"missing not less", "NOT q < :v", fields{":v": 1}, nil},
		{"missing equals missing", "q = r", nil, nil},
		{"missing differs from missing", "q <> r", nil, nil},
		{"missing between", "q BETWEEN :v AND :w", fields{":v": 1, ":w": 2}, nil},
		{"missing in", "q IN (:v)", fields{":v": 1}, nil},
		{"missing not in", "NOT q IN (:v)", fields{":v": 1}, nil},
		{"null equals null", "z = :v", fields{":v": nil}, nil},
		{"bool equals", "t = :v AND f <> :v", fields{":v": true}, nil},
		{"bool less", "f < :v", fields{":v": true}, nil},
		{"null less", "z < :v", fields{":v": nil}, nil},
		{"list equals", "l = :v", fields{":v": []any{num("1.0"), "two", fields{"three": 3}}}, nil},
		{"list differs in order", "l = :v", fields{":v": []any{"two", 1, fields{"three": 3}}}, nil},
		{"map equals", "m = :v", fields{":v": fields{"y": fields{"z": "deep"}, "x": num("1e0")}}, nil},
		{"map differs", "m = :v", fields{":v": fields{"x": 1}}, nil},
		{"set equals in any order", "ss = :v", fields{":v": strs{"b", "a"}}, nil},
		{"number set equals numerically", "ns = :v", fields{":v": nums{"2.5", "1.0"}}, nil},
		{"binary set equals", "bs = :v", fields{":v": bins{"y", "x"}}, nil},
		{"set less", "ss < :v", fields{":v": strs{"b"}}, nil},
		{"list less", "l < :v", fields{":v": []any{1}}, nil},
		{"map less", "m < :v", fields{":v": fields{}}, nil},
		{"set in list", "ss IN (:v, :w)", fields{":v": strs{"z"}, ":w": strs{"a", "b"}}, nil},
		{"numbers by value", "n = :v", fields{":v": num("10.000")}, nil},
		{"numbers in scientific form", "n = :v", fields{":v": num("1e1")}, nil},
		{"strings by bytes", "s < :v AND s > :w", fields{":v": "banane", ":w": "Banana"}, nil},
		{"strings beyond the plane", "s < :v AND :v < :w", fields{":v": "｡", ":w": "😀"}, nil},
		{"binary unsigned", "b < :v", fields{":v": []byte{255}}, nil},

		{"between", "n BETWEEN :v AND :w", fields{":v": 10, ":w": 12}, nil},
		{"between not", "n BETWEEN :v AND :w", fields{":v": 11, ":w": 12}, nil},
		{"not between", "NOT n BETWEEN :v AND :w", fields{":v": 11, ":w": 12}, nil},
		{"between and more", "n BETWEEN :v AND :w AND s = :s", fields{":v": 10, ":w": 12, ":s": "banana"}, nil},
		{"between reversed", "n BETWEEN :w AND :v", fields{":v": 10, ":w": 12}, nil},
		{"between of two types", "n BETWEEN :v AND :w", fields{":v": 10, ":w": "12"}, nil},
		{"between of another type", "n BETWEEN :v AND :w", fields{":v": "1", ":w": "12"}, nil},
		{"between of lists", "l BETWEEN :v AND :w", fields{":v": []any{}, ":w": []any{}}, nil},
		{"between reversed paths", "n BETWEEN n AND m.x", nil, nil},
		{"between value and paths", ":v BETWEEN m.x AND n", fields{":v": 5}, nil},
		{"between strings", "s BETWEEN :v AND :w", fields{":v": "a", ":w": "c"}, nil},
		{"between without and", "n BETWEEN :v :w", fields{":v": 1, ":w": 2}, nil},
		{"in", "n IN (:a, :b, :c)", fields{":a": 1, ":b": num("10.0"), ":c": "10"}, nil},
		{"in not", "n IN (:a, :b)", fields{":a": 1, ":b": "10"}, nil},
		{"in paths", ":v IN (s, n)", fields{":v": 10}, nil},
		{"in one", "n IN (:a)", fields{":a": 10}, nil},
		{"in none", "n IN ()", nil, nil},
		{"in without parentheses", "n IN :a", fields{":a": 10}, nil},
		{"not in", "NOT n IN (:a)", fields{":a": 11}, nil},
		{"n not in", "n NOT IN (:a)", fields{":a": 11}, nil},
		{"in of 100", "n IN (" + repeat(":v%", ", ", 100) + ")", hundred(100), nil},
		{"in of 101", "n IN (" + repeat(":v%", ", ", 101) + ")", hundred(101), nil},
		{"many ands", strings.Repeat("n = :v AND ", 200) + "n = :v", fields{":v": 10}, nil},
		{"expression of 4097 bytes", "n = :v" + strings.Repeat(" ", 4091), fields{":v": 10}, nil},
	} {
		all = append(all, testCase{"condition/" + c.name, one(item), []any{check(c.expr, c.values, c.names...)}})
	}
	all = append(all, comparisonCases()...)
	all = append(all, missingItemCases()...)
	return append(all, failureCases()...)
}

// hundred returns values for the n names that repeat makes; the last one is 10.
func hundred(n int) fields {
	values := fields{}
	for i := range n {
		values[":v"+letters(i)] = 1000 + i
	}
	values[":v"+letters(n-1)] = 10
	return values
}

// comparisonCases compare a value of each type with one of each, by every operator.
func comparisonCases() []testCase {
	samples := []struct {
		kind       string
		less, more any
	}{
		{"S", "a", "b"},
		{"N", 9, 10},
		{"B", []byte{1}, []byte{200}},
		{"BOOL", false, true},
		{"NULL", nil, nil},
		{"SS", strs{"a"}, strs{"b"}},
		{"NS", nums{"1"}, nums{"2"}},
		{"BS", bins{"a"}, bins{"b"}},
		{"L", []any{1}, []any{2}},
		{"M", fields{"a": 1}, fields{"a": 2}},
	}
	var all []testCase
	for _, a := range samples {
		for _, b := range samples {
			c := testCase{
				name:  "compare/" + a.kind + " with " + b.kind,
				setup: one(fields{"a": a.less, "b": b.more, "c": b.less}),
			}
			for _, op := range []string{"=", "<>", "<", "<=", ">", ">="} {
				c.requests = append(c.requests, check("a "+op+" :v", fields{":v": b.more}))
				if a.kind == b.kind {
					c.requests = append(c.requests, check("a "+op+" :v", fields{":v": b.less}), check("b "+op+" c", nil))
				}
			}
			c.requests = append(c.requests, check("a < b", nil), check("a = c", nil), check("a <> b", nil))
			for _, request := range c.requests {
				request.(*dynamodb.UpdateItemInput).ReturnValues = types.ReturnValueNone
				request.(*dynamodb.UpdateItemInput).ReturnValuesOnConditionCheckFailure = ""
			}
			all = append(all, c)
		}
	}
	return all
}

// missingItemCases evaluate conditions on a missing item.
func missingItemCases() []testCase {
	var all []testCase
	for _, c := range []struct {
		expr   string
		values fields
	}{
		{"attribute_exists(pk)", nil},
		{"attribute_not_exists(pk)", nil},
		{"pk = :v", fields{":v": "k"}},
		{"pk <> :v", fields{":v": "k"}},
		{"NOT pk = :v", fields{":v": "k"}},
		{"size(pk) > :v", fields{":v": 0}},
		{"attribute_type(pk, :v)", fields{":v": "S"}},
		{"n < :v OR attribute_not_exists(n)", fields{":v": 1}},
	} {
		all = append(all, testCase{
			name: "condition/no item: " + c.expr,
			requests: []any{
				check(c.expr, c.values),
				tweak(remove(hashTable, fields{"pk": "other"}), func(in *dynamodb.DeleteItemInput) {
					in.ConditionExpression, in.ExpressionAttributeValues = &c.expr, c.values.values()
				}),
				tweak(put(hashTable, fields{"pk": "third"}), func(in *dynamodb.PutItemInput) {
					in.ConditionExpression, in.ExpressionAttributeValues = &c.expr, c.values.values()
				}),
			},
		})
	}
	return all
}

// failureCases test the results of a failed condition.
func failureCases() []testCase {
	item := fields{"n": 10, "m": fields{"x": []any{1, strs{"a"}}}}
	condition := "n = :v"
	values := fields{":v": 11}.values()
	var all []testCase
	for _, v := range append(types.ReturnValuesOnConditionCheckFailure("").Values(), "", "BOGUS") {
		all = append(all, testCase{
			name:  "condition/failure returning " + string(v),
			setup: one(item),
			requests: []any{
				tweak(update("SET a = :v", fields{":v": 11}), func(in *dynamodb.UpdateItemInput) {
					in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure = &condition, v
				}),
				tweak(remove(hashTable, key), func(in *dynamodb.DeleteItemInput) {
					in.ConditionExpression, in.ExpressionAttributeValues, in.ReturnValuesOnConditionCheckFailure = &condition, values, v
				}),
				tweak(put(hashTable, key), func(in *dynamodb.PutItemInput) {
					in.ConditionExpression, in.ExpressionAttributeValues, in.ReturnValuesOnConditionCheckFailure = &condition, values, v
				}),
				tweak(update("SET a = :v", fields{":v": 11}), func(in *dynamodb.UpdateItemInput) {
					in.Key = fields{"pk": "nothing"}.values()
					in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure = &condition, v
				}),
			},
		})
	}
	return append(all,
		testCase{"condition/fails before the update's type error", one(item), []any{
			tweak(update("SET n = m + :v", fields{":v": 11}), func(in *dynamodb.UpdateItemInput) { in.ConditionExpression = &condition }),
		}},
		testCase{"condition/holds before the update's type error", one(item), []any{
			tweak(update("SET n = m + :v", fields{":v": 10}), func(in *dynamodb.UpdateItemInput) { in.ConditionExpression = &condition }),
		}},
		testCase{"condition/shares values with the update", one(item), []any{
			tweak(update("SET n = n + :v", fields{":v": 10}), func(in *dynamodb.UpdateItemInput) { in.ConditionExpression = &condition }),
		}},
		testCase{"condition/on delete", one(item), []any{
			tweak(remove(hashTable, key), func(in *dynamodb.DeleteItemInput) {
				c := "attribute_exists(pk) AND m.x[0] = :one"
				in.ConditionExpression, in.ExpressionAttributeValues = &c, fields{":one": 1}.values()
				in.ReturnValues = types.ReturnValueAllOld
			}),
		}},
		testCase{"condition/values without condition on put", nil, []any{
			tweak(put(hashTable, key), func(in *dynamodb.PutItemInput) { in.ExpressionAttributeValues = values }),
		}},
		testCase{"condition/names without condition on delete", nil, []any{
			tweak(remove(hashTable, key), func(in *dynamodb.DeleteItemInput) { in.ExpressionAttributeNames = names("#n", "n") }),
		}},
	)
}
