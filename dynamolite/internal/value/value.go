// Package value holds the values of the data plane. It implements which values DynamoDB accepts,
// and how it sizes, compares, orders and copies them.
//
// A value is a [types.AttributeValue]. A normalised value is never changed in place, so items may
// share values freely. [NormalizeItem] normalises incoming values into fresh ones; [Clone] copies
// outgoing values.
//
// A value has one of three forms:
//
//	as a request has it ── NormalizeItem ──▶ normalised ── Encode ──▶ encoded, at rest
//	                                           ▲                       │
//	                                           └─────── Decode ────────┘
//
// The naive design has a type of its own for values and converts at the border. Callers in the
// process hand over the SDK's types and want them back, so each item would be copied twice more.
// And every operation would have a second set of structures.
package value

import (
	"bytes"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is a set of attributes by name.
type Item = map[string]types.AttributeValue

// AV is one attribute value.
type AV = types.AttributeValue

// MaxDepth is how many lists and maps may be nested in one attribute. The item around it is the
// 32nd level that DynamoDB counts. The limit is in "Quotas in Amazon DynamoDB" ("Nested attribute
// depth"). It also bounds the recursion of what walks through normalised values.
const MaxDepth = 31

// An Error says why a value is not acceptable; its message is fit for a
// ValidationException.
type Error struct{ Message string }

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// TypeName returns DynamoDB's name of the type of v: "S", "N", "B", "SS", "NS", "BS", "BOOL",
// "NULL", "L" or "M"; "" for anything else.
func TypeName(v AV) string {
	switch v.(type) {
	case *types.AttributeValueMemberS:
		return "S"
	case *types.AttributeValueMemberN:
		return "N"
	case *types.AttributeValueMemberB:
		return "B"
	case *types.AttributeValueMemberSS:
		return "SS"
	case *types.AttributeValueMemberNS:
		return "NS"
	case *types.AttributeValueMemberBS:
		return "BS"
	case *types.AttributeValueMemberBOOL:
		return "BOOL"
	case *types.AttributeValueMemberNULL:
		return "NULL"
	case *types.AttributeValueMemberL:
		return "L"
	case *types.AttributeValueMemberM:
		return "M"
	}
	return ""
}

// Depth returns how many lists and maps are nested in v: 0 for a scalar or a set, 1 for an empty
// list.
func Depth(v AV) int {
	deepest := 0
	switch v := v.(type) {
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			deepest = max(deepest, Depth(e))
		}
	case *types.AttributeValueMemberM:
		for _, e := range v.Value {
			deepest = max(deepest, Depth(e))
		}
	default:
		return 0
	}
	return deepest + 1
}

// Equal reports whether a and b have the same type and value. Numbers are equal
// by value, sets regardless of order, lists and maps element by element.
//
// No case compares values of two types, so 1 and "1" differ. The NULLs of two attributes are equal:
// only true is a valid NULL.
func Equal(a, b AV) bool {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberN:
		b, ok := b.(*types.AttributeValueMemberN)
		return ok && equalNumbers(a.Value, b.Value)
	case *types.AttributeValueMemberB:
		b, ok := b.(*types.AttributeValueMemberB)
		return ok && bytes.Equal(a.Value, b.Value)
	case *types.AttributeValueMemberBOOL:
		b, ok := b.(*types.AttributeValueMemberBOOL)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberNULL:
		_, ok := b.(*types.AttributeValueMemberNULL)
		return ok
	case *types.AttributeValueMemberL:
		b, ok := b.(*types.AttributeValueMemberL)
		return ok && equalLists(a.Value, b.Value)
	case *types.AttributeValueMemberM:
		b, ok := b.(*types.AttributeValueMemberM)
		return ok && EqualItems(a.Value, b.Value)
	}
	return equalSets(a, b)
}

func equalLists(a, b []AV) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// EqualItems reports whether a and b have the same attributes with [Equal]
// values.
func EqualItems(a, b Item) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		w, ok := b[name]
		if !ok || !Equal(v, w) {
			return false
		}
	}
	return true
}

// Compare orders two strings by their bytes, two numbers by value, or two binaries by their bytes:
// order is negative, zero or positive. Values of any other types, or of two types, are not
// comparable. The strings are UTF-8, whose bytes sort as its characters do.
func Compare(a, b AV) (order int, ok bool) {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		if b, ok := b.(*types.AttributeValueMemberS); ok {
			switch {
			case a.Value < b.Value:
				return -1, true
			case a.Value > b.Value:
				return 1, true
			}
			return 0, true
		}
	case *types.AttributeValueMemberN:
		if b, ok := b.(*types.AttributeValueMemberN); ok {
			return compareNumbers(a.Value, b.Value)
		}
	case *types.AttributeValueMemberB:
		if b, ok := b.(*types.AttributeValueMemberB); ok {
			return bytes.Compare(a.Value, b.Value), true
		}
	}
	return 0, false
}
