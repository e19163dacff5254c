package expr

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// check returns errors of a condition that do not depend on the item: operands of types that an
// operator never accepts, and operands that are the same path.
//
// AWS refuses these even if no item is there, or if the part of the condition would not be
// evaluated. The check can thus not be a part of [binding.test], which stops early. It checks
// conditions in the order of the text, and reports the first mistake.
func (b *binding) check(n *node) *Error {
	for _, kid := range n.kids {
		if err := b.check(kid); err != nil {
			return err
		}
	}
	for i := range n.args {
		if err := b.checkSize(&n.args[i]); err != nil {
			return err
		}
	}
	if err := b.checkDistinct(n); err != nil {
		return err
	}
	switch n.op {
	case opLt, opLe, opGt, opGe:
		return b.checkTypes(n, "S", "N", "B")
	case opBetween:
		if err := b.checkTypes(n, "S", "N", "B"); err != nil {
			return err
		}
		return b.checkBounds(n)
	case opBeginsWith:
		return b.checkTypes(n, "S", "B")
	case opType:
		return b.checkTypeName(&n.args[1])
	default:
		return nil
	}
}

// staticType returns the type of an operand if it does not depend on the item, else "".
func (b *binding) staticType(o *operand) string {
	switch o.kind {
	case valueOperand:
		return value.TypeName(b.values[o.slot])
	case sizeOperand:
		return "N"
	default:
		return ""
	}
}

// checkTypes looks only at operands whose type is known. A path may lead to any type, and a value
// that does not fit makes the comparison false.
func (b *binding) checkTypes(n *node, allowed ...string) *Error {
	for i := range n.args {
		if t := b.staticType(&n.args[i]); t != "" && !slices.Contains(allowed, t) {
			return errOperandType(n.op.String(), t)
		}
	}
	return nil
}

// errOperandType has the wording of AWS for conditions and for the functions of updates. Verbs have
// another: see errVerbOperand.
func errOperandType(operator, typeName string) *Error {
	return errorf("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, typeName)
}

// checkSize looks into size(…), also into a nested one. A size is a number, which has no size. So
// size(size(a)) is well formed but never valid.
func (b *binding) checkSize(o *operand) *Error {
	if o.kind != sizeOperand {
		return nil
	}
	if err := b.checkSize(o.of); err != nil {
		return err
	}
	switch t := b.staticType(o.of); t {
	case "N", "BOOL", "NULL":
		return errOperandType("size", t)
	}
	return nil
}

// checkDistinct compares the first operand, if it is a path, with each other path. The others are
// not compared with each other: "a IN (b, b)" is valid.
func (b *binding) checkDistinct(n *node) *Error {
	if len(n.args) == 0 || n.args[0].kind != pathOperand {
		return nil
	}
	for i := range n.args[1:] {
		o := &n.args[i+1]
		if o.kind == pathOperand && b.samePath(n.args[0].path, o.path) {
			return b.errNotDistinct(n.op.String(), o.path)
		}
	}
	return nil
}

func (b *binding) errNotDistinct(operator string, p path) *Error {
	return errorf("The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %s", operator, b.pathString(p))
}

// samePath compares resolved names: "#a" and "a" are the same path if #a stands for a.
func (b *binding) samePath(p, q path) bool {
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if !b.sameElement(&p[i], &q[i]) {
			return false
		}
	}
	return true
}

// sameElement compares positions with positions and names with names; the two never equal each
// other.
func (b *binding) sameElement(e, f *element) bool {
	if e.index >= 0 || f.index >= 0 {
		return e.index == f.index
	}
	return b.name(e) == b.name(f)
}

// pathString returns a path as AWS writes it in messages: "[a, b, [0]]".
func (b *binding) pathString(p path) string {
	parts := make([]string, len(p))
	for i := range p {
		if p[i].index >= 0 {
			parts[i] = "[" + strconv.Itoa(p[i].index) + "]"
		} else {
			parts[i] = b.name(&p[i])
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// checkBounds compares the bounds of BETWEEN if both are values. Other bounds are compared for each
// item, where a misfit makes the condition false: see testOperands.
func (b *binding) checkBounds(n *node) *Error {
	low, high := &n.args[1], &n.args[2]
	if low.kind != valueOperand || high.kind != valueOperand {
		return nil
	}
	lo, hi := b.values[low.slot], b.values[high.slot]
	order, ok := value.Compare(lo, hi)
	if !ok {
		return errorf("The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: %s, upper bound operand: %s", value.TypeName(lo), value.TypeName(hi))
	}
	if order > 0 {
		return errorf("The BETWEEN operator requires upper bound to be greater than or equal to lower bound; type of bounds: %s", value.TypeName(lo))
	}
	return nil
}

// typeNames are the valid type names in attribute_type().
var typeNames = []string{"S", "N", "B", "SS", "NS", "BS", "BOOL", "NULL", "L", "M"}

// checkTypeName demands a value. AWS allows no path as the type's name, and its message then lists
// the names in place of a type.
func (b *binding) checkTypeName(o *operand) *Error {
	if o.kind != valueOperand {
		return errOperandType(opType.String(), "{S,N,B,SS,NS,BS,BOOL,NULL,L,M}")
	}
	name, ok := b.values[o.slot].(*types.AttributeValueMemberS)
	if !ok {
		return errOperandType(opType.String(), b.staticType(o))
	}
	if !slices.Contains(typeNames, name.Value) {
		return errorf("Invalid attribute type name found; type: %s, valid types: {%s}", name.Value, strings.Join(typeNames, ","))
	}
	return nil
}
