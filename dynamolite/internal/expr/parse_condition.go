package expr

import "strings"

// A term is the part between keywords: a condition or an operand. Only the token after a closing
// parenthesis shows which of them "(" began:
//
//	( a )     = :v      an operand in parentheses, and a comparison of it
//	( a = :v ) AND …    a condition in parentheses
//
// The naive parser decides at the opening parenthesis. It then has to try one reading and, if that
// fails, the other one. With nested parentheses the tries multiply. This parser reads a term of
// either kind. Its caller rejects the wrong kind: the method condition an operand, and parseOperand
// a condition.
type term struct {
	cond    *node
	operand operand // if cond is nil
	parens  bool    // the term is "( … )"
}

// parseConditionText parses a condition, a filter or a key condition; they have one grammar. A key
// condition is restricted afterwards, on the tree: see [ParseKeyCondition].
func parseConditionText(s string) (*conditionTree, *Error) {
	p, err := newParser(s)
	if err != nil {
		return nil, err
	}
	t, err := p.parseOr()
	if err != nil {
		return nil, err
	}
	root, err := p.condition(t)
	if err != nil {
		return nil, err
	}
	refs, err := p.finish()
	if err != nil {
		return nil, err
	}
	return &conditionTree{refs, root}, nil
}

// condition returns t as a condition, for places where the grammar allows no operand. A lone
// size(…) is well formed for AWS, and used in a wrong way. A path or a value alone ends where an
// operator must follow, which is a syntax error at the current token.
func (p *parser) condition(t term) (*node, *Error) {
	switch {
	case t.cond != nil:
		return t.cond, nil
	case t.operand.kind == sizeOperand:
		p.object(errMisused("size"))
		return &node{}, nil
	}
	return nil, p.syntax()
}

// parseOr reads the loosest binding of the grammar. The precedence is that of AWS ("Condition and
// filter expressions, operators, and functions"): comparisons, IN, BETWEEN and functions, then NOT,
// AND, OR.
func (p *parser) parseOr() (term, *Error) {
	return p.parseChain("OR", opOr, (*parser).parseAnd)
}

func (p *parser) parseAnd() (term, *Error) {
	return p.parseChain("AND", opAnd, (*parser).parseNot)
}

// parseChain reads one or more terms joined by a keyword. A chain is one node with all its terms,
// not a node for each keyword. So its depth in the tree does not grow with its length, and neither
// does the stack of [binding.test].
func (p *parser) parseChain(keyword string, op operator, next func(*parser) (term, *Error)) (term, *Error) {
	t, err := next(p)
	if err != nil || !p.keyword(keyword) {
		return t, err
	}
	first, err := p.condition(t)
	if err != nil {
		return t, err
	}
	chain := &node{op: op, kids: []*node{first}}
	for p.keyword(keyword) {
		p.operators++
		p.advance()
		t, err := next(p)
		if err != nil {
			return t, err
		}
		kid, err := p.condition(t)
		if err != nil {
			return t, err
		}
		chain.kids = append(chain.kids, kid)
	}
	return term{cond: chain}, nil
}

// parseNot reads a predicate after any number of NOT. Only a condition may follow NOT.
func (p *parser) parseNot() (term, *Error) {
	if !p.keyword("NOT") {
		return p.parsePredicate()
	}
	p.operators++
	p.advance()
	t, err := p.parseNot()
	if err != nil {
		return t, err
	}
	kid, err := p.condition(t)
	if err != nil {
		return t, err
	}
	return term{cond: &node{op: opNot, kids: []*node{kid}}}, nil
}

// comparators by the text of their sign.
var comparators = map[string]operator{"=": opEq, "<>": opNe, "<": opLt, "<=": opLe, ">": opGt, ">=": opGe}

// parsePredicate reads a term and, if that is an operand, the rest of its comparison. The operators
// before opExists are conditions to the grammar; those from it on are functions.
// "attribute_exists(a) = :v" is therefore well formed, and a misuse of the function. If no
// comparator follows, the term goes back as it is: the caller knows whether an operand may stand
// there.
func (p *parser) parsePredicate() (term, *Error) {
	t, err := p.parsePrimary()
	if err != nil {
		return t, err
	}
	if t.cond != nil && t.cond.op < opExists { // functions are operands to the grammar
		return t, nil
	}
	n := &node{args: []operand{t.operand}}
	switch {
	case p.tok.kind == tokSign && comparators[p.string(p.tok)] != 0:
		n.op = comparators[p.string(p.tok)]
		err = p.parseComparison(n)
	case p.keyword("BETWEEN"):
		n.op = opBetween
		err = p.parseBetween(n)
	case p.keyword("IN"):
		n.op = opIn
		err = p.parseIn(n)
	default:
		return t, nil
	}
	if t.cond != nil {
		p.object(errMisused(t.cond.op.String()))
	}
	p.operators++
	return term{cond: n}, err
}

