package expr

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// noLeaf marks a position of a [pathTree] where no path ends.
const noLeaf = -1

// A pathTree holds document paths. None of them leads into another. A position is a leaf, or has
// members, or has elements.
type pathTree struct {
	leaf int // the path that ends here, or noLeaf
	kids []branch
}

// A branch continues by name or, if index is not negative, by index.
type branch struct {
	name  string
	index int
	to    *pathTree
}

// plain reports whether each path is only a top-level name, so that no tree is needed.
func plain(paths []path) bool {
	for _, p := range paths {
		if len(p) > 1 {
			return false
		}
	}
	return true
}

// fewPaths is the largest number of paths for which comparing all pairs is cheaper.
const fewPaths = 16

// buildTree makes the tree of paths, or nil if all are plain and at most fewPaths. It returns an
// error if a path equals another or leads into it, or if paths treat one attribute both as a map
// and as a list.
func (b *binding) buildTree(paths []path) (*pathTree, *Error) {
	if plain(paths) && len(paths) <= fewPaths {
		for i, p := range paths {
			for _, q := range paths[:i] {
				if b.name(&p[0]) == b.name(&q[0]) {
					return nil, b.errPaths("overlap", q, p)
				}
			}
		}
		return nil, nil
	}
	root := &pathTree{leaf: noLeaf}
	for i, p := range paths {
		if err := b.plant(root, paths, i, p); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// plant adds paths[i], which is p, to a tree of the paths before it.
func (b *binding) plant(t *pathTree, paths []path, i int, p path) *Error {
	for k := range p {
		if t.leaf != noLeaf {
			return b.errPaths("overlap", paths[t.leaf], p)
		}
		name := ""
		if p[k].index < 0 {
			name = b.name(&p[k])
		}
		if len(t.kids) > 0 && (t.kids[0].index < 0) != (p[k].index < 0) {
			return b.errPaths("conflict", paths[t.firstLeaf()], p)
		}
		t = t.branch(name, p[k].index)
	}
	if t.leaf != noLeaf || len(t.kids) > 0 {
		return b.errPaths("overlap", paths[t.firstLeaf()], p)
	}
	t.leaf = i
	return nil
}

// branch returns the subtree that a name or index leads to, and makes it if needed.
func (t *pathTree) branch(name string, index int) *pathTree {
	for i := range t.kids {
		if t.kids[i].index == index && t.kids[i].name == name {
			return t.kids[i].to
		}
	}
	to := &pathTree{leaf: noLeaf}
	t.kids = append(t.kids, branch{name, index, to})
	return to
}

func (t *pathTree) firstLeaf() int {
	for t.leaf == noLeaf {
		t = t.kids[0].to
	}
	return t.leaf
}

func (b *binding) errPaths(what string, p, q path) *Error {
	return errorf("Two document paths %s with each other; must remove or rewrite one of these paths; path one: %s, path two: %s", what, b.pathString(p), b.pathString(q))
}

// project returns the parts of item at paths, under the same names; tree is the tree of paths.
// Elements keep their order, without gaps. Values are shared with item.
func (b *binding) project(paths []path, tree *pathTree, item value.Item) value.Item {
	if tree != nil {
		return projectMembers(tree, item)
	}
	out := make(value.Item, len(paths))
	for _, p := range paths {
		name := b.name(&p[0])
		if v, ok := item[name]; ok {
			out[name] = v
		}
	}
	return out
}

func projectMembers(t *pathTree, item value.Item) value.Item {
	out := make(value.Item, len(t.kids))
	for _, kid := range t.kids {
		if v := projectValue(kid.to, item[kid.name]); v != nil {
			out[kid.name] = v
		}
	}
	return out
}

// projectValue returns the part of v below t, or nil for nothing.
func projectValue(t *pathTree, v value.AV) value.AV {
	if t.leaf != noLeaf {
		return v
	}
	switch v := v.(type) {
	case *types.AttributeValueMemberM:
		if out := projectMembers(t, v.Value); t.kids[0].index < 0 && len(out) > 0 {
			return &types.AttributeValueMemberM{Value: out}
		}
	case *types.AttributeValueMemberL:
		var out []value.AV
		for _, kid := range t.inOrder() {
			if kid.index < 0 || kid.index >= len(v.Value) {
				continue
			}
			if e := projectValue(kid.to, v.Value[kid.index]); e != nil {
				out = append(out, e)
			}
		}
		if len(out) > 0 {
			return &types.AttributeValueMemberL{Value: out}
		}
	}
	return nil
}

// inOrder lists the branches by index.
func (t *pathTree) inOrder() []branch {
	return slices.SortedFunc(slices.Values(t.kids), func(a, b branch) int {
		if a.index != b.index {
			return a.index - b.index
		}
		return strings.Compare(a.name, b.name)
	})
}

// topLevel lists the first names of paths, each once.
func (b *binding) topLevel(paths []path) []string {
	names := make([]string, 0, len(paths))
	for _, p := range paths {
		names = appendOnce(names, b.name(&p[0]))
	}
	return names
}

func appendOnce(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}
