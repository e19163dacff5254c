package expr_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// TestUnused: the expressions of a request together use all of its definitions.
func TestUnused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		about             string
		condition, update string
		names             map[string]string
		values            value.Item
		want              string // part of the message; "" is no error
	}{
		{about: "nothing defined", condition: "attribute_exists(a)"},
		{about: "nothing at all"},
		{about: "all used", condition: "#a = :a", names: map[string]string{"#a": "x"}, values: value.Item{":a": num("1")}},
		{about: "used by one each", condition: "#a = :a", update: "SET #b = :b", names: map[string]string{"#a": "x", "#b": "y"}, values: value.Item{":a": num("1"), ":b": num("1")}},
		{about: "used by both", condition: "#a = :a", update: "SET #a = :a", names: map[string]string{"#a": "x"}, values: value.Item{":a": num("1")}},
		{about: "value unused", condition: "#a = :a", update: "SET #a = :a", names: map[string]string{"#a": "x"}, values: value.Item{":a": num("1"), ":b": num("1")}, want: "ExpressionAttributeValues unused in expressions: keys: {:b}"},
		{about: "name unused", condition: "a = :a", names: map[string]string{"#a": "x"}, values: value.Item{":a": num("1")}, want: "ExpressionAttributeNames unused in expressions: keys: {#a}"},
		{about: "no expression", values: value.Item{":a": num("1")}, want: "only be specified when using expressions"},
		{about: "names without expression", names: map[string]string{"#a": "x"}, want: "only be specified when using expressions"},
		{about: "empty values", condition: "attribute_exists(a)", values: value.Item{}, want: "must not be empty"},
		{about: "empty names", condition: "attribute_exists(a)", names: map[string]string{}, want: "must not be empty"},
		{about: "value without mark", condition: "attribute_exists(a)", values: value.Item{"a": num("1")}, want: "invalid key"},
		{about: "value with a hyphen", condition: "attribute_exists(a)", values: value.Item{":a-b": num("1")}, want: "invalid key"},
		{about: "mark alone", condition: "attribute_exists(a)", names: map[string]string{"#": "x"}, want: "invalid key"},
		{about: "no key", condition: "attribute_exists(a)", names: map[string]string{"": "x"}, want: "invalid key"},
	} {
		env := expr.NewEnv(tc.names, tc.values)
		if tc.condition != "" {
			if _, err := expr.ParseCondition(tc.condition, env); err != nil {
				t.Fatalf("%s: %v", tc.about, err)
			}
		}
		if tc.update != "" {
			if _, err := expr.ParseUpdate(tc.update, env); err != nil {
				t.Fatalf("%s: %v", tc.about, err)
			}
		}
		err := env.Unused()
		if err != nil {
			checkError(t, err)
		}
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.about, err, tc.want)
		}
	}
}

// TestBinding: placeholders are defined, and stand for valid names or values.
func TestBinding(t *testing.T) {
	t.Parallel()
	for about, env := range map[string]*expr.Env{
		"nothing defined": expr.NewEnv(nil, nil),
		"no name":         expr.NewEnv(nil, value.Item{":v": num("1")}),
		"no value":        expr.NewEnv(map[string]string{"#n": "x"}, nil),
		"empty name":      expr.NewEnv(map[string]string{"#n": ""}, value.Item{":v": num("1")}),
		"long name":       expr.NewEnv(map[string]string{"#n": strings.Repeat("x", 65536)}, value.Item{":v": num("1")}),
		"bad number":      expr.NewEnv(map[string]string{"#n": "x"}, value.Item{":v": num("one")}),
		"nil value":       expr.NewEnv(map[string]string{"#n": "x"}, value.Item{":v": nil}),
		"set with twins":  expr.NewEnv(map[string]string{"#n": "x"}, value.Item{":v": numbers("1", "1.0")}),
	} {
		if _, err := expr.ParseCondition("#n = :v", env); err == nil {
			t.Errorf("%s: accepted", about)
		} else {
			checkError(t, err)
		}
	}
}

// TestDottedAlias: a placeholder is one name, whatever characters the name has.
func TestDottedAlias(t *testing.T) {
	t.Parallel()
	item := value.Item{"m.x": num("2"), "m": mapped(value.Item{"x": num("1")})}
	for name, want := range map[string]bool{"m.x": true, "m": false} {
		c, err := expr.ParseCondition("#n = :v", expr.NewEnv(map[string]string{"#n": name}, value.Item{":v": num("2")}))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := c.Eval(item); got != want {
			t.Errorf("#n for %s: got %v, want %v", name, got, want)
		}
	}
}

