package limiter

import (
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/process"
)

// Conditions of a limiter that callers branch on.
var (
	// ErrExceeded: the limiter refused the request. See [ExceededError].
	ErrExceeded = errors.New("rate limit exceeded")
	// ErrQueueFull: [Options.MaxWaiters] callers of [Limiter.Wait] wait already. It is
	// always ErrExceeded too.
	ErrQueueFull = errors.New("too many callers wait")
	// ErrLeaseClosed: the lease has been committed or rolled back, or is being so now.
	ErrLeaseClosed = errors.New("lease is closed")
	// ErrClosed: the limiter has been closed; nothing was done.
	ErrClosed = process.ErrClosed
)
