package expression

import "strings"

// A form is a kind of operation.
type form byte

const (
	declareLimit form = iota
	declareWriteLimit
	declarePosition
	declareReservation
	set
	copied
	gained
	gainedUntil
	remove
	add
	equal
	atMost
	below
	atLeast
	between
	exists
	absent
	absentOrEqual
	absentOrAbove
	absentOrBelow
	eitherAbsent
	formCount
)

// templates are the texts of operations: "#" stands for the attribute, "@" and "%" for
// other attributes, and ":" for each value in turn.
var templates = [formCount]string{
	set:           "#=:",
	copied:        "#=if_not_exists(@,:)",
	gained:        "#=if_not_exists(@,:)-if_not_exists(%,:)",
	gainedUntil:   "#=:-if_not_exists(@,:)",
	remove:        "#",
	add:           "# :",
	equal:         "#=:",
	atMost:        "# <= :",
	below:         "# < :",
	atLeast:       "# >= :",
	between:       "# BETWEEN : AND :",
	exists:        "attribute_exists(#)",
	absent:        "attribute_not_exists(#)",
	absentOrEqual: "(attribute_not_exists(#) OR #=:)",
	absentOrAbove: "(attribute_not_exists(#) OR # > :)",
	absentOrBelow: "(attribute_not_exists(#) OR # < :)",
	eitherAbsent:  "(attribute_not_exists(#) OR attribute_not_exists(@))",
}

// operands are the numbers of attributes and values in the templates.
var operands = func() (of [formCount]struct{ attrs, values int }) {
	for f, text := range templates {
		if strings.Contains(text, "#") {
			of[f].attrs = 1 + strings.Count(text, "@") + strings.Count(text, "%")
		}
		of[f].values = strings.Count(text, ":")
	}
	return of
}()

// maxAttrs is the most attributes of an operation.
const maxAttrs = 3

// An operation is a form with its operands.
type operation struct {
	form   form
	attrs  [maxAttrs]Attr
	values [2]Value
}

// A Condition is one part of a write's condition.
type Condition struct{ operation }

func condition(f form, a Attr, v Value) Condition {
	return Condition{operation{f, [maxAttrs]Attr{a}, [2]Value{v}}}
}

// Equals requires that an attribute equals a value.
func (a Attr) Equals(v Value) Condition { return condition(equal, a, v) }

// AtMost requires that an attribute is at most a value.
func (a Attr) AtMost(v Value) Condition { return condition(atMost, a, v) }

// Below requires that an attribute is less than a value.
func (a Attr) Below(v Value) Condition { return condition(below, a, v) }

// AtLeast requires that an attribute is at least a value.
func (a Attr) AtLeast(v Value) Condition { return condition(atLeast, a, v) }

// Between requires that an attribute lies between two values. It is one operator, and
// the server rejects bounds in the wrong order.
func (a Attr) Between(low, high Value) Condition {
	return Condition{operation{between, [maxAttrs]Attr{a}, [2]Value{low, high}}}
}

// Exists requires that the item has an attribute.
func (a Attr) Exists() Condition { return condition(exists, a, Value{}) }

// Absent requires that the item does not have an attribute.
func (a Attr) Absent() Condition { return condition(absent, a, Value{}) }

// AbsentOrEquals requires that an attribute is absent or equals a value.
func (a Attr) AbsentOrEquals(v Value) Condition { return condition(absentOrEqual, a, v) }

// AbsentOrAbove requires that an attribute is absent or greater than a value.
func (a Attr) AbsentOrAbove(v Value) Condition { return condition(absentOrAbove, a, v) }

// AbsentOrBelow requires that an attribute is absent or less than a value.
func (a Attr) AbsentOrBelow(v Value) Condition { return condition(absentOrBelow, a, v) }

// EitherAbsent requires that one of two attributes is absent.
func EitherAbsent(a, b Attr) Condition {
	return Condition{operation{form: eitherAbsent, attrs: [maxAttrs]Attr{a, b}}}
}
