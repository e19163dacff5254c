// Package expr parses, binds and evaluates DynamoDB's expressions: conditions
// and filters, updates, projections and key conditions.
//
// Each text is parsed once. Syntax trees are kept by text, and refer to names and values only by
// their place in the text. Each request binds a tree to its names and values through an [Env],
// which is cheap, and evaluates the result. Trees are immutable and shared; a binding belongs to
// one request.
package expr

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// Limits of DynamoDB.
const (
	maxText      = 4096 // bytes of an expression
	maxOperators = 300  // operators and functions in an expression
	maxIn        = 100  // operands of IN
	maxPath      = 32   // elements of a document path
)

// An Error says what is wrong with an expression, or with the item that it is applied to. Its
// message is fit for a ValidationException.
type Error struct{ Message string }

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func errorf(format string, args ...any) *Error {
	return &Error{fmt.Sprintf(format, args...)}
}

// Names of request members, as they appear in messages.
const (
	conditionExpression    = "ConditionExpression"
	filterExpression       = "FilterExpression"
	keyConditionExpression = "KeyConditionExpression"
	projectionExpression   = "ProjectionExpression"
	updateExpression       = "UpdateExpression"
)

// invalid adds the request member that err is about; nil for nil.
func invalid(member string, err *Error) error {
	return errorf("Invalid %s: %s", member, err.Message)
}

// A text holds the references of an expression of any kind: its placeholders in the order of
// their first use, and also in alphabetical order, each once.
type text struct {
	names, values             []string
	sortedNames, sortedValues []string
}

// A path leads to an attribute or into one: its first element is a name.
type path []element

// An element of a path is a position in a list if index is not negative. Otherwise it is the name
// of a map's member: the slot'th placeholder's name or, if slot is negative, name itself.
type element struct {
	name  string
	slot  int
	index int
}

// A binding resolves a text's placeholders by their slots.
type binding struct {
	names  []string
	values []value.AV
}

func (b *binding) name(e *element) string {
	if e.slot < 0 {
		return e.name
	}
	return b.names[e.slot]
}
