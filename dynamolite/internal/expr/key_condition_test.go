package expr_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
)

// TestKeyConditions compares the key conditions with the answers of DynamoDB Local 2.6.1 for a
// table with the keys pk and sk.
func TestKeyConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range keyConditionTable {
		_, err := expr.ParseKeyCondition(tc.text, envOf(tc.text), "pk", "sk")
		if err != nil {
			checkError(t, err)
		}
		if (err == nil) != (tc.want == accepted) {
			t.Errorf("%s: got %v, want it %s", tc.text, err, tc.want)
		}
	}
}

func TestKeyConditionParts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text, hash string
		op         expr.RangeOp
		low, high  string
	}{
		{"pk = :s", "x", -1, "", ""},
		{":s = pk", "x", -1, "", ""},
		{"sk = :n AND pk = :s", "x", expr.Eq, "1", ""},
		{"pk = :s AND sk < :n", "x", expr.Lt, "1", ""},
		{"pk = :s AND sk <= :n", "x", expr.Le, "1", ""},
		{"pk = :s AND sk > :n", "x", expr.Gt, "1", ""},
		{"pk = :s AND sk >= :n", "x", expr.Ge, "1", ""},
		{"pk = :s AND :n < sk", "x", expr.Gt, "1", ""},
		{"pk = :s AND :n <= sk", "x", expr.Ge, "1", ""},
		{"pk = :s AND :n > sk", "x", expr.Lt, "1", ""},
		{"pk = :s AND :n >= sk", "x", expr.Le, "1", ""},
		{"(#pk = :s AND (#sk BETWEEN :n AND :five))", "x", expr.Between, "1", "5"},
		{"begins_with(sk, :hel) AND pk = :s", "x", expr.BeginsWith, "hé", ""},
	} {
		kc, err := expr.ParseKeyCondition(tc.text, envOf(tc.text), "pk", "sk")
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		if got := unquote(show(kc.Hash)); got != tc.hash {
			t.Errorf("%s: hash key %s, want %s", tc.text, got, tc.hash)
		}
		if kc.Range == nil {
			if tc.op != -1 {
				t.Errorf("%s: no range condition", tc.text)
			}
			continue
		}
		high := ""
		if kc.Range.High != nil {
			high = unquote(show(kc.Range.High))
		}
		if kc.Range.Op != tc.op || unquote(show(kc.Range.Low)) != tc.low || high != tc.high {
			t.Errorf("%s: got %d %s %s, want %d %s %s", tc.text, kc.Range.Op, show(kc.Range.Low), high, tc.op, tc.low, tc.high)
		}
	}
}

func unquote(s string) string { return strings.Trim(s, `"`) }

// TestKeyConditionWithoutRange: if there is no range key, a condition may name only the hash key.
func TestKeyConditionWithoutRange(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"pk = :s": true, "pk = :s AND sk = :s": false, "pk = :s AND begins_with(sk, :s)": false} {
		if _, err := expr.ParseKeyCondition(text, envOf(text), "pk", ""); (err == nil) != ok {
			t.Errorf("%s: got %v, want accepted %v", text, err, ok)
		}
	}
}

var keyConditionTable = []struct{ text, want string }{
	{"pk = :s", accepted},
	{"pk = :s AND sk = :s", accepted},
	{"sk = :s AND pk = :s", accepted},
	{"(pk = :s) AND (sk = :s)", accepted},
	{"(pk = :s AND sk = :s)", accepted},
	{":s = pk", accepted},
	{"pk = :s AND :s < sk", accepted},
	{"pk = :s AND begins_with(sk, :s)", accepted},
	{"pk = :s AND sk BETWEEN :tS AND :s", accepted},
	{"pk = :s AND sk <> :s", refused},
	{"pk = :s AND sk IN (:s)", refused},
	{"pk = :s OR sk = :s", refused},
	{"NOT pk = :s", refused},
	{"pk = :s AND NOT sk = :s", refused},
	{"pk = :s AND contains(sk,:s)", refused},
	{"sk = :s", refused},
	{"pk < :s", refused},
	{"pk = :s AND x = :s", refused},
	{"pk = :s AND pk = :s", refused},
	{"pk = :s AND sk > :s AND sk < :tS", refused},
	{"pk = pk", refused},
	{"pk = sk", refused},
	{"pk = :s AND begins_with(:s, sk)", refused},
	{"pk = :s AND size(sk) = :n", refused},
	{"pk.x = :s", refused},
	{"pk = :s AND attribute_exists(sk)", refused},
	{"pk = :s AND begins_with(sk, pk)", refused},
	{"pk = :s AND sk BETWEEN :s AND pk", refused},
	{"begins_with(pk,:s)", refused},
	{":s = :s", refused},
	{"pk = :s AND begins_with(sk,:n)", refused},
	{"pk[0] = :s", refused},
	{"pk = :s AND :s BETWEEN sk AND :s", refused},
	{"pk = :s AND attribute_type(sk,:tS)", refused},
	{"pk = :s AND :s > sk", accepted},
	{"pk = :s and sk >= :s", accepted},
	{"pk = (:s)", accepted},
	{"pk = :s AND (sk = :s AND sk = :hel)", refused},
	{"pk = :s AND pk > :s", refused},
	{"sk = :s AND sk = :hel", refused},
	{"pk = :s AND sk = :s AND x = :s", refused},
	{"((pk = :s) AND sk = :s)", accepted},
	{"((pk = :s))", refused},
	{"pk <> :s", refused},
	{"pk IN (:s)", refused},
	{"pk BETWEEN :s AND :s", refused},
	{"#pk = :s AND #sk > :s", accepted},
	{"pk = :undef", refused},
	{"", refused},
	{"pk = size(sk)", refused},
	{"pk", refused},
	{"pk = :s AND", refused},
	{"pk = :s AND begins_with(sk)", refused},
	{"pk = :s AND sk BETWEEN :s AND :hel", refused},
	{"pk = :s AND sk BETWEEN :hel AND :s", accepted},
	{"pk = :s AND :s >= sk", accepted},
	{"pk = :s AND :s <= sk", accepted},
	{"pk = :s AND :s = sk", accepted},
	{"pk = :s AND #sk.x = :s", refused},
	{"#sk = :s AND #pk = :s", accepted},
}
