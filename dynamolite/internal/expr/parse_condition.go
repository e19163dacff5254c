package expr

import "strings"

// A term is the part between keywords: a condition or an operand. Only the token after a closing
// parenthesis shows which of them "(" began.
type term struct {
	cond    *node
	operand operand // if cond is nil
	parens  bool    // the term is "( … )"
}

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

// condition returns t as a condition, for places where the grammar allows no operand.
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

func (p *parser) parseOr() (term, *Error) {
	return p.parseChain("OR", opOr, (*parser).parseAnd)
}

func (p *parser) parseAnd() (term, *Error) {
	return p.parseChain("AND", opAnd, (*parser).parseNot)
}

// parseChain reads one or more terms joined by a keyword.
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

// parsePredicate reads a term and, if that is an operand, the rest of its comparison.
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

// parsePrimary reads the term before a comparator or a keyword.
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

func errNoCondition(function string) *Error {
	if updateFunctions[function] != 0 {
		return errorf("The function is not allowed in a condition expression; function: %s", function)
	}
	return errorf("Invalid function name; function: %s", function)
}

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
