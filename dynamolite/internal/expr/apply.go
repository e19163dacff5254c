package expr

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

var (
	// These depend on the item, so an update can be refused after it was parsed. In a transaction
	// they cancel it with the reason ValidationError; as a single update it is a
	// ValidationException.
	errNoAttribute = &Error{"The provided expression refers to an attribute that does not exist in the item"}
	errBadPath     = &Error{"The document path provided in the update expression is invalid for update"}
	errBadType     = &Error{"An operand in the update expression has an incorrect data type"}
	errTooDeep     = &Error{"Nesting Levels have exceeded supported limits"}
)

// An outcome is the effect of an action on its target: the target is set to v, dropped, or left
// alone. At most one of v and drop is set. Neither leaves the target alone, as DELETE does to a
// missing set.
type outcome struct {
	v    value.AV
	drop bool
}

// usualActions is how many outcomes fit on the stack. More of them move to the heap.
const usualActions = 24

// Apply returns a new item: old as the update changes it. If old is nil, the update creates an
// item, and Apply starts from key. It reads every operand from the item before the update.
// Unchanged values are shared with old. If old does not fit the update, Apply returns an [*Error]
// and no item.
//
// It works in two steps: all outcomes, and only then the new item. AWS evaluates every operand
// against the item before the update, so that "SET a = b, b = a" exchanges both. The naive design
// applies action by action. The second one would read what the first has written:
//
//	item {a:1 b:2}     SET a = b        SET b = a
//	one by one         {a:2 b:2}        {a:2 b:2}      a is lost
//	outcomes first     a←2              b←1            {a:2 b:1}
//
// The first step also finds nearly every error, before the item is copied. The second
// finds only paths that do not fit it.
func (u *Update) Apply(old, key value.Item) (value.Item, error) {
	if old == nil {
		old = key
	}
	var buf [usualActions]outcome
	outcomes := buf[:0]
	var slab value.Slab
	for i := range u.actions {
		o, err := u.outcome(&slab, i, old)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, o)
	}
	if u.tree == nil {
		return u.applyPlain(outcomes, old), nil
	}
	item, err := applyMembers(u.tree, outcomes, old)
	if err != nil {
		return nil, err
	}
	return item, nil
}

// applyPlain applies updates of whole attributes. Their names differ, so the order of the actions
// does not matter.
func (u *Update) applyPlain(outcomes []outcome, old value.Item) value.Item {
	item := copyItem(old)
	for i, o := range outcomes {
		name := u.name(&u.paths[i][0])
		switch {
		case o.drop:
			delete(item, name)
		case o.v != nil:
			item[name] = o.v
		}
	}
	return item
}

// copyItem shares the values. Cloning is almost twice as fast as filling a map of the right size,
// so reserving room for new attributes does not pay off. The result is the caller's to change, and
// an empty item becomes an empty map, never nil.
func copyItem(item value.Item) value.Item {
	if len(item) == 0 {
		return value.Item{}
	}
	return maps.Clone(item)
}

// outcome computes the i'th action. It reads old and changes nothing. more is how many values are
// still to be made, which sizes the slab's blocks. A value that SET puts below a path counts with
// the levels above it. Without this check, an update could build an item that is nested deeper than
// a put may be.
func (u *Update) outcome(slab *value.Slab, i int, old value.Item) (outcome, error) {
	a, target := &u.actions[i], u.paths[i]
	more := len(u.actions) - i
	switch a.verb {
	case verbSet:
		v, err := u.eval(slab, &a.value, old, more)
		if err != nil {
			return outcome{}, err
		}
		if value.Depth(v)+len(target)-1 > value.MaxDepth {
			return outcome{}, errTooDeep
		}
		return outcome{v: v}, nil
	case verbAdd:
		return u.add(slab, u.lookup(target, old), u.values[a.value.slot], more)
	case verbDelete:
		return subtract(u.lookup(target, old), u.values[a.value.slot])
	default:
		return outcome{drop: true}, nil
	}
}

// add computes ADD: a number that is missing counts as 0, and a set that is missing as empty. So
// the operand itself is the result, as a copy: it may be the caller's own.
func (u *Update) add(slab *value.Slab, current, v value.AV, more int) (outcome, error) {
	if current == nil {
		return outcome{v: slab.Clone(v, more)}, nil
	}
	if n, ok := current.(*types.AttributeValueMemberN); ok {
		by, ok := v.(*types.AttributeValueMemberN)
		if !ok {
			return outcome{}, errBadType
		}
		sum, err := value.AddNumbers(n.Value, by.Value)
		if err != nil {
			return outcome{}, &Error{err.Error()}
		}
		return outcome{v: slab.Number(sum, more)}, nil
	}
	union, ok := value.Union(current, v)
	if !ok {
		return outcome{}, errBadType
	}
	return outcome{v: union}, nil
}

// subtract leaves a missing attribute alone and drops one that is used up. A set is never empty in
// DynamoDB, so the attribute goes with its last member.
func subtract(current, v value.AV) (outcome, error) {
	if current == nil {
		return outcome{}, nil
	}
	rest, ok := value.Minus(current, v)
	if !ok {
		return outcome{}, errBadType
	}
	return outcome{v: rest, drop: rest == nil}, nil
}

