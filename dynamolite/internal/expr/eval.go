package expr

import (
	"bytes"
	"strings"
	"unicode/utf16"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// An operandValue is the result of an operand: a value, a size, or neither if its path leads to
// nothing. A size is kept as an integer. As a value it would have to be made a decimal in text, for
// each item that a filter looks at.
type operandValue struct {
	v      value.AV
	size   int64
	isSize bool
}

// test evaluates a condition. It allocates nothing.
//
// Values are compared as they are stored, without copies. AND and OR stop early, which nobody can
// see: a test has no effect, and no item makes it fail.
func (b *binding) test(n *node, item value.Item) bool {
	switch n.op {
	case opAnd:
		for _, kid := range n.kids {
			if !b.test(kid, item) {
				return false
			}
		}
		return true
	case opOr:
		for _, kid := range n.kids {
			if b.test(kid, item) {
				return true
			}
		}
		return false
	case opNot:
		return !b.test(n.kids[0], item)
	case opExists:
		return b.lookup(n.args[0].path, item) != nil
	case opNotExists:
		return b.lookup(n.args[0].path, item) == nil
	default:
		return b.testOperands(n, item)
	}
}

// testOperands evaluates a comparison or a function of operands. A missing operand makes all of
// them false except <>, which is the opposite of = in every case. So "a <> :v" holds for an item
// without a, as on AWS. BETWEEN is two comparisons: bounds of different types, or in the wrong
// order, are false and no error if they come from the item.
func (b *binding) testOperands(n *node, item value.Item) bool {
	x := b.resolve(&n.args[0], item)
	if n.op == opIn {
		for i := range n.args[1:] {
			if equal(x, b.resolve(&n.args[i+1], item)) {
				return true
			}
		}
		return false
	}
	y := b.resolve(&n.args[1], item)
	switch n.op {
	case opEq:
		return equal(x, y)
	case opNe:
		return !equal(x, y)
	case opBetween:
		return ordered(y, opLe, x) && ordered(x, opLe, b.resolve(&n.args[2], item))
	case opType:
		return isType(x, y)
	case opBeginsWith:
		return beginsWith(x.v, y.v)
	case opContains:
		return contains(x.v, y)
	default:
		return ordered(x, n.op, y)
	}
}

// resolve returns the operand for an item. It shares the value with the item or the request.
func (b *binding) resolve(o *operand, item value.Item) operandValue {
	switch o.kind {
	case pathOperand:
		return operandValue{v: b.lookup(o.path, item)}
	case valueOperand:
		return operandValue{v: b.values[o.slot]}
	default:
		n, ok := sizeOf(b.resolve(o.of, item).v)
		return operandValue{size: n, isSize: ok}
	}
}

// lookup returns the value of an item at a path, or nil. A path that does not fit the item, such as
// a member of a number, leads to nothing. In an update this is checked apart: see applyInto.
func (b *binding) lookup(p path, item value.Item) value.AV {
	v := item[b.name(&p[0])]
	for i := range p[1:] {
		e := &p[i+1]
		if e.index < 0 {
			m, ok := v.(*types.AttributeValueMemberM)
			if !ok {
				return nil
			}
			v = m.Value[b.name(e)]
			continue
		}
		l, ok := v.(*types.AttributeValueMemberL)
		if !ok || e.index >= len(l.Value) {
			return nil
		}
		v = l.Value[e.index]
	}
	return v
}

// equal reports whether both are there and equal. Two missing operands are not equal to each other.
func equal(x, y operandValue) bool {
	switch {
	case x.isSize && y.isSize:
		return x.size == y.size
	case x.isSize:
		order, ok := value.CompareInt(x.size, y.v)
		return ok && order == 0
	case y.isSize:
		return equal(y, x)
	}
	return x.v != nil && y.v != nil && value.Equal(x.v, y.v)
}

// ordered reports whether x and y are of one ordered type and op holds.
//
// A size is compared as a number. A size and a text are of two types, which makes every comparison
// of order false.
func ordered(x operandValue, op operator, y operandValue) bool {
	var order int
	var ok bool
	switch {
	case x.isSize && y.isSize:
		order, ok = int(x.size-y.size), true
	case x.isSize:
		order, ok = value.CompareInt(x.size, y.v)
	case y.isSize:
		order, ok = value.CompareInt(y.size, x.v)
		order = -order
	default:
		order, ok = value.Compare(x.v, y.v)
	}
	if !ok {
		return false
	}
	switch op {
	case opLt:
		return order < 0
	case opLe:
		return order <= 0
	case opGt:
		return order > 0
	default:
		return order >= 0
	}
}

// isType implements attribute_type. The size of an operand is a number.
func isType(x, y operandValue) bool {
	name, ok := y.v.(*types.AttributeValueMemberS)
	if !ok {
		return false
	}
	if x.isSize {
		return name.Value == "N"
	}
	return x.v != nil && value.TypeName(x.v) == name.Value
}

// beginsWith compares bytes, also within a character of UTF-8. Operands of two types do not begin
// with each other.
func beginsWith(v, prefix value.AV) bool {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		prefix, ok := prefix.(*types.AttributeValueMemberS)
		return ok && strings.HasPrefix(v.Value, prefix.Value)
	case *types.AttributeValueMemberB:
		prefix, ok := prefix.(*types.AttributeValueMemberB)
		return ok && bytes.HasPrefix(v.Value, prefix.Value)
	}
	return false
}

// contains looks for a part of a string or binary, or for an element of a set or list. Elements of
// a list are compared by value and type, so a list may contain a list. A set has elements of its
// own type only, and a number in it is compared by value, too.
func contains(v value.AV, part operandValue) bool {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		part, ok := part.v.(*types.AttributeValueMemberS)
		return ok && strings.Contains(v.Value, part.Value)
	case *types.AttributeValueMemberB:
		part, ok := part.v.(*types.AttributeValueMemberB)
		return ok && bytes.Contains(v.Value, part.Value)
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			if equal(operandValue{v: e}, part) {
				return true
			}
		}
		return false
	case *types.AttributeValueMemberNS:
		if part.isSize {
			return hasSize(v, part.size)
		}
	}
	return value.HasMember(v, part.v)
}

// hasSize looks for a size in a set of numbers. The members are in stored form and compared by
// value, as contains does for numbers.
func hasSize(set *types.AttributeValueMemberNS, size int64) bool {
	for _, n := range set.Value {
		member := types.AttributeValueMemberN{Value: n}
		if order, ok := value.CompareInt(size, &member); ok && order == 0 {
			return true
		}
	}
	return false
}

// utf16Length counts as AWS and its reference engines do: a character beyond the basic plane is
// two. len would count bytes, and a range over the string counts code points; both differ from AWS
// for emoji.
func utf16Length(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// sizeOf returns the length of a string in UTF-16 code units, of a binary in bytes, or the number
// of elements of a set, list or map. Other types have no size. A condition on the size of another
// type is false, like any that does not fit the item.
func sizeOf(v value.AV) (size int64, ok bool) {
	var n int
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		n = utf16Length(v.Value)
	case *types.AttributeValueMemberB:
		n = len(v.Value)
	case *types.AttributeValueMemberSS:
		n = len(v.Value)
	case *types.AttributeValueMemberNS:
		n = len(v.Value)
	case *types.AttributeValueMemberBS:
		n = len(v.Value)
	case *types.AttributeValueMemberL:
		n = len(v.Value)
	case *types.AttributeValueMemberM:
		n = len(v.Value)
	default:
		return 0, false
	}
	return int64(n), true
}
