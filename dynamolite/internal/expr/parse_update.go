package expr

import "strings"

// parseUpdateText parses one or more sections, in any order. The same section twice is a flaw, not
// an error of syntax. An empty text has been refused before, so the loop reads at least one
// section.
func parseUpdateText(s string) (*updateTree, *Error) {
	p, err := newParser(s)
	if err != nil {
		return nil, err
	}
	u := &updateTree{}
	var seen [verbDelete + 1]bool
	for first := true; first || p.tok.kind != tokEnd; first = false {
		if p.tok.kind != tokWord {
			return nil, p.syntax()
		}
		keyword := strings.ToUpper(p.string(p.tok))
		v := verbs[keyword]
		if v == 0 {
			return nil, p.syntax()
		}
		if seen[v] {
			p.object(errorf("The %q section can only be used once in an update expression;", keyword))
		}
		seen[v] = true
		if err := p.parseSection(u, v); err != nil {
			return nil, err
		}
	}
	u.text, err = p.finish()
	return u, err
}

// parseSection reads a keyword and its actions, with commas between them.
func (p *parser) parseSection(u *updateTree, v verb) *Error {
	for more := true; more; more = p.sign(",") {
		p.advance() // the keyword or the comma
		if err := p.parseAction(u, v); err != nil {
			return err
		}
	}
	return nil
}

// parseAction reads one action. actions and paths grow together: an action finds its target by its
// own index.
func (p *parser) parseAction(u *updateTree, v verb) *Error {
	target, err := p.parsePath()
	if err != nil {
		return err
	}
	a := action{verb: v}
	switch v {
	case verbSet:
		if err := p.expect("="); err != nil {
			return err
		}
		a.value, err = p.parseAssigned()
	case verbAdd, verbDelete:
		a.value.form = formValue
		a.value.slot, err = p.parseValue()
	case verbRemove:
	}
	u.actions = append(u.actions, a)
	u.paths = append(u.paths, target)
	return err
}

// parseAssigned reads the right-hand side of SET: an operand, the sum or
// difference of two, or either in parentheses.
func (p *parser) parseAssigned() (expression, *Error) {
	e, _, err := p.parseSum()
	return e, err
}

// parseSum reads the right-hand side of SET; parens tells that all of it stands in parentheses.
//
// The grammar of AWS has at most one + or - in an assignment, and its operands are no sums
// themselves. So after a parenthesised sum nothing may follow, and the caller finds whatever does.
// A parenthesised operand may be the left side of a sum, so the parser goes on after it.
// list_append cannot be an operand of a sum; as a flaw, this waits for the end of the text.
func (p *parser) parseSum() (e expression, parens bool, err *Error) {
	if parens = p.accept("("); parens {
		var inner bool
		if e, inner, err = p.parseSum(); err != nil {
			return e, parens, err
		}
		if err = p.closeExpression(inner); err != nil || e.form == formPlus || e.form == formMinus {
			return e, parens, err
		}
	} else if e, err = p.parseSetOperand(true); err != nil {
		return e, parens, err
	}
	sum := formPlus
	switch {
	case p.sign("-"):
		sum = formMinus
	case !p.sign("+"):
		return e, parens, nil
	}
	if e.form == formListAppend {
		p.object(errMisused("list_append"))
	}
	p.operators++
	p.advance()
	right, _, err := p.parseOperandParens()
	return expression{form: sum, args: []expression{e, right}}, false, err
}

// closeExpression reads a closing parenthesis. inner reports that the parentheses contained only
// another parenthesised expression.
func (p *parser) closeExpression(inner bool) *Error {
	if err := p.expect(")"); err != nil {
		return err
	}
	if inner {
		return errRedundant
	}
	return nil
}

// parseOperandParens reads an operand that may stand in parentheses.
func (p *parser) parseOperandParens() (e expression, parens bool, err *Error) {
	if parens = p.accept("("); !parens {
		e, err = p.parseSetOperand(false)
		return e, parens, err
	}
	e, inner, err := p.parseOperandParens()
	if err != nil {
		return e, parens, err
	}
	return e, parens, p.closeExpression(inner)
}

// updateFunctions are the functions of updates, which all take two operands.
var updateFunctions = map[string]form{"if_not_exists": formIfNotExists, "list_append": formListAppend}

// parseSetOperand reads a path, a value or a function. outermost says that it is not an operand
// of a function or sum. Such an operand cannot be list_append.
func (p *parser) parseSetOperand(outermost bool) (expression, *Error) {
	switch {
	case p.tok.kind == tokValue:
		slot, err := p.parseValue()
		return expression{form: formValue, slot: slot}, err
	case p.atCall():
		return p.parseUpdateFunction(outermost)
	}
	path, err := p.parsePath()
	return expression{form: formPath, path: path}, err
}

func (p *parser) parseUpdateFunction(outermost bool) (expression, *Error) {
	name := p.string(p.tok)
	e := expression{form: updateFunctions[name]}
	switch _, inConditions := conditionFunctions[name]; {
	case inConditions:
		p.object(errorf("The function is not allowed in an update expression; function: %s", name))
	case e.form == 0:
		p.object(errorf("Invalid function name; function: %s", name))
	case e.form == formListAppend && !outermost:
		p.object(errMisused(name))
	}
	p.operators++
	p.advance()
	for more := true; more; more = p.sign(",") {
		p.advance() // the parenthesis or the comma
		arg, _, err := p.parseOperandParens()
		if err != nil {
			return e, err
		}
		e.args = append(e.args, arg)
	}
	if err := p.expect(")"); err != nil {
		return e, err
	}
	switch {
	case len(e.args) != 2:
		p.object(errOperandCount(name, len(e.args)))
	case e.form == formIfNotExists && e.args[0].form != formPath:
		p.object(errNeedsPath(name))
	}
	return e, nil
}
