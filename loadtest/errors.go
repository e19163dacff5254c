package loadtest

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go"
)

// An OptionError names an invalid option and the remedy. It is [limiter.ErrInvalid].
type OptionError struct {
	Option string // its name on the command line: "clients", "warm-up"
	Value  string
	Reason string
}

// Error names the option, the value and the remedy.
func (e *OptionError) Error() string {
	return fmt.Sprintf("invalid %s %q: %s", e.Option, e.Value, e.Reason)
}

// Is reports whether target is [limiter.ErrInvalid].
func (e *OptionError) Is(target error) bool { return target == limiter.ErrInvalid }
