package loadtest

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go"
)

// An OptionError names an option that cannot be accepted and what to do about
// it. It is [limiter.ErrInvalid].
type OptionError struct {
	Option string // as the command line calls it: "clients", "warm-up"
	Value  string
	Reason string
}

// Error names the option, the value and what to give.
func (e *OptionError) Error() string {
	return fmt.Sprintf("invalid %s %q: %s", e.Option, e.Value, e.Reason)
}

// Is reports whether target is [limiter.ErrInvalid].
func (e *OptionError) Is(target error) bool { return target == limiter.ErrInvalid }
