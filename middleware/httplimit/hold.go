package httplimit

import (
	"fmt"
	"time"
)

// A HeldError is a request that a [Transport] has not sent, because the upstream has asked
// for a pause. It is [ErrHeld].
type HeldError struct {
	Entity, Resource string
	// RetryAfter is the rest of the pause.
	RetryAfter time.Duration
}

// Error says what is held, and for how long.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s: %s of %s: retry after %v, or set WaitHeld", ErrHeld, e.Resource, e.Entity, e.RetryAfter)
}

// Is reports whether target is [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }
