package value_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// exported compares values by the fields that callers can see.
var exported = cmp.Options{
	cmpopts.IgnoreUnexported(
		types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{},
		types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberBS{},
		types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberL{}, types.AttributeValueMemberM{},
	),
}

func list(l ...value.AV) value.AV  { return &types.AttributeValueMemberL{Value: l} }
func mapped(m value.Item) value.AV { return &types.AttributeValueMemberM{Value: m} }
func ss(s ...string) value.AV      { return &types.AttributeValueMemberSS{Value: s} }
func ns(s ...string) value.AV      { return &types.AttributeValueMemberNS{Value: s} }
func bs(s ...string) value.AV {
	v := &types.AttributeValueMemberBS{}
	for _, b := range s {
		v.Value = append(v.Value, []byte(b))
	}
	return v
}
func boolean(b bool) value.AV { return &types.AttributeValueMemberBOOL{Value: b} }
func null() value.AV          { return &types.AttributeValueMemberNULL{Value: true} }

// nested returns v inside n lists.
func nested(n int, v value.AV) value.AV {
	for range n {
		v = list(v)
	}
	return v
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	in := value.Item{
		"n": num("1e3"), "ns": ns("2.0", "03"), "l": list(num("1.0"), mapped(value.Item{"x": num("+5")})),
		"empty": list(), "none": mapped(nil), "s": str(""), "b": bin(""), "ss": ss("", "a"), "bs": bs("", "a"),
	}
	want := value.Item{
		"n": num("1000"), "ns": ns("2", "3"), "l": list(num("1"), mapped(value.Item{"x": num("5")})),
		"empty": list([]value.AV{}...), "none": mapped(value.Item{}), "s": str(""), "b": bin(""), "ss": ss("", "a"), "bs": bs("", "a"),
	}
	got, err := value.NormalizeItem(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, exported, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNormalizeDepth is separate because cmp takes exponential time over depth.
func TestNormalizeDepth(t *testing.T) {
	t.Parallel()
	for _, deep := range []value.AV{nested(value.MaxDepth, str("x")), nested(value.MaxDepth-1, mapped(nil))} {
		if value.Depth(deep) != value.MaxDepth {
			t.Errorf("depth is %d, want %d", value.Depth(deep), value.MaxDepth)
		}
		got, err := value.Normalize(deep)
		if err != nil || !value.Equal(got, deep) {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func TestNormalizeRefuses(t *testing.T) {
	t.Parallel()
	many := make([]string, 40)
	for i := range many {
		many[i] = strconv.Itoa(i % 39)
	}
	for name, v := range map[string]value.AV{
		"nil":              nil,
		"nil S":            (*types.AttributeValueMemberS)(nil),
		"nil N":            (*types.AttributeValueMemberN)(nil),
		"nil B":            (*types.AttributeValueMemberB)(nil),
		"nil BOOL":         (*types.AttributeValueMemberBOOL)(nil),
		"nil NULL":         (*types.AttributeValueMemberNULL)(nil),
		"nil L":            (*types.AttributeValueMemberL)(nil),
		"nil M":            (*types.AttributeValueMemberM)(nil),
		"nil SS":           (*types.AttributeValueMemberSS)(nil),
		"nil NS":           (*types.AttributeValueMemberNS)(nil),
		"nil BS":           (*types.AttributeValueMemberBS)(nil),
		"unknown":          &types.UnknownUnionMember{Tag: "X"},
		"NULL false":       &types.AttributeValueMemberNULL{},
		"no number":        num("x"),
		"no number inside": list(mapped(value.Item{"x": num("x")})),
		"nil inside":       list(nil),
		"empty SS":         ss(),
		"empty NS":         ns(),
		"empty BS":         bs(),
		"SS twice":         ss("a", "b", "a"),
		"NS twice":         ns("1", "1.0"),
		"BS twice":         bs("a", "a"),
		"large NS twice":   ns(many...),
		"NS of no number":  ns("1", "x"),
		"no name":          mapped(value.Item{"": str("x")}),
		"long name":        mapped(value.Item{strings.Repeat("x", 65536): str("x")}),
		"deep list":        nested(value.MaxDepth+1, str("x")),
		"deep empty list":  nested(value.MaxDepth, list()),
		"deep map":         nested(value.MaxDepth, mapped(nil)),
	} {
		_, err := value.Normalize(v)
		var e *value.Error
		if !errors.As(err, &e) || e.Message == "" {
			t.Errorf("%s: got %v, want a *value.Error", name, err)
		}
		if _, err := value.NormalizeItem(value.Item{"x": v}); err == nil {
			t.Errorf("%s: an item with it was accepted", name)
		}
		if _, err := value.Check(v); err == nil {
			t.Errorf("%s: Check accepted it", name)
		}
	}
}

// TestSize has the sizes measured at the edge of a capacity unit.
func TestSize(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		v    value.AV
		want int
	}{
		{num("0"), 1},
		{num("1"), 2},
		{num("12"), 2},
		{num("123"), 3},
		{num("1234567890"), 6},
		{num("-5"), 3},
		{num("0.001"), 2},
		{num(strings.Repeat("1", 38)), 20},
		{num("1000"), 2},
		{num("1001"), 3},
		{num("-0.5"), 3},
		{num("100.5"), 4},
		{num("1.5"), 3},
		{str(""), 0},
		{str("abc"), 3},
		{str("héllo"), 6},
		{bin("abc"), 3},
		{boolean(true), 1},
		{null(), 1},
		{ss("a", "bc"), 3},
		{ns("1", "123"), 5},
		{bs("a", "bc"), 3},
		{list(), 3},
		{list(str("a"), num("1")), 3 + 1 + 1 + 1 + 2},
		{mapped(value.Item{}), 3},
		{mapped(value.Item{"ab": str("c")}), 3 + 1 + 2 + 1},
	} {
		if got := value.SizeOf(tc.v); got != tc.want {
			t.Errorf("size of %#v: got %d, want %d", tc.v, got, tc.want)
		}
	}
	if got := value.Size(value.Item{"pk": str("abc"), "n": num("1")}); got != 2+3+1+2 {
		t.Errorf("size of an item: got %d", got)
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	big1, big2 := make([]string, 50), make([]string, 50)
	for i := range big1 {
		big1[i], big2[49-i] = strconv.Itoa(i), strconv.Itoa(i)
	}
	for _, tc := range []struct {
		a, b value.AV
		want bool
	}{
		{str("a"), str("a"), true},
		{str("a"), str("b"), false},
		{str("1"), num("1"), false},
		{str("a"), bin("a"), false},
		{num("1"), num("1.0"), true},
		{num("1"), num("2"), false},
		{bin("a"), bin("a"), true},
		{boolean(true), boolean(true), true},
		{boolean(true), boolean(false), false},
		{null(), null(), true},
		{null(), boolean(true), false},
		{ss("a", "b"), ss("b", "a"), true},
		{ss("a", "b"), ss("a"), false},
		{ss("a", "b"), ss("a", "c"), false},
		{ss("1"), ns("1"), false},
		{ns("1", "2"), ns("2.0", "1"), true},
		{ns("1", "2"), ns("2", "3"), false},
		{bs("a", "b"), bs("b", "a"), true},
		{ns(big1...), ns(big2...), true},
		{list(num("1")), list(num("1.0")), true},
		{list(num("1")), list(num("1"), num("2")), false},
		{list(str("a"), str("b")), list(str("b"), str("a")), false},
		{mapped(value.Item{"a": num("1")}), mapped(value.Item{"a": num("1.0")}), true},
		{mapped(value.Item{"a": num("1")}), mapped(value.Item{"b": num("1")}), false},
		{list(), mapped(nil), false},
		{nil, str("a"), false},
		{nil, nil, false},
	} {
		if got := value.Equal(tc.a, tc.b); got != tc.want {
			t.Errorf("%#v, %#v: got %v, want %v", tc.a, tc.b, got, tc.want)
		}
		if got := value.Equal(tc.b, tc.a); got != tc.want {
			t.Errorf("%#v, %#v: got %v, want %v", tc.b, tc.a, got, tc.want)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b  value.AV
		order int
		ok    bool
	}{
		{str("a"), str("b"), -1, true},
		{str("b"), str("a"), 1, true},
		{str("a"), str("a"), 0, true},
		{str("é"), str("z"), 1, true},
		{num("9"), num("10"), -1, true},
		{num("-9"), num("-10"), 1, true},
		{num("-1.5"), num("-2.5"), 1, true},
		{num("-0.1"), num("0.01"), -1, true},
		{bin("a"), bin("ab"), -1, true},
		{str("1"), num("1"), 0, false},
		{boolean(true), boolean(true), 0, false},
		{ss("a"), ss("a"), 0, false},
		{list(), list(), 0, false},
		{nil, nil, 0, false},
		{num("x"), num("1"), 0, false},
	} {
		if order, ok := value.Compare(tc.a, tc.b); order != tc.order || ok != tc.ok {
			t.Errorf("%#v, %#v: got %d, %v; want %d, %v", tc.a, tc.b, order, ok, tc.order, tc.ok)
		}
	}
}

func TestSets(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b, union, rest value.AV
		ok                bool
	}{
		{ss("a", "b"), ss("b", "c"), ss("a", "b", "c"), ss("a"), true},
		{ns("1", "2"), ns("2"), ns("1", "2"), ns("1"), true},
		{bs("a"), bs("b"), bs("a", "b"), bs("a"), true},
		{ss("a"), ss("a"), ss("a"), nil, true},
		{bs("a"), bs("a"), bs("a"), nil, true},
		{ss("a"), ns("1"), nil, nil, false},
		{str("a"), str("a"), nil, nil, false},
	} {
		union, ok1 := value.Union(tc.a, tc.b)
		rest, ok2 := value.Minus(tc.a, tc.b)
		if ok1 != tc.ok || ok2 != tc.ok {
			t.Errorf("%#v, %#v: fit %v, %v; want %v", tc.a, tc.b, ok1, ok2, tc.ok)
		}
		if tc.union != nil && !value.Equal(union, tc.union) || (rest == nil) != (tc.rest == nil) || rest != nil && !value.Equal(rest, tc.rest) {
			t.Errorf("%#v, %#v: union %#v, difference %#v", tc.a, tc.b, union, rest)
		}
	}
	for _, tc := range []struct {
		set, member value.AV
		want        bool
	}{
		{ss("a"), str("a"), true},
		{ss("a"), str("b"), false},
		{ss("1"), num("1"), false},
		{ns("1"), num("1.0"), true},
		{ns("1"), str("1"), false},
		{bs("a"), bin("a"), true},
		{str("a"), str("a"), false},
		{ss("a"), nil, false},
	} {
		if got := value.HasMember(tc.set, tc.member); got != tc.want {
			t.Errorf("%#v has %#v: got %v, want %v", tc.set, tc.member, got, tc.want)
		}
	}
}

// values draws any acceptable value inside at most depth containers.
func values(depth int) *rapid.Generator[value.AV] {
	number := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("%d.%de%d", rapid.Int64().Draw(t, "whole"), rapid.IntRange(0, 999).Draw(t, "fraction"), rapid.IntRange(-80, 80).Draw(t, "exponent"))
	})
	normalOf := func(s string) string { n, _ := normal(s); return n }
	kinds := []*rapid.Generator[value.AV]{
		rapid.Map(rapid.String(), str),
		rapid.Map(number, num),
		rapid.Map(rapid.String(), bin),
		rapid.Map(rapid.Bool(), boolean),
		rapid.Map(rapid.Just(true), func(bool) value.AV { return null() }),
		rapid.Map(rapid.SliceOfNDistinct(rapid.String(), 1, 20, rapid.ID), func(s []string) value.AV { return ss(s...) }),
		rapid.Map(rapid.SliceOfNDistinct(number, 1, 20, normalOf), func(s []string) value.AV { return ns(s...) }),
		rapid.Map(rapid.SliceOfNDistinct(rapid.String(), 1, 20, rapid.ID), func(s []string) value.AV { return bs(s...) }),
	}
	if depth > 0 {
		kinds = append(
			kinds,
			rapid.Map(rapid.SliceOfN(values(depth-1), 0, 4), func(l []value.AV) value.AV { return list(l...) }),
			rapid.Map(rapid.MapOfN(rapid.StringN(1, 5, -1), values(depth-1), 0, 4), mapped),
		)
	}
	return rapid.OneOf(kinds...)
}

// TestCopies: normalising keeps the value and gives a copy. Neither the copy nor a Clone shares
// memory through which the original can be changed.
func TestCopies(t *testing.T) {
	t.Parallel()
	items := rapid.MapOfN(rapid.StringN(1, 8, -1), values(2), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		in := items.Draw(t, "item")
		item, err := value.NormalizeItem(in)
		if err != nil {
			t.Fatal(err)
		}
		if !value.EqualItems(in, item) || !value.EqualItems(item, in) {
			t.Fatalf("normalised to another value: %v", item)
		}
		again, err := value.NormalizeItem(item)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(item, again, exported); diff != "" {
			t.Fatalf("normalised twice (-once +twice):\n%s", diff)
		}
		clone := value.Clone(item)
		if diff := cmp.Diff(item, clone, exported); diff != "" {
			t.Fatalf("clone (-item +clone):\n%s", diff)
		}
		if value.Size(clone) != value.Size(item) {
			t.Fatalf("sizes %d and %d", value.Size(item), value.Size(clone))
		}
		for name, v := range item {
			checked, err := value.Check(v)
			if err != nil || !value.Equal(checked, v) || value.TypeName(checked) != value.TypeName(v) {
				t.Fatalf("%s: checked to %v, %v", name, checked, err)
			}
		}
		before := snapshot(t, item)
		for _, other := range []value.Item{in, clone} {
			for _, v := range other {
				scribble(v)
			}
		}
		if diff := cmp.Diff(before, snapshot(t, item)); diff != "" {
			t.Fatalf("writing to the original or the clone showed (-before +after):\n%s", diff)
		}
	})
}

// snapshot returns a text that shares nothing with item.
func snapshot(t *rapid.T, item value.Item) string {
	text, err := json.MarshalIndent(item, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// scribble overwrites all writable parts of v.
func scribble(v value.AV) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		v.Value = "scribble"
	case *types.AttributeValueMemberN:
		v.Value = "666"
	case *types.AttributeValueMemberB:
		spoil(v.Value)
	case *types.AttributeValueMemberBOOL:
		v.Value = !v.Value
	case *types.AttributeValueMemberNULL:
		v.Value = false
	case *types.AttributeValueMemberSS:
		clear(v.Value)
	case *types.AttributeValueMemberNS:
		clear(v.Value)
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			spoil(b)
		}
		clear(v.Value)
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			scribble(e)
		}
		clear(v.Value)
	case *types.AttributeValueMemberM:
		for _, e := range v.Value {
			scribble(e)
		}
		clear(v.Value)
	}
}

func spoil(b []byte) {
	for i := range b {
		b[i]++
	}
}

func TestCloneOfNothing(t *testing.T) {
	t.Parallel()
	if value.Clone(nil) != nil {
		t.Error("a clone of no item is an item")
	}
	if item, err := value.NormalizeItem(nil); item == nil || err != nil {
		t.Errorf("got %v, %v; want an empty item", item, err)
	}
}

// TestCloneAllocations: with slabs, an item of 25 scalars takes a handful of allocations.
func TestCloneAllocations(t *testing.T) {
	item := value.Item{}
	for i := range 20 {
		item[fmt.Sprintf("n%d", i)] = num("123456")
	}
	for i := range 5 {
		item[fmt.Sprintf("s%d", i)] = str("text")
	}
	if n := testing.AllocsPerRun(100, func() { value.Clone(item) }); n > 8 {
		t.Errorf("Clone took %v allocations, want at most 8", n)
	}
	if n := testing.AllocsPerRun(100, func() { value.Size(item) }); n > 0 {
		t.Errorf("Size took %v allocations", n)
	}
}
