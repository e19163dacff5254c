package expr_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
)

// TestConditions compares the conditions with the answers of DynamoDB Local 2.6.1 for the same
// item and values.
func TestConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range conditionTable {
		c, err := expr.ParseCondition(tc.text, envOf(tc.text))
		if tc.want == refused {
			if err == nil {
				t.Errorf("%s: accepted, want it refused", tc.text)
			} else {
				checkError(t, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		got, err := c.Eval(fixture())
		if err != nil || strconv.FormatBool(got) != tc.want {
			t.Errorf("%s: got %v, %v; want %s", tc.text, got, err, tc.want)
		}
	}
}

// TestConditionOfNoItem: a missing item is an item without attributes.
func TestConditionOfNoItem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"attribute_not_exists(pk)":           true,
		"attribute_exists(pk)":               false,
		"n = :n":                             false,
		"n <> :n":                            true,
		"NOT n < :n AND size(s) <> :n":       true,
		"attribute_exists(m.x) OR n IN (:n)": false,
	} {
		c, err := expr.ParseCondition(text, envOf(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got, _ := c.Eval(nil); got != want {
			t.Errorf("%s of no item: got %v, want %v", text, got, want)
		}
	}
}

func TestConditionAttributes(t *testing.T) {
	t.Parallel()
	const text = "m.x = :n AND (#a IN (n, :n) OR NOT size(l[0]) > size(m)) AND attribute_exists(#b.c)"
	c, err := expr.ParseFilter(text, envOf(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"m", "a", "n", "l", "b"}, c.Attributes()); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

var conditionTable = []struct{ text, want string }{
	{"nope <> :s", always},
	{"nope = nope2", never},
	{"nope <> nope2", always},
	{"NOT nope = :s", always},
	{"n <> :s", always},
	{"size(n) = :five", never},
	{"size(n) <> :five", always},
	{"size(nope) <> :five", always},
	{"size(s) = :five", always},
	{"size(bo) <> :n", always},
	{"size(:s) = :n", always},
	{"size(:n) = :n", refused},
	{"size(size(s)) = :n", refused},
	{"contains(l, size(ss))", always},
	{"contains(l, :n)", always},
	{"contains(s, :hel)", always},
	{"contains(s,:n)", never},
	{"contains(:l, n)", never},
	{"contains(:n, n)", never},
	{"contains(ss, :ss)", never},
	{"contains(:ssab, s)", never},
	{"begins_with(n,:s)", never},
	{"begins_with(:s,:s)", always},
	{"begins_with(s,n)", never},
	{"begins_with(s,:n)", refused},
	{"begins_with(:n,s)", refused},
	{"begins_with(s,s)", refused},
	{"attribute_type(n,:tX)", refused},
	{"attribute_type(n,:s)", refused},
	{"attribute_type(n,s)", refused},
	{"attribute_type(:n,:tS)", never},
	{"attribute_type(size(s),:tS)", never},
	{"attribute_type(n,:n)", refused},
	{"attribute_exists(:n)", refused},
	{"attribute_exists(size(s))", refused},
	{"attribute_exists(n, s)", refused},
	{"size(s)", refused},
	{"n", refused},
	{"(n = :five)", always},
	{"((n = :five))", refused},
	{"(n) = (:five)", always},
	{"((n)) = :five", refused},
	{"n = :five AND (n = :five)", always},
	{"(n = :five AND n = :five) AND s = :s", never},
	{"NOT (n = :n)", always},
	{"NOT not n = :n", never},
	{"n = n", refused},
	{"n < n", refused},
	{"size(n) = size(n)", never},
	{"n BETWEEN :n AND :n2", never},
	{"n BETWEEN :n2 AND :n", refused},
	{"n BETWEEN :n AND :s", refused},
	{"n BETWEEN n AND :n2", refused},
	{"n BETWEEN :bo AND :bo", refused},
	{"n between :n and :five", always},
	{"n IN (:n, n)", refused},
	{"n IN (:n, :five)", always},
	{"n IN (:s,:bo,:l)", never},
	{"n in ((:five))", always},
	{"bo < :bo", refused},
	{"bo = :bo", always},
	{"l < :l", refused},
	{"n < :ss", refused},
	{"n < :nu", refused},
	{":n < :n2", always},
	{":n = :n", always},
	{":n < n", always},
	{"attribute_exists(n) = :bo", refused},
	{"contains(attribute_exists(n), :bo)", refused},
	{"_x = :n", refused},
	{"a.name = :n", refused},
	{"name = :n", refused},
	{"m.x = :n", always},
	{"m . x = :n", always},
	{"l[ 0 ] = :n", always},
	{"l [0] = :n", always},
	{"l[99999999999] = :n", refused},
	{"l[-1] = :n", refused},
	{"SIZE(s) = :five", refused},
	{"foo(s) = :five", refused},
	{"foo(s)", refused},
	{"ATTRIBUTE_EXISTS(n)", refused},
	{"#n = :five", always},
	{"##n = :n", refused},
	{"n = :undefinedx", refused},
	{"n=:n", never},
	{"n<>:n", always},
	{"n!=:n", refused},
	{"n==:n", refused},
	{"n = 5", refused},
	{"n = :five AND", refused},
	{"AND n = :n", refused},
	{"", refused},
	{"  ", refused},
	{"n = :five)", refused},
	{"attribute_exists n", refused},
	{"m.x.y = :n", never},
	{"l[0][1] = :n", never},
	{"m = :m", never},
	{"ss = :ssab", always},
	{":ssab = ss", always},
	{"n = :five or s = :s and n = :n", always},
	{"(n = :five or s = :s) and n = :n", never},
	{"size ( s ) = :five", always},
	{"n IN ()", refused},
	{"n BETWEEN :n", refused},
	{"n > :n > :n", refused},
	{"n = (n = :n)", refused},
	{"(size(s)) = :five", always},
	{"((size(s))) = :five", refused},
	{"(n = :five) = :bo", refused},
	{"attribute_exists((n))", always},
	{"contains(s, (:hel))", always},
	{"attribute_exists(m.z[0])", always},
	{"m.5x = :n", refused},
	{"m.x5=:n", never},
	{"size(e) = :one", never},
	{"size(e) = :two", always},
	{"contains(b, :bb)", always},
	{"contains(ns, size(e))", always},
	{"contains(ns, size(m))", never},
	{"if_not_exists(n, :n) = :n", refused},
	{"set = :n", refused},
	{"m.set = :n", refused},
	{"size(s) BETWEEN :two AND :five", always},
	{"size(l) IN (:two, size(nope))", never},
	{"size(s) > size(l)", always},
	{"size(l) < n", always},
	{":five = size(s)", always},
	{":n < size(ss)", always},
	{"nope BETWEEN :n AND :n2", never},
	{"nope IN (:n)", never},
	{"nope < :n", never},
	{"nope >= :n", never},
	{"contains(nope, :n)", never},
	{"begins_with(nope, :s)", never},
	{"attribute_type(nope, :tS)", never},
	{"attribute_type(s, :tS)", always},
	{"attribute_type(n, :tS)", never},
	{"attribute_not_exists(nope)", always},
	{"attribute_not_exists(n)", never},
	{"attribute_not_exists(m.x)", never},
	{"attribute_not_exists(m.q)", always},
	{"attribute_exists(l[2])", always},
	{"attribute_exists(l[3])", never},
	{"attribute_exists(l[0].x)", never},
	{"NOT (nope < :n)", always},
	{"NOT attribute_exists(n) OR n = :five", always},
	{"l = :l", never},
	{"bo <> :bo", never},
	{"bo <> :n", always},
	{"nu = :nu", always},
	{"b = :b", always},
	{"begins_with(b, :b)", always},
	{"s > :hel", always},
	{"s < :hel", never},
	{"n > :hel", never},
	{"m.z[0] = :s", never},
	{"contains(m.z, :s)", never},
	{"contains(ss, :s)", never},
	{"contains(m, :s)", never},
	{"n between :n and :five and s = :s", never},
	{"n between :n and :five or s = :s", always},
	{"not n = :n and not s = :s", always},
	{"n IN (l[0], l[1])", never},
	{"n IN (nope, :five)", always},
	{"(NOT n = :n)", always},
	{"NOT (NOT n = :n)", never},
	{"NOT ((n = :n))", refused},
	{"((n = :n) OR n = :five)", always},
	{"((n = :n OR n = :five))", refused},
	{"(n) BETWEEN (:n) AND (:five)", always},
	{"(n) IN (:n)", never},
	{"n = (l[0])", never},
	{"n = ((l[0]))", refused},
	{"begins_with((s),(:hel))", always},
	{"attribute_exists(((n)))", refused},
	{"size(n) < size(s)", never},
	{"n <> n", refused},
	{"m.x <> m.x", refused},
	{"m.x = m.y", never},
	{"l[0] = l[0]", refused},
	{"l[0] = l[1]", never},
	{"#n = n", refused},
	{"begins_with(s, size(s))", refused},
	{"attribute_type(s, size(s))", refused},
	{"contains(s, s)", refused},
	{"contains(s, size(s))", never},
	{"n = :five AND and s = :s", refused},
	{"OR", refused},
	{"NOT", refused},
	{"()", refused},
	{"(", refused},
	{")", refused},
	{"n = )", refused},
	{"n = (:n", refused},
	{"n BETWEEN :n AND", refused},
	{"n BETWEEN :n OR :n2", refused},
	{"n IN :n", refused},
	{"n IN (:n", refused},
	{"n IN (:n,)", refused},
	{"size() = :n", refused},
	{"attribute_exists()", refused},
	{"contains(s)", refused},
	{"contains(s, :n, :n)", refused},
	{"begins_with(s)", refused},
	{"n..x = :n", refused},
	{"n. = :n", refused},
	{".n = :n", refused},
	{"l[] = :n", refused},
	{"l[0 = :n", refused},
	{"l[a] = :n", refused},
	{"l[:n] = :n", refused},
	{"# = :n", refused},
	{"n = :", refused},
	{"n = #", refused},
	{"n = :n;", refused},
	{"n = \"x\"", refused},
	{"n = 'x'", refused},
	{"n @ :n", refused},
	{"n = :n n = :n", refused},
	{"n :n", refused},
	{"n < = :n", refused},
	{"n = :bo", never},
	{"n <= :five", always},
	{"n >= :five", always},
	{"n > :five", never},
	{"n < :five", never},
	{"m > :n", never},
	{"ss >= :s", never},
	{"NOT :n", refused},
	{"NOT n", refused},
	{"n AND n", refused},
	{"n = :n AND n", refused},
	{"size(s) AND n = :n", refused},
	{"(size(s))", refused},
	{"(n)", refused},
	{"attribute_exists(n) AND attribute_exists(s)", always},
	{"attribute_exists(n) = attribute_exists(s)", refused},
	{"n = attribute_exists(s)", refused},
	{"n IN (attribute_exists(s))", refused},
	{"n BETWEEN attribute_exists(s) AND :n", refused},
	{"size(attribute_exists(s)) = :n", refused},
	{"n = begins_with(s, :s)", refused},
	{"(attribute_exists(n)) = :bo", refused},
	{":bo", refused},
	{"l[2147483647] = :n", never},
	{"l[2147483648] = :n", refused},
	{"l[00] = :n", refused},
	{"n\t=\n:five", always},
	{"n\u000b= :five", refused},
	{"n = :five\r\n", always},
	{"é = :n", refused},
	{"n.é = :n", refused},
}
