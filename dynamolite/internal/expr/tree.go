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
// members, or has elements. These always hold:
//   - A position with a leaf has no kids, because a path that went on would lead into the one that
//     ends there.
//   - The kids of a position are all names or all indexes. So kids[0] tells whether it stands for a
//     map or for a list.
//   - Every position but the root has a leaf or a kid: plant makes positions only on the way to a
//     leaf.
//
// The naive design applies path after path to the item. "SET m.a = :x, m.b = :y" then copies the
// map m twice, because a stored value is never changed in place. An update of n members of a large
// map would copy it n times. Removing elements of a list one by one would also shift the positions
// of those that are still to come. A tree visits each map and list once, with all that happens
// below it.
//
// The tree of "a.b, a.c[3], a.c[1], d":
//
//	root ─┬─ a ─┬─ b           0
//	      │     └─ c ─┬─ [3]   1
//	      │           └─ [1]   2
//	      └─ d                 3
type pathTree struct {
	leaf int // the path that ends here, or noLeaf
	kids []branch
}

// A branch continues by name or, if index is not negative, by index. The name is "" for an index.
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

// fewPaths is the largest number of paths for which comparing all pairs is cheaper. A tree
// allocates for each path, and most updates and projections of programs are lists of a few plain
// names.
const fewPaths = 16

// buildTree makes the tree of paths, or nil if all are plain and at most fewPaths. It returns an
// error if a path equals another or leads into it, or if paths treat one attribute both as a map
// and as a list. The paths of the error are in the order of the text, the earlier one first, as AWS
// names them.
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

// plant adds paths[i], which is p, to a tree of the paths before it. The checks come in the order
// of the path, so the first element that disagrees decides the error. At the end, a position that
// has kids already is one that earlier paths lead into.
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

// firstLeaf returns the earliest path through t. A kid is appended when its first path comes, so
// the first kid of each position has the lowest number.
func (t *pathTree) firstLeaf() int {
	for t.leaf == noLeaf {
		t = t.kids[0].to
	}
	return t.leaf
}

// errPaths has the wording of AWS for two paths that cannot stand beside each other: "overlap" or
// "conflict".
func (b *binding) errPaths(what string, p, q path) *Error {
	return errorf("Two document paths %s with each other; must remove or rewrite one of these paths; path one: %s, path two: %s", what, b.pathString(p), b.pathString(q))
}

// project returns the parts of item at paths, under the same names; tree is the tree of paths.
// Elements keep their order, without gaps. Values are shared with item. A path that leads to
// nothing leaves nothing, not an empty map or list: see projectValue.
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

// projectMembers returns the parts of item below t, whose kids are names.
func projectMembers(t *pathTree, item value.Item) value.Item {
	out := make(value.Item, len(t.kids))
	for _, kid := range t.kids {
		if v := projectValue(kid.to, item[kid.name]); v != nil {
			out[kid.name] = v
		}
	}
	return out
}

// projectValue returns the part of v below t, or nil for nothing. A value of another type than the
// paths expect is no error: a projection and UPDATED_OLD show what is there. A map or list of which
// no part is left is nothing as well, as on AWS.
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

// inOrder lists the branches by index. The kids themselves are in the order of the text. AWS
// returns elements in the order of the list, whatever the order of "l[2], l[0]", and appends
// elements beyond its end in that order, too. The tree is not sorted when it is built, because most
// trees have no positions.
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
