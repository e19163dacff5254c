package differential_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// deviation is a place where DynamoDB Local does not answer as AWS does. dynamolite must give
// AWS's answer, which is DynamoDB Local's with some parts replaced. A replacement that changes
// nothing fails the suite: DynamoDB Local is then right, and the deviation must be removed.
type deviation struct {
	// rule is AWS's behaviour and DynamoDB Local's different behaviour.
	rule string
	// cases gives the replacements of a case.
	cases map[string]edits
	// everywhere corrects the answers of any case, and reports whether there was something to
	// correct.
	everywhere func(node map[string]any) bool
}

// edits maps a place in an outcome to the correct JSON; "" removes it. A place is a path that
// starts with the number of the answer, or with after for the final items. Edits are made in the
// order of their places.
type edits map[string]string

// expected returns AWS's answers, given those of DynamoDB Local.
func expected(t *testing.T, name string, local outcome) outcome {
	t.Helper()
	want := reread(local)
	for _, d := range deviations {
		if d.everywhere != nil {
			correct(map[string]any{"": want.Answers, " ": want.After}, d.everywhere)
		}
		if edits, ok := d.cases[name]; ok {
			before := reread(want)
			edits.apply(t, &want)
			if difference(before, want) == "" {
				t.Errorf("DynamoDB Local no longer deviates in this case; remove it from: %s", d.rule)
			}
		}
	}
	return want
}

// correct applies fix to every map of a tree and reports whether one changed.
func correct(tree any, fix func(map[string]any) bool) bool {
	changed := false
	switch node := tree.(type) {
	case map[string]any:
		changed = fix(node)
		for _, child := range node {
			changed = correct(child, fix) || changed
		}
	case []any:
		for _, child := range node {
			changed = correct(child, fix) || changed
		}
	}
	return changed
}

func (e edits) apply(t *testing.T, o *outcome) {
	t.Helper()
	root := map[string]any{"answers": o.Answers, "after": o.After}
	for _, path := range slices.Sorted(maps.Keys(e)) {
		var value any
		if text := e[path]; text != "" {
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Fatalf("edit at %s: %v", path, err)
			}
		}
		steps := strings.Split(path, "/")
		if steps[0] != "after" {
			steps = append([]string{"answers"}, steps...)
		}
		if replace(root, steps, value) == nil {
			t.Fatalf("edit at %s: there is nothing", path)
		}
	}
	o.Answers, _ = root["answers"].([]any)
	o.After, _ = root["after"].([]any)
}

// replace changes the value at the path in place; nil removes it. It returns the tree, or nil if
// the path leads nowhere.
func replace(tree any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	switch node := tree.(type) {
	case map[string]any:
		if len(path) == 1 && value == nil {
			delete(node, path[0])
			return node
		}
		child, ok := node[path[0]]
		if !ok && len(path) > 1 {
			return nil
		}
		if child = replace(child, path[1:], value); child == nil {
			return nil
		}
		node[path[0]] = child
		return node
	case []any:
		var i int
		if err := json.Unmarshal([]byte(path[0]), &i); err != nil || i > len(node) {
			return nil
		}
		if i == len(node) {
			node = append(node, nil)
		}
		if len(path) == 1 && value == nil {
			return slices.Delete(node, i, i+1)
		}
		child := replace(node[i], path[1:], value)
		if child == nil {
			return nil
		}
		node[i] = child
		return node
	default:
		return nil
	}
}

// TestDeviationsEverywhereStillExist finds each of these deviations in the golden files.
func TestDeviationsEverywhereStillExist(t *testing.T) {
	t.Parallel()
	for _, d := range deviations {
		if d.everywhere == nil {
			continue
		}
		found := false
		for _, o := range readGolden(t) {
			found = correct(o.Answers, d.everywhere) || found
		}
		if !found {
			t.Errorf("DynamoDB Local no longer deviates; remove: %s", d.rule)
		}
	}
}
