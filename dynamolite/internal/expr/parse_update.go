package expr

import "strings"

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
			return nil, errorf("The %q section can only be used once in an update expression;", keyword)
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
		if err := p.advance(); err != nil { // the keyword or the comma
			return err
		}
		if err := p.parseAction(u, v); err != nil {
			return err
		}
	}
	return nil
}

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

func (p *parser) parseSum() (e expression, parens bool, err *Error) {
	if parens, err = p.accept("("); err != nil {
		return e, parens, err
	}
	if parens {
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
		return e, false, errMisused("list_append")
	}
	p.operators++
	if err = p.advance(); err != nil {
		return e, false, err
	}
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
	if parens, err = p.accept("("); err != nil {
		return e, parens, err
	}
	if !parens {
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
	if e.form == 0 {
		if _, ok := conditionFunctions[name]; ok {
			return e, errorf("The function is not allowed in an update expression; function: %s", name)
		}
		return e, errorf("Invalid function name; function: %s", name)
	}
	if e.form == formListAppend && !outermost {
		return e, errMisused(name)
	}
	p.operators++
	if err := p.advance(); err != nil {
		return e, err
	}
	for more := true; more; more = p.sign(",") {
		if err := p.advance(); err != nil { // the parenthesis or the comma
			return e, err
		}
		arg, _, err := p.parseOperandParens()
		if err != nil {
			return e, err
		}
		e.args = append(e.args, arg)
	}
	if err := p.expect(")"); err != nil {
		return e, err
	}
	if len(e.args) != 2 {
		return e, errOperandCount(name, len(e.args))
	}
	if e.form == formIfNotExists && e.args[0].form != formPath {
		return e, errNeedsPath(name)
	}
	return e, nil
}
