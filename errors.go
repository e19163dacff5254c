package limiter

import "errors"

// Conditions of a limiter that callers branch on.
var (
	// ErrExceeded: the request was refused. See [ExceededError].
	ErrExceeded = errors.New("rate limit exceeded")
	// ErrLeaseClosed: the lease has been committed or rolled back, or is just being.
	ErrLeaseClosed = errors.New("lease is closed")
	// ErrClosed: the limiter has been closed; nothing was done.
	ErrClosed = errors.New("limiter is closed")
)
