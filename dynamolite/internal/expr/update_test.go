package expr_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// TestUpdates compares the updates with the answers of DynamoDB Local 2.6.1 for the same item and
// values.
func TestUpdates(t *testing.T) {
	t.Parallel()
	for _, tc := range updateTable {
		got, err := applied(tc.text)
		if err != nil {
			checkError(t, err)
		}
		if got != tc.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", tc.text, got, err, tc.want)
		}
	}
}

// applied returns the changes that a text makes in the fixture, or the kind of its error.
func applied(text string) (string, error) {
	u, err := expr.ParseUpdate(text, envOf(text))
	if err != nil {
		return refused, err
	}
	old := fixture()
	item, err := u.Apply(old, nil)
	if err != nil {
		return misfit, err
	}
	return showChange(old, item), nil
}

// TestUpdateLeavesOldAlone: stored items are shared, so no update may write to the old image.
func TestUpdateLeavesOldAlone(t *testing.T) {
	t.Parallel()
	for _, tc := range updateTable {
		u, err := expr.ParseUpdate(tc.text, envOf(tc.text))
		if err != nil {
			continue
		}
		old := fixture()
		_, _ = u.Apply(old, nil) // a misfit must not write either
		if diff := cmp.Diff(showItem(fixture(), "="), showItem(old, "=")); diff != "" {
			t.Errorf("%s changed the old image (-want +got):\n%s", tc.text, diff)
		}
	}
}

// TestUpdateTakesNoAlias: the owner of a request's values may write to them once the update is
// done.
func TestUpdateTakesNoAlias(t *testing.T) {
	t.Parallel()
	values := literals()
	for _, text := range []string{
		"SET q = :s, q2 = :n, q3 = if_not_exists(nope, :s), q4 = :l", "ADD q :n, q2 :ns", "ADD q :ss, ss :ssab",
		"SET q = list_append(:l, l), l[9] = :s", "SET q = :b, q2 = :m, m.q = :b",
	} {
		used := value.Item{}
		for _, mark := range valueMark.FindAllString(text, -1) {
			used[mark] = value.Clone(value.Item{"v": values[mark]})["v"]
		}
		u, err := expr.ParseUpdate(text, expr.NewEnv(nil, used))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		item, err := u.Apply(fixture(), nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := showItem(item, "=")
		for _, v := range used {
			scribble(v)
		}
		if diff := cmp.Diff(want, showItem(item, "=")); diff != "" {
			t.Errorf("%s kept a value of the request (-want +got):\n%s", text, diff)
		}
	}
}

// TestUpsert: an update of a missing item starts from the key, which its operands can read.
func TestUpsert(t *testing.T) {
	t.Parallel()
	key := value.Item{"pk": str("new")}
	for text, want := range map[string]string{
		"SET q = pk, n = if_not_exists(n, :five)": `n=5 pk="new" q="new"`,
		"ADD q :n, r :ss":                         `pk="new" q=1 r=SS{a}`,
		"REMOVE q DELETE ss :ss":                  `pk="new"`,
	} {
		u, err := expr.ParseUpdate(text, envOf(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		item, err := u.Apply(nil, key)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := showItem(item, "="); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got := showItem(key, "="); got != `pk="new"` {
		t.Errorf("the key was written to: %s", got)
	}
}

// TestTouched follows AWS: the result has only the leaves that an update names. DynamoDB Local
// returns whole attributes.
func TestTouched(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, old, new string }{
		{"SET m.x = :n2", "m={x:1}", "m={x:2}"},
		{"SET l[1] = :s", "l=[2]", `l=["x"]`},
		{"SET l[0] = :s, l[2] = :s", "l=[1 3]", `l=["x" "x"]`},
		{"SET l[9] = :s", "", ""},
		{"REMOVE n", "n=5", ""},
		{"REMOVE m.x", "m={x:1}", ""},
		{"ADD q :n", "", "q=1"},
		{"SET q = :n, n = :n2", "n=5", "n=2 q=1"},
		{"DELETE ss :ss", "ss=SS{a b}", "ss=SS{b}"},
		{"SET m.z[0] = :n, m.q = :s REMOVE s", `m={z:["a"]} s="héllo"`, `m={q:"x" z:[1]}`},
	} {
		u, err := expr.ParseUpdate(tc.text, envOf(tc.text))
		if err != nil {
			t.Fatalf("%s: %v", tc.text, err)
		}
		item, err := u.Apply(fixture(), nil)
		if err != nil {
			t.Fatalf("%s: %v", tc.text, err)
		}
		if got := showItem(u.Touched(fixture()), "="); got != tc.old {
			t.Errorf("%s: of the old image got %q, want %q", tc.text, got, tc.old)
		}
		if got := showItem(u.Touched(item), "="); got != tc.new {
			t.Errorf("%s: of the new image got %q, want %q", tc.text, got, tc.new)
		}
	}
}

func TestUpdateTopLevel(t *testing.T) {
	t.Parallel()
	const text = "SET m.x = n, #a = :n, m.y = :n REMOVE l[0] ADD q :n"
	u, err := expr.ParseUpdate(text, envOf(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"m", "a", "l", "q"}, u.TopLevel()); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

// TestUpdateLimits: the item that an update makes must be storable.
func TestUpdateLimits(t *testing.T) {
	t.Parallel()
	deep := list()
	for range value.MaxDepth - 1 {
		deep = list(deep)
	}
	old := value.Item{"pk": str("a"), "m": mapped(value.Item{}), "top": num("99999999999999999999999999999999999999"), "wide": num("9e125")}
	for text, ok := range map[string]bool{
		"SET q = :deep":                     true,
		"SET m.q = :deep":                   false,
		"SET q = list_append(:deep, :deep)": true,
		"ADD top :n":                        true,
		"ADD top :tenth":                    false,
		"SET q = top - :tenth":              false,
		"ADD wide :wide":                    false,
	} {
		values := value.Item{}
		for mark, v := range (value.Item{":deep": deep, ":n": num("1"), ":tenth": num("0.1"), ":wide": num("9e125")}) {
			if slices.Contains(valueMark.FindAllString(text, -1), mark) {
				values[mark] = v
			}
		}
		u, err := expr.ParseUpdate(text, expr.NewEnv(nil, values))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		_, err = u.Apply(old, nil)
		if (err == nil) != ok {
			t.Errorf("%s: got %v, want accepted %v", text, err, ok)
		}
		if err != nil {
			checkError(t, err)
		}
	}
}
