package expr

import "github.com/zeroae/zae-limiter-go/dynamolite/internal/value"

// A verb is the operation of an update's action at its path.
type verb uint8

const (
	verbSet verb = iota + 1
	verbRemove
	verbAdd
	verbDelete
)

// verbs maps keywords to verbs.
var verbs = map[string]verb{"SET": verbSet, "REMOVE": verbRemove, "ADD": verbAdd, "DELETE": verbDelete}

// An action of an update. Its target is the path at the same index in the update's paths.
type action struct {
	verb verb
	// value is the operand that SET assigns, ADD adds or DELETE removes.
	value expression
}

// A form of expression.
type form uint8

const (
	formPath form = iota
	formValue
	formIfNotExists
	formListAppend
	formPlus
	formMinus
)

// An expression is a path, a value's slot, or a form with two operands. For formPath only path is
// set, for formValue only slot, and for the others only args.
type expression struct {
	form form
	path path
	slot int
	args []expression
}

// An updateTree is a parsed update. paths[i] is the target of actions[i]. They are apart because
// the paths alone also serve as a projection, for UPDATED_OLD and UPDATED_NEW.
type updateTree struct {
	text
	actions []action
	paths   []path
}

var updates cache[updateTree]

// An Update makes a new item from an old one. It belongs to one request. tree is nil if the targets
// are a few whole attributes, as in most updates.
type Update struct {
	binding
	*updateTree
	tree *pathTree
}

// ParseUpdate parses an UpdateExpression and binds it. An error that does not depend on the item
// is an [*Error].
//
// Everything that does not need the item is checked here, so that Apply, which runs under a lock,
// has little to refuse. The paths come last, as on AWS: two that overlap are reported only if all
// actions are valid.
func ParseUpdate(text string, env *Env) (*Update, error) {
	parsed, err := updates.get(text, parseUpdateText)
	if err != nil {
		return nil, invalid(updateExpression, err)
	}
	b, berr := env.bind(updateExpression, &parsed.text)
	if berr != nil {
		return nil, berr
	}
	for i := range parsed.actions {
		if err := b.checkAction(&parsed.actions[i]); err != nil {
			return nil, invalid(updateExpression, err)
		}
	}
	tree, err := b.buildTree(parsed.paths)
	if err != nil {
		return nil, invalid(updateExpression, err)
	}
	return &Update{b, parsed, tree}, nil
}

// TopLevel lists the top-level attributes that the update writes, each once.
func (u *Update) TopLevel() []string { return u.topLevel(u.paths) }

// Touched returns the parts of item, the old image or the new one, at the paths that the update
// writes: the result of UPDATED_OLD and UPDATED_NEW. Its values are shared with item. AWS returns
// of a nested path the touched part alone. DynamoDB Local returns the whole top-level attribute;
// the recorded cases correct it.
func (u *Update) Touched(item value.Item) value.Item {
	return u.project(u.paths, u.tree, item)
}

// checkAction returns an error for values of types that the verb or a function never accepts. AWS
// refuses these for any item, also for one that is missing. Types that only the item shows are
// found by Apply.
func (b *binding) checkAction(a *action) *Error {
	switch a.verb {
	case verbAdd:
		v := b.values[a.value.slot]
		if value.TypeName(v) != "N" && !value.IsSet(v) {
			return errVerbOperand("ADD", v)
		}
	case verbDelete:
		v := b.values[a.value.slot]
		if !value.IsSet(v) {
			return errVerbOperand("DELETE", v)
		}
	case verbSet:
		return b.checkExpression(&a.value)
	case verbRemove:
	}
	return nil
}

// errVerbOperand has the wording of AWS for ADD and DELETE, whose operand is never a path here.
func errVerbOperand(verb string, v value.AV) *Error {
	return errorf("Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: ALLOWED_FOR_%s_OPERAND", verb, value.TypeName(v), verb)
}

// checkExpression checks the operands first, like [binding.check], so that the innermost mistake is
// reported.
func (b *binding) checkExpression(e *expression) *Error {
	for i := range e.args {
		if err := b.checkExpression(&e.args[i]); err != nil {
			return err
		}
	}
	switch e.form {
	case formPlus:
		return b.checkForm(e, "+", "N")
	case formMinus:
		return b.checkForm(e, "-", "N")
	case formListAppend:
		return b.checkForm(e, "list_append", "L")
	case formIfNotExists:
		if p, q := &e.args[0], &e.args[1]; q.form == formPath && b.samePath(p.path, q.path) {
			return b.errNotDistinct("if_not_exists", p.path)
		}
	case formPath, formValue:
	}
	return nil
}

// checkForm returns an error for operands that are values of a type that a form does not accept.
func (b *binding) checkForm(e *expression, name, typeName string) *Error {
	for i := range e.args {
		if e.args[i].form != formValue {
			continue
		}
		if t := value.TypeName(b.values[e.args[i].slot]); t != typeName {
			return errOperandType(name, t)
		}
	}
	return nil
}