func (p *parser) parseComparison(n *node) *Error {
	p.advance()
	return p.appendOperand(n)
}

// parseBetween takes the first AND as its own. It reads operands there and never conditions, so the
// keyword is not mistaken for a conjunction.
func (p *parser) parseBetween(n *node) *Error {
	p.advance()
	if err := p.appendOperand(n); err != nil {
		return err
	}
	if !p.keyword("AND") {
		return p.syntax()
	}
	p.advance()
	return p.appendOperand(n)
}

// parseIn reads the candidates. args[0] is the operand before IN and does not count for the limit.
func (p *parser) parseIn(n *node) *Error {
	p.advance()
	if err := p.parseOperands(n); err != nil {
		return err
	}
	if among := len(n.args) - 1; among > maxIn {
		p.object(errorf("The IN operator is provided with too many operands; number of operands: %d", among))
	}
	return nil
}

// parseOperands reads operands in parentheses, with commas between them.
func (p *parser) parseOperands(n *node) *Error {
	if err := p.expect("("); err != nil {
		return err
	}
	for {
		if err := p.appendOperand(n); err != nil {
			return err
		}
		if !p.accept(",") {
			return p.expect(")")
		}
	}
}

// appendOperand adds an operand to n even if it is faulty: args then has the number of operands as
// written.
func (p *parser) appendOperand(n *node) *Error {
	t, err := p.parseOperand()
	n.args = append(n.args, t.operand)
	return err
}

// parseOperand reads a term in a place where only an operand is allowed.
func (p *parser) parseOperand() (term, *Error) {
	if p.accept("(") {
		t, err := p.parseOperand()
		if err != nil {
			return t, err
		}
		return p.closeParens(t)
	}
	t, err := p.parseSimple()
	if err == nil && t.cond != nil {
		p.object(errMisused(t.cond.op.String()))
	}
	return t, err
}

// closeParens reads the closing parenthesis around t. Like AWS, it refuses "((a))". This mistake is
// not a flaw: it ends the parse.
func (p *parser) closeParens(t term) (term, *Error) {
	if err := p.expect(")"); err != nil {
		return t, err
	}
	if t.parens {
		return t, errRedundant
	}
	t.parens = true
	return t, nil
}

// parsePrimary reads the term before a comparator or a keyword. After "(" anything may come, so it
// starts again at the loosest binding.
func (p *parser) parsePrimary() (term, *Error) {
	if !p.accept("(") {
		return p.parseSimple()
	}
	t, err := p.parseOr()
	if err != nil {
		return t, err
	}
	return p.closeParens(t)
}

// parseSimple reads a value, a path or a function.
func (p *parser) parseSimple() (term, *Error) {
	switch {
	case p.tok.kind == tokValue:
		slot, err := p.parseValue()
		return term{operand: operand{kind: valueOperand, slot: slot}}, err
	case p.atCall():
		return p.parseFunction()
	}
	path, err := p.parsePath()
	return term{operand: operand{kind: pathOperand, path: path}}, err
}

// conditionFunctions are the functions of conditions, with their operators and numbers of
// operands.
var conditionFunctions = map[string]struct {
	op    operator
	arity int
}{
	"attribute_exists":     {opExists, 1},
	"attribute_not_exists": {opNotExists, 1},
	"attribute_type":       {opType, 2},
	"begins_with":          {opBeginsWith, 2},
	"contains":             {opContains, 2},
	"size":                 {0, 1},
}

// errNoCondition tells a function of updates from one that does not exist, as AWS does.
func errNoCondition(function string) *Error {
	if updateFunctions[function] != 0 {
		return errorf("The function is not allowed in a condition expression; function: %s", function)
	}
	return errorf("Invalid function name; function: %s", function)
}

// parseFunction reads a call. Apart from its syntax, all mistakes in it are flaws. The parse goes
// on after an unknown function or a wrong number of operands. Function names are compared as
// written: unlike keywords, they are case-sensitive. size is an operand; every other function is a
// condition.
func (p *parser) parseFunction() (term, *Error) {
	name := p.string(p.tok)
	f, ok := conditionFunctions[name]
	if !ok {
		p.object(errNoCondition(name))
		f.op = opExists // the grammar accepts any function wherever it accepts this one
	}
	p.operators++
	p.advance()
	n := &node{op: f.op}
	if err := p.parseOperands(n); err != nil {
		return term{}, err
	}
	switch {
	case len(n.args) != f.arity:
		p.object(errOperandCount(name, len(n.args)))
	case strings.HasSuffix(name, "_exists") && n.args[0].kind != pathOperand:
		p.object(errNeedsPath(name))
	}
	if name == "size" {
		return term{operand: operand{kind: sizeOperand, of: &n.args[0]}}, nil
	}
	return term{cond: n}, nil
}
