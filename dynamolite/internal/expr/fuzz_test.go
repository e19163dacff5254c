package expr_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// feed makes names and values from arbitrary bytes; it never runs out.
type feed struct{ bytes string }

func (f *feed) below(n int) int {
	if f.bytes == "" {
		return 0
	}
	b := f.bytes[0]
	f.bytes = f.bytes[1:]
	return int(b) % n
}

// attributeNames are those of the fixture, a few that it does not have, and one that is two
// elements of a path.
var attributeNames = []string{"pk", "s", "e", "n", "b", "bo", "nu", "ss", "ns", "l", "m", "x", "y", "z", "none", "m.x", "l[0]", "SET", "ü"}

// value makes an acceptable value with containers up to some depth, or occasionally an
// unacceptable one.
func (f *feed) value(depth int) value.AV {
	switch f.below(12 + 4*min(depth, 1)) {
	case 0:
		return str([]string{"", "a", "b", "S", "héllo", "😀", "\xff", "x"}[f.below(8)])
	case 1, 2, 3:
		return num([]string{"0", "1", "2", "-1", "1.0", "1e2", "0.5", "9999999999999999999999999999999999999", "9e125", "-9e125", "1e-130", "007"}[f.below(12)])
	case 4:
		return boolean(f.below(2) == 0)
	case 5:
		return null()
	case 6:
		return texts([]string{"a", "b", "c"}[:1+f.below(3)]...)
	case 7:
		return numbers([]string{"1", "2", "30"}[:1+f.below(3)]...)
	case 8:
		return &types.AttributeValueMemberBS{Value: [][]byte{{}, {1}, {1, 2}}[:1+f.below(3)]}
	case 9:
		return binary([]byte("\x00\x01\x02")[:f.below(4)]...)
	case 10:
		return []value.AV{nil, num("x"), texts(), texts("a", "a"), &types.AttributeValueMemberNULL{}, (*types.AttributeValueMemberS)(nil)}[f.below(6)]
	case 11, 12, 13:
		l := make([]value.AV, f.below(4))
		for i := range l {
			l[i] = f.value(max(depth-1, 0))
		}
		return list(l...)
	default:
		return mapped(f.item(depth - 1))
	}
}

func (f *feed) item(depth int) value.Item {
	item := value.Item{}
	for range f.below(6) {
		item[attributeNames[f.below(len(attributeNames))]] = f.value(depth)
	}
	return item
}

// stored makes an item as a store holds it: the fixture, nothing, or a random one without the
// parts that cannot be stored.
func (f *feed) stored() value.Item {
	switch f.below(4) {
	case 0:
		return nil
	case 1:
		return fixture()
	}
	item := value.Item{}
	for name, v := range f.item(3) {
		if v, err := value.Normalize(v); err == nil {
			item[name] = v
		}
	}
	return item
}

// define gives each placeholder of a text a name or value, for half of them as in the tables.
// Occasionally it leaves one out, or adds one that is not used.
func (f *feed) define(text string) (names map[string]string, values value.Item) {
	names, values = map[string]string{}, value.Item{}
	for _, mark := range nameMark.FindAllString(text, -1) {
		switch i := f.below(16); {
		case i < 8:
			names[mark] = mark[1:]
		case i < 14:
			names[mark] = attributeNames[f.below(len(attributeNames))]
		case i == 14:
			names[mark] = strings.Repeat("n", f.below(2)*70000)
		}
	}
	known := literals()
	for _, mark := range valueMark.FindAllString(text, -1) {
		if v, ok := known[mark]; ok && f.below(2) == 0 {
			values[mark] = v
		} else if f.below(16) != 1 {
			values[mark] = f.value(2)
		}
	}
	switch f.below(32) {
	case 1:
		names["#unused"], values[":unused"] = "x", str("x")
	case 2:
		names["no mark"] = "x"
	case 3:
		return nil, nil
	}
	return names, values
}

