package expr

import "github.com/zeroae/zae-limiter-go/dynamolite/internal/value"

// An operator of a condition. Their order matters: from opExists on they are functions, and the
// others are keywords and signs. The parser tells them apart by that, and operatorNames is indexed
// by them. The comparators are never zero, so a map of them returns zero for a sign that is none.
type operator uint8

const (
	opAnd operator = iota
	opOr
	opNot
	opEq
	opNe
	opLt
	opLe
	opGt
	opGe
	opBetween
	opIn
	opExists
	opNotExists
	opType
	opBeginsWith
	opContains
)

// operatorNames are the names in messages.
var operatorNames = [...]string{
	"AND", "OR", "NOT", "=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN",
	"attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains",
}

func (op operator) String() string { return operatorNames[op] }

// A node of a condition has conditions below it if its operator is AND (two or more), OR (two or
// more) or NOT (one). Otherwise it has operands. Nodes are shared by all requests with the same
// text, so nothing changes them after the parse.
type node struct {
	op operator
	// kids and args exclude each other. args[0] is the operand before a sign or keyword, or the
	// first of a function.
	kids []*node
	args []operand
}

// A kind of operand.
type operandKind uint8

const (
	pathOperand operandKind = iota
	valueOperand
	sizeOperand
)

// An operand is a path, a value's slot, or the size of another operand. A size has only of, which
// may itself be a size: the grammar allows size(size(a)).
type operand struct {
	kind operandKind
	path path
	slot int
	of   *operand
}

// A conditionTree is a parsed condition.
type conditionTree struct {
	text
	root *node
}

// conditions is for all requests of the process, whatever their table: a tree knows no names of
// tables.
var conditions cache[conditionTree]

// A Condition is true or false for an item. It belongs to one request. Its binding lies in the
// buffers of the Env and keeps the Env alive.
type Condition struct {
	binding
	root *node
}

// ParseCondition parses a ConditionExpression and binds it. An error that does not depend on the
// item is an [*Error].
func ParseCondition(text string, env *Env) (*Condition, error) {
	return parseCondition(conditionExpression, text, env)
}

// ParseFilter is [ParseCondition] for a FilterExpression, which differs only in its messages.
func ParseFilter(text string, env *Env) (*Condition, error) {
	return parseCondition(filterExpression, text, env)
}

// parseCondition parses, binds and checks, in this order: AWS reports an error of syntax before an
// undefined placeholder, and both before a wrong type. The checks need the values, so they are
// repeated for each request.
func parseCondition(member, text string, env *Env) (*Condition, error) {
	tree, err := conditions.get(text, parseConditionText)
	if err != nil {
		return nil, invalid(member, err)
	}
	b, berr := env.bind(member, &tree.text)
	if berr != nil {
		return nil, berr
	}
	if err := b.check(tree.root); err != nil {
		return nil, invalid(member, err)
	}
	return &Condition{b, tree.root}, nil
}

// Eval reports whether the condition holds for an item; nil means no item, which has no
// attributes. No item makes Eval fail: a comparison of types that do not fit is false, and so is
// that of a missing attribute, except that <> is then true. The error is for conditions whose
// validity depends on the item; there are none.
func (c *Condition) Eval(item value.Item) (bool, error) {
	return c.test(c.root, item), nil
}

// Attributes lists the top-level attributes that the condition mentions, each once, in the order
// of their first mention.
func (c *Condition) Attributes() []string {
	return c.attributes(nil, c.root)
}

func (b *binding) attributes(names []string, n *node) []string {
	for _, kid := range n.kids {
		names = b.attributes(names, kid)
	}
	for i := range n.args {
		o := &n.args[i]
		for o.kind == sizeOperand {
			o = o.of
		}
		if o.kind == pathOperand {
			names = appendOnce(names, b.name(&o.path[0]))
		}
	}
	return names
}
