package expr_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// The results of a text in the tables, other than values.
const (
	refused  = "refused"  // for every item
	misfit   = "misfit"   // an error because of the item
	accepted = "accepted" // the table does not state the result
	always   = "true"
	never    = "false"
)

func num(n string) value.AV        { return &types.AttributeValueMemberN{Value: n} }
func str(s string) value.AV        { return &types.AttributeValueMemberS{Value: s} }
func boolean(b bool) value.AV      { return &types.AttributeValueMemberBOOL{Value: b} }
func null() value.AV               { return &types.AttributeValueMemberNULL{Value: true} }
func list(l ...value.AV) value.AV  { return &types.AttributeValueMemberL{Value: l} }
func mapped(m value.Item) value.AV { return &types.AttributeValueMemberM{Value: m} }
func texts(s ...string) value.AV   { return &types.AttributeValueMemberSS{Value: s} }
func numbers(n ...string) value.AV { return &types.AttributeValueMemberNS{Value: n} }
func binary(b ...byte) value.AV    { return &types.AttributeValueMemberB{Value: b} }

// fixture returns the item of the tables.
func fixture() value.Item {
	return value.Item{
		"pk": str("a"), "s": str("héllo"), "e": str("😀"), "n": num("5"), "b": binary(0, 1, 2),
		"bo": boolean(true), "nu": null(), "ss": texts("a", "b"), "ns": numbers("1", "2"),
		"l": list(num("1"), num("2"), num("3")),
		"m": mapped(value.Item{"x": num("1"), "y": str("q"), "z": list(str("a"))}),
	}
}

// literals returns the values of the placeholders in the tables.
func literals() value.Item {
	return value.Item{
		":s": str("x"), ":hel": str("hé"), ":emo": str("😀"), ":tS": str("S"), ":tX": str("QQ"),
		":n": num("1"), ":n2": num("2"), ":n0": num("0"), ":one": num("1"), ":two": num("2"), ":five": num("5"),
		":big": num(strings.Repeat("9", 38)),
		":bo":  boolean(true), ":nu": null(), ":b": binary(0, 1, 2), ":bb": binary(1),
		":ss": texts("a"), ":ssab": texts("a", "b"), ":ns": numbers("1"),
		":l": list(num("9")), ":el": list(), ":m": mapped(value.Item{"k": num("1")}),
	}
}

var (
	nameMark  = regexp.MustCompile(`#\w+`)
	valueMark = regexp.MustCompile(`:\w+`)
)

// envOf defines the placeholders of a text in the tables: #x is x, and :x as in literals.
func envOf(text string) *expr.Env {
	var names map[string]string
	for _, mark := range nameMark.FindAllString(text, -1) {
		if names == nil {
			names = map[string]string{}
		}
		names[mark] = mark[1:]
	}
	all, values := literals(), value.Item(nil)
	for _, mark := range valueMark.FindAllString(text, -1) {
		if v, ok := all[mark]; ok {
			if values == nil {
				values = value.Item{}
			}
			values[mark] = v
		}
	}
	return expr.NewEnv(names, values)
}

// checkError fails unless err is an Error of the package.
func checkError(t *testing.T, err error) {
	t.Helper()
	var e *expr.Error
	if !errors.As(err, &e) || e.Message == "" {
		t.Errorf("got %T %v, want a *expr.Error with a message", err, err)
	}
}

// show writes a value in the notation of the tables.
func show(v value.AV) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return `"` + v.Value + `"`
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberB:
		return "b" + base64.StdEncoding.EncodeToString(v.Value)
	case *types.AttributeValueMemberBOOL:
		return strconv.FormatBool(v.Value)
	case *types.AttributeValueMemberNULL:
		return "null"
	case *types.AttributeValueMemberSS:
		return "SS{" + strings.Join(slices.Sorted(slices.Values(v.Value)), " ") + "}"
	case *types.AttributeValueMemberNS:
		return "NS{" + strings.Join(slices.Sorted(slices.Values(v.Value)), " ") + "}"
	case *types.AttributeValueMemberL:
		parts := make([]string, len(v.Value))
		for i, e := range v.Value {
			parts[i] = show(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *types.AttributeValueMemberM:
		return "{" + showItem(v.Value, ":") + "}"
	}
	return fmt.Sprintf("%T", v)
}

func showItem(item value.Item, is string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(item)) {
		parts = append(parts, name+is+show(item[name]))
	}
	return strings.Join(parts, " ")
}

// showChange lists the attributes of item that differ from old, and "-x" for a removed one.
func showChange(old, item value.Item) string {
	all := maps.Clone(old)
	maps.Copy(all, item)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch v, ok := item[name]; {
		case !ok:
			parts = append(parts, "-"+name)
		case old[name] == nil || !value.Equal(old[name], v):
			parts = append(parts, name+"="+show(v))
		}
	}
	return strings.Join(parts, " ")
}

// scribble overwrites a value as its owner might.
func scribble(v value.AV) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		v.Value = "scribble"
	case *types.AttributeValueMemberN:
		v.Value = "666"
	case *types.AttributeValueMemberB:
		for i := range v.Value {
			v.Value[i] ^= 0xff
		}
	case *types.AttributeValueMemberSS:
		for i := range v.Value {
			v.Value[i] = "scribble"
		}
	case *types.AttributeValueMemberNS:
		for i := range v.Value {
			v.Value[i] = "666"
		}
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			scribble(e)
		}
	case *types.AttributeValueMemberM:
		for _, e := range v.Value {
			scribble(e)
		}
	}
}
