package expr

import "github.com/zeroae/zae-limiter-go/dynamolite/internal/value"

// A projectionTree is a parsed projection.
type projectionTree struct {
	text
	paths []path
}

var projections cache[projectionTree]

// A Projection picks parts of an item. It belongs to one request. paths are the shared tree's. tree
// is the request's own, because the names behind its placeholders decide which paths overlap. It is
// nil for a few plain paths: see [binding.buildTree].
type Projection struct {
	binding
	paths []path
	tree  *pathTree
}

// ParseProjection parses a ProjectionExpression and binds it. An error in it is an [*Error].
func ParseProjection(text string, env *Env) (*Projection, error) {
	tree, err := projections.get(text, parseProjectionText)
	if err != nil {
		return nil, invalid(projectionExpression, err)
	}
	b, berr := env.bind(projectionExpression, &tree.text)
	if berr != nil {
		return nil, berr
	}
	paths, err := b.buildTree(tree.paths)
	if err != nil {
		return nil, invalid(projectionExpression, err)
	}
	return &Projection{b, tree.paths, paths}, nil
}

// Apply returns a new item with the parts of item at the projection's paths. Its values are
// shared with item. Of a list only the requested elements remain, in their order.
func (p *Projection) Apply(item value.Item) value.Item {
	return p.project(p.paths, p.tree, item)
}

// TopLevel lists the top-level attributes that the projection mentions, each once.
func (p *Projection) TopLevel() []string { return p.topLevel(p.paths) }

func parseProjectionText(s string) (*projectionTree, *Error) {
	p, err := newParser(s)
	if err != nil {
		return nil, err
	}
	var paths []path
	for more := true; more; more = p.accept(",") {
		path, err := p.parsePath()
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	refs, err := p.finish()
	if err != nil {
		return nil, err
	}
	return &projectionTree{refs, paths}, nil
}
