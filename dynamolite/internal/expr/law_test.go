package expr_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// eval evaluates a condition over the attributes a to e and the values :0 to :4. It leaves out
// those that the text does not mention.
func eval(t *rapid.T, text string, item, values value.Item) bool {
	used := value.Item(nil)
	for mark, v := range values {
		if strings.Contains(text, mark) {
			if used == nil {
				used = value.Item{}
			}
			used[mark] = v
		}
	}
	env := expr.NewEnv(nil, used)
	c, err := expr.ParseCondition(text, env)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err := env.Unused(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	got, err := c.Eval(item)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got
}

// scalars draws from few values, so that random ones are often equal.
func scalars() *rapid.Generator[value.AV] {
	return rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]string{"0", "1", "1.0", "1.5", "2", "-1", "1e2", "100"}), num),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "ab", "b", "1"}), str),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "ab"}), func(s string) value.AV { return binary([]byte(s)...) }),
	)
}

// A formula is a condition in two forms: as text, and as its meaning by the rules stated plainly
// in this file.
type formula struct {
	text    string
	binding int // 0 binds tightest: a predicate, then NOT, AND, OR
	holds   func(item, values value.Item) bool
}

// in puts f in parentheses if it binds less tightly than its place needs, or if parens is set.
func (f formula) in(place int, parens bool) string {
	if f.binding > place || parens {
		return "(" + f.text + ")"
	}
	return f.text
}

var comparisons = map[string]func(int) bool{
	"=": func(c int) bool { return c == 0 }, "<>": func(c int) bool { return c != 0 },
	"<": func(c int) bool { return c < 0 }, "<=": func(c int) bool { return c <= 0 },
	">": func(c int) bool { return c > 0 }, ">=": func(c int) bool { return c >= 0 },
}

// order compares two scalars without package value; ok reports whether both exist and have one
// type.
func order(a, b value.AV) (c int, ok bool) {
	switch a := a.(type) {
	case *types.AttributeValueMemberN:
		if b, ok := b.(*types.AttributeValueMemberN); ok {
			x, _ := new(big.Rat).SetString(a.Value)
			y, _ := new(big.Rat).SetString(b.Value)
			return x.Cmp(y), true
		}
	case *types.AttributeValueMemberS:
		if b, ok := b.(*types.AttributeValueMemberS); ok {
			return strings.Compare(a.Value, b.Value), true
		}
	case *types.AttributeValueMemberB:
		if b, ok := b.(*types.AttributeValueMemberB); ok {
			return strings.Compare(string(a.Value), string(b.Value)), true
		}
	}
	return 0, false
}

func predicate(t *rapid.T) formula {
	operands := []string{"a", "b", "c", "d", "e", ":0", ":1", ":2", ":3", ":4"}
	x := rapid.SampledFrom(operands).Draw(t, "x")
	y := rapid.SampledFrom(operands).Filter(func(y string) bool { return y != x }).Draw(t, "y")
	read := func(name string, item, values value.Item) value.AV {
		if name[0] == ':' {
			return values[name]
		}
		return item[name]
	}
	attribute := rapid.SampledFrom(operands[:5]).Draw(t, "attribute")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return formula{"attribute_exists(" + attribute + ")", 0, func(item, _ value.Item) bool { return item[attribute] != nil }}
	case 1:
		return formula{"attribute_not_exists(" + attribute + ")", 0, func(item, _ value.Item) bool { return item[attribute] == nil }}
	case 2:
		if x[0] == ':' {
			x = attribute
		}
		z := rapid.SampledFrom(operands[5:]).Draw(t, "z")
		if y == x {
			y = ":0"
		}
		return formula{fmt.Sprintf("%s IN (%s, %s)", x, y, z), 0, func(item, values value.Item) bool {
			c1, ok1 := order(read(x, item, values), read(y, item, values))
			c2, ok2 := order(read(x, item, values), read(z, item, values))
			return ok1 && c1 == 0 || ok2 && c2 == 0
		}}
	}
	op := rapid.SampledFrom([]string{"=", "<>", "<", "<=", ">", ">="}).Draw(t, "op")
	return formula{x + " " + op + " " + y, 0, func(item, values value.Item) bool {
		c, ok := order(read(x, item, values), read(y, item, values))
		if !ok {
			return op == "<>"
		}
		return comparisons[op](c)
	}}
}

func drawFormula(t *rapid.T, depth int) formula {
	if depth == 0 || rapid.IntRange(0, 4).Draw(t, "leaf") == 0 {
		return predicate(t)
	}
	parens := func() bool { return rapid.Bool().Draw(t, "parens") }
	x := drawFormula(t, depth-1)
	switch rapid.IntRange(0, 2).Draw(t, "connective") {
	case 0:
		return formula{"NOT " + x.in(1, parens()), 1, func(item, values value.Item) bool { return !x.holds(item, values) }}
	case 1:
		y := drawFormula(t, depth-1)
		return formula{x.in(2, parens()) + " AND " + y.in(2, parens()), 2, func(item, values value.Item) bool {
			return x.holds(item, values) && y.holds(item, values)
		}}
	}
	y := drawFormula(t, depth-1)
	return formula{x.in(3, parens()) + " or " + y.in(3, parens()), 3, func(item, values value.Item) bool {
		return x.holds(item, values) || y.holds(item, values)
	}}
}

// TestConditionLaws: random conditions over random items have the meaning that a direct reading
// of the rules gives, with the precedence of NOT, AND, OR. De Morgan's laws hold.
func TestConditionLaws(t *testing.T) {
	t.Parallel()
	attributes := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), scalars(), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		values := value.Item{}
		for i := range 5 {
			values[fmt.Sprintf(":%d", i)] = scalars().Draw(t, "value")
		}
		item := attributes.Draw(t, "item")
		x, y := drawFormula(t, 4), drawFormula(t, 2)
		if got, want := eval(t, x.text, item, values), x.holds(item, values); got != want {
			t.Fatalf("%s: got %v, want %v", x.text, got, want)
		}
		p, q := x.in(-1, true), y.in(-1, true)
		for left, right := range map[string]string{
			"NOT (" + p + " AND " + q + ")": "NOT " + p + " OR NOT " + q,
			"NOT (" + p + " OR " + q + ")":  "NOT " + p + " AND NOT " + q,
			strings.Repeat("NOT ", 2) + p:   p,
		} {
			if eval(t, left, item, values) != eval(t, right, item, values) {
				t.Fatalf("%s is not %s", left, right)
			}
		}
	})
}