// frozen returns a text that changes if anything reachable from its arguments changes.
func frozen(t *testing.T, all ...any) string {
	t.Helper()
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blanks adds white space where there is some, and around signs.
func blanks(text string) string {
	var b strings.Builder
	b.WriteString(" \t")
	for i := range len(text) {
		c := text[i]
		switch {
		case c == ' ' || c == '\n' || c == '\r' || c == '\t':
			b.WriteString("\r\n" + string(c))
		case strings.IndexByte("()[],.+-=", c) >= 0 && !follows(text, i, "<>"):
			b.WriteString(" " + string(c) + " ")
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// follows reports whether the byte before i is one of some.
func follows(text string, i int, some string) bool {
	return i > 0 && strings.IndexByte(some, text[i-1]) >= 0
}

// recase changes the case of keywords that are separate words.
func recase(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		end := i
		for end < len(text) && (text[end] == '_' || text[end] >= '0' && text[end] <= '9' || text[end]|0x20 >= 'a' && text[end]|0x20 <= 'z') {
			end++
		}
		word := text[i:max(end, i+1)]
		if follows(text, i, "#:") || !slices.Contains([]string{"AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE"}, strings.ToUpper(word)) {
			b.WriteString(word)
		} else if word == strings.ToUpper(word) {
			b.WriteString(strings.ToLower(word))
		} else {
			b.WriteString(strings.ToUpper(word))
		}
		i += len(word)
	}
	return b.String()
}

// A trial evaluates one expression on one item. It returns everything that the expression yields,
// as a text; the error is of parsing.
type trial func(text string, env *expr.Env, item value.Item) (yield string, err error)

func tryCondition(parse func(string, *expr.Env) (*expr.Condition, error)) trial {
	return func(text string, env *expr.Env, item value.Item) (string, error) {
		c, err := parse(text, env)
		if err != nil {
			return "", err
		}
		met, err := c.Eval(item)
		if err != nil {
			return "", err
		}
		return strings.Join(c.Attributes(), " ") + map[bool]string{true: ": holds", false: ": fails"}[met], nil
	}
}

func tryProjection(text string, env *expr.Env, item value.Item) (string, error) {
	p, err := expr.ParseProjection(text, env)
	if err != nil {
		return "", err
	}
	return strings.Join(p.TopLevel(), " ") + ": " + showItem(p.Apply(item), "="), nil
}

func tryUpdate(text string, env *expr.Env, item value.Item) (string, error) {
	u, err := expr.ParseUpdate(text, env)
	if err != nil {
		return "", err
	}
	key := value.Item{"pk": str("key")}
	next, err := u.Apply(item, key)
	if err != nil {
		return "error", nil //nolint:nilerr // the item does not fit, which is a valid result
	}
	return strings.Join(u.TopLevel(), " ") + ": " + showItem(next, "=") + "; touched " + showItem(u.Touched(item), "=") + "; " + showItem(u.Touched(next), "="), nil
}

func tryKeyCondition(text string, env *expr.Env, _ value.Item) (string, error) {
	k, err := expr.ParseKeyCondition(text, env, "pk", "n")
	if err != nil {
		return "", err
	}
	yield := show(k.Hash)
	if k.Range != nil {
		yield += " " + string('0'+rune(k.Range.Op)) + show(k.Range.Low)
		if k.Range.High != nil {
			yield += show(k.Range.High)
		}
	}
	return yield, nil
}

// obey checks the laws on one trial. For any text, names, values and item: nothing panics, an
// error is an *expr.Error, no input is changed, a repetition gives the same result, and white
// space and the case of keywords do not matter. It reports whether the text was accepted.
func obey(t *testing.T, text, seed string, try trial) bool {
	t.Helper()
	f := &feed{seed}
	item := f.stored()
	names, values := f.define(text)
	before := frozen(t, names, values, item)
	env := expr.NewEnv(names, values)
	yield, err := try(text, env, item)
	if unused := env.Unused(); unused != nil {
		checkError(t, unused)
	}
	if frozen(t, names, values, item) != before {
		t.Errorf("%q changed what it was given:\n%s", text, before)
	}
	if err != nil {
		checkError(t, err)
	}
	for _, variant := range []string{text, blanks(text), recase(text)} {
		if len(variant) > 4096 && len(text) <= 4096 {
			continue
		}
		again, err2 := try(variant, expr.NewEnv(names, values), item)
		if again != yield || (err2 == nil) != (err == nil) {
			t.Errorf("%q yields %s, %v, but %q yields %s, %v", text, yield, err, variant, again, err2)
		}
	}
	return err == nil
}

func seed(f *testing.F, texts ...string) {
	f.Helper()
	for _, text := range texts {
		f.Add(text, "")                                // no item
		f.Add(text, "a")                               // the fixture, and the values of the tables
		f.Add(text, "a quick brown fox jumps high")    // the fixture, other values
		f.Add(text, "both lazy dogs sleep and do not") // another item
	}
}

func conditionTexts() (texts []string) {
	for _, tc := range conditionTable {
		texts = append(texts, tc.text)
	}
	return append(texts, strings.Repeat("NOT ", 3)+"a = b", "((a = :n) AND (b = :n))", "size(#a) > :n", "pk = :s AND n BETWEEN :n AND :n2", "begins_with(pk, :s)")
}

func FuzzCondition(f *testing.F) {
	seed(f, conditionTexts()...)
	f.Fuzz(func(t *testing.T, text, seed string) {
		if !obey(t, text, seed, tryCondition(expr.ParseCondition)) {
			return
		}
		// The negation has the opposite result, and additional parentheses change nothing.
		if len(text) > 4000 {
			return
		}
		f := &feed{seed}
		item := f.stored()
		names, values := f.define(text)
		eval := func(text string) (met, ok bool) {
			c, err := expr.ParseCondition(text, expr.NewEnv(names, values))
			if err != nil {
				return false, false
			}
			met, err = c.Eval(item)
			return met, err == nil
		}
		plain, _ := eval(text)
		if met, ok := eval("(" + text + ")"); ok && met != plain {
			t.Errorf("(%s) is %v, without parentheses %v", text, met, plain)
		}
		if met, ok := eval("NOT (" + text + ")"); ok && met == plain {
			t.Errorf("NOT (%s) is %v as well", text, met)
		}
	})
}

func FuzzFilter(f *testing.F) {
	seed(f, conditionTexts()...)
	f.Fuzz(func(t *testing.T, text, seed string) {
		obey(t, text, seed, tryCondition(expr.ParseFilter))
	})
}

func FuzzKeyCondition(f *testing.F) {
	seed(f, conditionTexts()...)
	seed(f, "pk = :s", "pk = :s AND n > :n", "n BETWEEN :n AND :n2 AND pk = :s", ":s = pk AND :n >= n", "#a = :s AND begins_with(#b, :s)")
	f.Fuzz(func(t *testing.T, text, seed string) {
		obey(t, text, seed, tryKeyCondition)
	})
}

func FuzzProjection(f *testing.F) {
	for _, tc := range projectionTable {
		seed(f, tc.text)
	}
	f.Fuzz(func(t *testing.T, text, seed string) {
		obey(t, text, seed, tryProjection)
	})
}

// FuzzUpdate checks in addition: an update makes an item that can be stored, writes only the
// attributes that it names, and its item shares no memory with the request.
func FuzzUpdate(f *testing.F) {
	for _, tc := range updateTable {
		seed(f, tc.text)
	}
	f.Fuzz(func(t *testing.T, text, seed string) {
		if !obey(t, text, seed, tryUpdate) {
			return
		}
		feed := &feed{seed}
		item := feed.stored()
		names, values := feed.define(text)
		u, err := expr.ParseUpdate(text, expr.NewEnv(names, values))
		if err != nil {
			t.Fatal(err)
		}
		key := value.Item{"pk": str("key")}
		next, err := u.Apply(item, key)
		if err != nil {
			checkError(t, err)
			return
		}
		if _, err := value.NormalizeItem(next); err != nil {
			t.Errorf("%q makes of %s what cannot be stored: %s: %v", text, showItem(item, "="), showItem(next, "="), err)
		}
		if item == nil {
			item = key
		}
		touched := u.TopLevel()
		for _, name := range slices.Sorted(maps.Keys(item)) {
			if !slices.Contains(touched, name) && next[name] != item[name] {
				t.Errorf("%q wrote to %s, but says it writes %v", text, name, touched)
			}
		}
		for name := range next {
			if _, was := item[name]; !was && !slices.Contains(touched, name) {
				t.Errorf("%q made %s, but says it writes %v", text, name, touched)
			}
		}
		before := showItem(next, "=")
		for _, v := range values {
			scribble(v)
		}
		if after := showItem(next, "="); after != before {
			t.Errorf("%q shares memory with its values: %s became %s", text, before, after)
		}
	})
}

// TestDeepText: nesting that only a too long text can have is rejected quickly, because the text
// is never parsed.
func TestDeepText(t *testing.T) {
	t.Parallel()
	const long = 10 << 20
	for name, text := range map[string]string{
		"parentheses":     strings.Repeat("(", long),
		"negations":       strings.Repeat("NOT ", long/4) + "a = b",
		"sizes":           strings.Repeat("size(", long/5),
		"members":         "a" + strings.Repeat(".a", long/2),
		"positions":       "a" + strings.Repeat("[0]", long/3),
		"sums":            "SET a = " + strings.Repeat("(", long),
		"functions":       "SET a = " + strings.Repeat("if_not_exists(a, ", long/17),
		"longest":         strings.Repeat("(", 4096),
		"longest NOT":     strings.Repeat("NOT ", 1022) + "a = b",
		"longest SET":     "SET a = " + strings.Repeat("(", 4088),
		"longest default": "SET a = " + strings.Repeat("if_not_exists(a,", 255),
	} {
		for kind, try := range map[string]trial{
			"condition": tryCondition(expr.ParseCondition), "filter": tryCondition(expr.ParseFilter), "key condition": tryKeyCondition,
			"projection": tryProjection, "update": tryUpdate,
		} {
			if _, err := try(text, expr.NewEnv(nil, nil), fixture()); err == nil {
				t.Errorf("%s was accepted as %s", name, kind)
			} else {
				checkError(t, err)
			}
		}
	}
	// The deepest accepted text can be evaluated too.
	text := strings.Repeat("NOT ", 299) + "a = b"
	if _, err := tryCondition(expr.ParseCondition)(text, expr.NewEnv(nil, nil), fixture()); err != nil {
		t.Errorf("299 negations: %v", err)
	}
}
