package dynamo

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Cause says why an operator changes something. The audit event has it.
type Cause struct {
	// Reason is in the operator's words: at most 256 characters, "" if none is given.
	Reason string
	// Key makes the change happen once: a call with a key that was used before changes
	// nothing. It has 1 to 64 letters, digits, ".", "_", ":" and "-"; "" is no key.
	Key string
}

// maxReason is how many characters a reason may have.
const maxReason = 256

// Check reports why an event cannot have a cause, as a [*store.ValidationError].
func (c Cause) Check() error {
	if err := checkReason(c.Reason); err != nil {
		return err
	}
	if c.Key != "" && !schema.IsOperationID(c.Key) {
		return &store.ValidationError{Field: "idempotency key", Value: c.Key, Reason: `use 1 to 64 letters, digits, ".", "_", ":" and "-"`}
	}
	return nil
}

// checkReason reports why an event cannot have a reason.
func checkReason(reason string) error {
	var invalid string
	switch {
	case !utf8.ValidString(reason):
		invalid = "it is not UTF-8"
	case utf8.RuneCountInString(reason) > maxReason:
		invalid = "use at most 256 characters"
	case strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		invalid = "use printable characters only, on one line"
	default:
		return nil
	}
	return &store.ValidationError{Field: "reason", Value: reason, Reason: invalid}
}