// eval returns the value of an expression; it shares no memory with the request. Values of old are
// shared and not copied: stored values never change. Those of the request are copied, because the
// caller may change them once the request is done.
func (u *Update) eval(slab *value.Slab, e *expression, old value.Item, more int) (value.AV, error) {
	switch e.form {
	case formPath:
		if v := u.lookup(e.path, old); v != nil {
			return v, nil
		}
		return nil, errNoAttribute
	case formValue:
		return slab.Clone(u.values[e.slot], more), nil
	case formIfNotExists:
		// The second operand must exist even if it is not used.
		v, fallback := u.lookup(e.args[0].path, old), &e.args[1]
		if v != nil && fallback.form == formValue {
			return v, nil
		}
		w, err := u.eval(slab, fallback, old, more)
		if v == nil || err != nil {
			return w, err
		}
		return v, nil
	default:
	}
	x, err := u.eval(slab, &e.args[0], old, more)
	if err != nil {
		return nil, err
	}
	y, err := u.eval(slab, &e.args[1], old, more)
	if err != nil {
		return nil, err
	}
	if e.form == formListAppend {
		return join(x, y)
	}
	return calculate(slab, e.form, x, y, more)
}

// join returns a new list. An append to head could write into memory that the stored list shares.
func join(x, y value.AV) (value.AV, error) {
	head, ok1 := x.(*types.AttributeValueMemberL)
	tail, ok2 := y.(*types.AttributeValueMemberL)
	if !ok1 || !ok2 {
		return nil, errBadType
	}
	return &types.AttributeValueMemberL{Value: slices.Concat(head.Value, tail.Value)}, nil
}

// calculate adds or subtracts exact decimals; see [value.AddNumbers]. A float keeps about 16
// digits, and AWS keeps 38.
func calculate(slab *value.Slab, f form, x, y value.AV, more int) (value.AV, error) {
	m, ok1 := x.(*types.AttributeValueMemberN)
	n, ok2 := y.(*types.AttributeValueMemberN)
	if !ok1 || !ok2 {
		return nil, errBadType
	}
	op := value.AddNumbers
	if f == formMinus {
		op = value.SubNumbers
	}
	s, err := op(m.Value, n.Value)
	if err != nil {
		return nil, &Error{err.Error()}
	}
	return slab.Number(s, more), nil
}

// applyMembers returns a copy of item with the outcomes below t. Only the maps on the way to a
// target are copied; all other values are shared with the old item.
func applyMembers(t *pathTree, outcomes []outcome, item value.Item) (value.Item, *Error) {
	out := copyItem(item)
	for _, kid := range t.kids {
		if kid.to.leaf == noLeaf {
			v, err := applyInto(kid.to, outcomes, item[kid.name])
			if err != nil {
				return nil, err
			}
			out[kid.name] = v
			continue
		}
		switch o := outcomes[kid.to.leaf]; {
		case o.drop:
			delete(out, kid.name)
		case o.v != nil:
			out[kid.name] = o.v
		}
	}
	return out, nil
}

// applyInto returns a copy of v with the outcomes below t. v must be of the type that these paths
// need. AWS creates no maps on the way: a path through a missing attribute is as invalid as one
// through a number, also for REMOVE.
func applyInto(t *pathTree, outcomes []outcome, v value.AV) (value.AV, *Error) {
	byName := t.kids[0].index < 0
	switch v := v.(type) {
	case *types.AttributeValueMemberM:
		if byName {
			out, err := applyMembers(t, outcomes, v.Value)
			return &types.AttributeValueMemberM{Value: out}, err
		}
	case *types.AttributeValueMemberL:
		if !byName {
			out, err := applyElements(t, outcomes, v.Value)
			return &types.AttributeValueMemberL{Value: out}, err
		}
	}
	return nil, errBadPath
}

// applyElements returns a copy of list with the outcomes below t. Positions refer to the list
// before the update. Elements set beyond its end are appended in the order of their positions.
// Elements are dropped last.
//
// The order of these steps keeps the positions valid. If an element were dropped first, those
// behind it would move, and a later "SET l[3]" would hit the wrong one. Dropping from the last to
// the first has the same reason. As on AWS, a position beyond the end appends without a gap: "SET
// l[9]" on a list of two makes a third element.
//
// "SET l[3] = :x, l[9] = :y REMOVE l[0], l[2]" takes these steps:
//
//	before       [ a b c d ]
//	set inside   [ a b c x ]
//	appended     [ a b c x y ]
//	dropped      [ b x y ]
func applyElements(t *pathTree, outcomes []outcome, list []value.AV) ([]value.AV, *Error) {
	out := slices.Grow(slices.Clone(list), len(t.kids))
	var dropped []int
	for _, kid := range t.inOrder() {
		at := kid.index
		inside := at < len(list)
		if kid.to.leaf == noLeaf {
			if !inside {
				return nil, errBadPath
			}
			v, err := applyInto(kid.to, outcomes, list[at])
			if err != nil {
				return nil, err
			}
			out[at] = v
			continue
		}
		switch o := outcomes[kid.to.leaf]; {
		case o.drop && inside:
			dropped = append(dropped, at)
		case o.v != nil && inside:
			out[at] = o.v
		case o.v != nil:
			out = append(out, o.v)
		}
	}
	for _, at := range slices.Backward(dropped) {
		out = slices.Delete(out, at, at+1)
	}
	return out, nil
}
