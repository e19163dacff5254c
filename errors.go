package limiter

import (
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/process"
)

// Conditions of a limiter that callers branch on.
var (
	// ErrExceeded: the limiter refused the request. See [ExceededError].
	ErrExceeded = errors.New("rate limit exceeded")
	// ErrQueueFull: [Options.MaxWaiters] callers of [Limiter.Wait] wait already. It is
	// always ErrExceeded too.
	ErrQueueFull = errors.New("too many callers wait")
	// ErrSlotsFull: the slots that a request asks for are held. It is always ErrExceeded too.
	// See [SlotsError].
	ErrSlotsFull = errors.New("all slots are held")
	// ErrSlotsLost: slots of a lease were lost, because the process could not renew them in
	// time. Others may hold them now. It is the cause with which [Lease.Context] ends.
	ErrSlotsLost = acquire.ErrSlotsLost
	// ErrLeaseClosed: the lease has been committed or rolled back, or is being so now.
	ErrLeaseClosed = errors.New("lease is closed")
	// ErrClosed: the limiter has been closed; nothing was done.
	ErrClosed = process.ErrClosed
)

// A SlotsError names slots that a request asks for and that are held: [ErrSlotsFull], and
// [ErrExceeded]. Nothing was consumed. Nobody knows when they come back.
type SlotsError struct {
	Entity, Resource, Limit string
	Slots                   int64 // asked for
	Of                      int64 // that there are; if they are fewer, no wait helps
}

// Error says which slots, and what to do.
func (e *SlotsError) Error() string {
	of := fmt.Sprintf("%v: %s asks for %d of %s of %s", ErrSlotsFull, e.Entity, e.Slots, e.Limit, e.Resource)
	if e.Slots > e.Of {
		return fmt.Sprintf("%s, and there are only %d: ask for fewer", of, e.Of)
	}
	return fmt.Sprintf("%s, of %d: try again later, or wait", of, e.Of)
}

// Is reports whether target is [ErrSlotsFull] or [ErrExceeded].
func (e *SlotsError) Is(target error) bool { return target == ErrSlotsFull || target == ErrExceeded }
