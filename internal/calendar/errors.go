package calendar

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrNewer says that a specification is stored in an encoding that this version does not know.
var ErrNewer = errors.New("a newer encoding")

// An Error names the part of a specification that is not acceptable, and how to correct it.
type Error struct {
	Field  string // "minute", "hour", "day of the month", "month", "weekday", "zone", …
	Value  string // of the field
	Reason string // why it is not acceptable
	Advice string // what to do

	cause error // ErrNewer, or nil
}

// Error quotes at most 50 characters of the value.
func (e *Error) Error() string {
	const longest = 50
	value := e.Value
	if utf8.RuneCountInString(value) > longest {
		value = string([]rune(value)[:longest]) + "…"
	}
	return fmt.Sprintf("invalid %s %q: %s: %s", e.Field, value, e.Reason, e.Advice)
}

// Unwrap returns [ErrNewer], or nil.
func (e *Error) Unwrap() error { return e.cause }
