// Package expr parses, binds and evaluates DynamoDB's expressions: conditions
// and filters, updates, projections and key conditions.
//
// Each text is parsed once. Syntax trees are kept by text, and refer to names and values only by
// their place in the text. Each request binds a tree to its names and values through an [Env],
// which is cheap, and evaluates the result. Trees are immutable and shared; a binding belongs to
// one request.
//
// A request is refused at the first stage that finds a mistake. Each stage knows more than the one
// before:
//
//	parse     the text alone: syntax, reserved words, numbers of operands       once for each text
//	bind      its names and values: undefined ones, malformed ones              for each expression
//	check     the types of values, the identity of paths                        for each expression
//	Unused    all expressions: names and values that none of them uses          for each request
//	Apply     the item: missing attributes, types that do not fit               under the item's lock
//
// The naive design parses and evaluates in one pass over the text. It would parse under the lock,
// again for each item that a filter looks at. And it would find a mistake only in the part that it
// evaluates.
package expr

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// Limits of DynamoDB ("Quotas in Amazon DynamoDB", "Expression parameters"). AWS names the one on
// operators for updates only; here it holds for every kind of expression. maxText is checked before
// anything else, and the others only after the syntax of the whole text: see parser.flaw.
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
// The parser does not know which of them it reads: [invalid] adds the name, so one cached tree serves
// conditions, filters and key conditions.
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
//
// A tree names a placeholder by its slot, its index in names or values. So a request fills two
// short slices and the tree stays as it is. The naive design puts the request's names and values
// into the tree. Each request then needs a tree of its own, which costs about as much as parsing.
//
// The alphabetical lists are for [Env.Unused]. It looks up every definition in every text, and a
// text is sorted once while it is used many times.
type text struct {
	names, values             []string
	sortedNames, sortedValues []string
}

// A path leads to an attribute or into one: its first element is a name. The grammar allows no path
// that begins with a position, so p[0] is always a name and the attribute that the path leads into.
type path []element

// An element of a path is a position in a list if index is not negative. Otherwise it is the name
// of a map's member: the slot'th placeholder's name or, if slot is negative, name itself. The three
// forms exclude each other: a position has slot -1 and no name. Two elements of one text can differ
// in name and slot and still mean one member, as "a" and a placeholder of "a" do. So elements are
// only ever compared through their binding.
type element struct {
	name  string
	slot  int
	index int
}

// A binding resolves a text's placeholders by their slots. names and values have the length of the
// text's lists: [Env.bind] fills all of them or fails. They may lie in the buffers of the Env, and
// the values may be the caller's own. A binding therefore ends with its request.
type binding struct {
	names  []string
	values []value.AV
}

// name returns the member that an element stands for. The element must not be a position.
func (b *binding) name(e *element) string {
	if e.slot < 0 {
		return e.name
	}
	return b.names[e.slot]
}