// TestManyPlaceholders uses more placeholders than the buffers of an Env hold.
func TestManyPlaceholders(t *testing.T) {
	t.Parallel()
	names, values, item := map[string]string{}, value.Item{}, value.Item{}
	var terms, sets []string
	for i := range 60 {
		names[fmt.Sprintf("#n%d", i)], values[fmt.Sprintf(":v%d", i)] = fmt.Sprintf("a%d", i), num(strconv.Itoa(i))
		item[fmt.Sprintf("a%d", i)] = num(strconv.Itoa(i))
		terms = append(terms, fmt.Sprintf("#n%d = :v%d", i, i))
		sets = append(sets, fmt.Sprintf("#n%d = #n%d + :v%d", i, 59-i, i))
	}
	env := expr.NewEnv(names, values)
	c, err := expr.ParseCondition(strings.Join(terms, " AND "), env)
	if err != nil {
		t.Fatal(err)
	}
	u, err := expr.ParseUpdate("SET "+strings.Join(sets, ", "), env)
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Unused(); err != nil {
		t.Error(err)
	}
	if ok, _ := c.Eval(item); !ok {
		t.Error("the condition does not hold")
	}
	out, err := u.Apply(item, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range out {
		if !value.Equal(v, num("59")) {
			t.Errorf("%s is %s, want 59", name, show(v))
		}
	}
	if _, err := expr.ParseUpdate("SET "+strings.Join(sets, ", ")+", a59 = :v1", expr.NewEnv(names, values)); err == nil {
		t.Error("one attribute set twice among many: accepted")
	}
}

// TestLimits checks DynamoDB's limits, at the edge.
func TestLimits(t *testing.T) {
	t.Parallel()
	terms := func(n int) string { return strings.Repeat("n = :n AND ", n-1) + "n = :n" }
	among := func(n int) string { return "n IN (" + strings.Repeat(":n,", n-1) + ":n)" }
	for _, tc := range []struct {
		about, text string
		ok          bool
	}{
		{"4096 bytes", "n = :n" + strings.Repeat(" ", 4090), true},
		{"4097 bytes", "n = :n" + strings.Repeat(" ", 4091), false},
		{"299 operators", terms(150), true},
		{"301 operators", terms(151), false},
		{"300 operators", strings.Repeat("NOT ", 299) + "n = :n", true},
		{"IN 100", among(100), true},
		{"IN 101", among(101), false},
		{"path of 32", "n" + strings.Repeat(".a", 31) + " = :n", true},
		{"path of 33", "n" + strings.Repeat("[0]", 32) + " = :n", false},
		{"40 parentheses", strings.Repeat("n = :n AND (", 40) + "n = :n" + strings.Repeat(")", 40), true},
	} {
		if _, err := expr.ParseCondition(tc.text, envOf(tc.text)); (err == nil) != tc.ok {
			t.Errorf("%s: got %v, want accepted %v", tc.about, err, tc.ok)
		}
	}
}

// TestReservedWords: all 573 words are reserved, in any case, and no others.
func TestReservedWords(t *testing.T) {
	t.Parallel()
	if n := len(expr.ReservedWords); n != 573 {
		t.Errorf("there are %d reserved words, want 573", n)
	}
	for word := range expr.ReservedWords {
		for _, name := range []string{word, strings.ToLower(word)} {
			if _, err := expr.ParseProjection(name, expr.NewEnv(nil, nil)); err == nil {
				t.Errorf("%s: accepted as a name", name)
			}
			if _, err := expr.ParseProjection("a."+name, expr.NewEnv(nil, nil)); err == nil {
				t.Errorf("%s: accepted as a member's name", name)
			}
		}
		if _, err := expr.ParseProjection(word+"x1", expr.NewEnv(nil, nil)); err != nil {
			t.Errorf("%sx1: %v", word, err)
		}
	}
}

// TestConcurrentCache: many concurrent requests use texts for the first time, more texts than the
// cache keeps.
func TestConcurrentCache(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2 * expr.MaxCached {
				text := fmt.Sprintf("cached%d = :v", i)
				c, err := expr.ParseCondition(text, expr.NewEnv(nil, value.Item{":v": num("1")}))
				if err != nil {
					t.Error(err)
					return
				}
				if ok, _ := c.Eval(value.Item{fmt.Sprintf("cached%d", i): num("1")}); !ok {
					t.Errorf("%s does not hold", text)
				}
				if n := expr.CachedConditions(); n > expr.MaxCached {
					t.Errorf("%d texts are kept, want at most %d", n, expr.MaxCached)
				}
			}
		})
	}
	wg.Wait()
}

// TestHotAllocations is the allocation budget of an update's expressions, and of the evaluation
// of a condition.
func TestHotAllocations(t *testing.T) {
	h := newHot()
	if n := testing.AllocsPerRun(200, func() {
		if err := h.run(); err != nil {
			t.Fatal(err)
		}
	}); n > 16 {
		t.Errorf("a bound, decided and applied update took %v allocations, want at most 16", n)
	}
	c, err := expr.ParseCondition(h.condition, expr.NewEnv(h.names, h.values))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(200, func() { _, _ = c.Eval(h.item) }); n > 0 {
		t.Errorf("evaluating a condition took %v allocations, want none", n)
	}
}

// TestApplySharesValues: values that an update does not touch are those of the old image.
func TestApplySharesValues(t *testing.T) {
	t.Parallel()
	old := fixture()
	u, err := expr.ParseUpdate("SET m.x = :n ADD n :n", envOf("SET m.x = :n ADD n :n"))
	if err != nil {
		t.Fatal(err)
	}
	item, err := u.Apply(old, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s", "l", "ss", "b"} {
		if item[name] != old[name] {
			t.Errorf("%s was copied", name)
		}
	}
	if m, _ := item["m"].(*types.AttributeValueMemberM); m == nil || m.Value["z"] != old["m"].(*types.AttributeValueMemberM).Value["z"] {
		t.Error("m.z was copied")
	}
}
