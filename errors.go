package limiter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	// ErrHandedOver: [Lease.Token] has handed the lease over. It is always ErrLeaseClosed too.
	ErrHandedOver = errors.New("lease is handed over")
	// ErrSettled: a lease that was resumed had been settled before, with other amounts. See
	// [SettledError].
	ErrSettled = errors.New("lease was settled before")
	// ErrToken: the token of a lease is not accepted, for one of the reasons below. See
	// [TokenError].
	ErrToken = errors.New("lease token not accepted")
	// ErrTokenInvalid: the token was changed or cut, or is none.
	ErrTokenInvalid = errors.New("it is no token, or was changed or cut")
	// ErrTokenKey: the limiter has no key, or not the one that signed the token.
	ErrTokenKey = errors.New("the key is missing")
	// ErrTokenVersion: a newer version of this library has made the token.
	ErrTokenVersion = errors.New("a newer version made it")
	// ErrTokenNamespace: the token is of another namespace.
	ErrTokenNamespace = errors.New("it is of another namespace")
	// ErrTokenExpired: the lease was written down more than [TokenLife] ago.
	ErrTokenExpired = errors.New("it has expired")
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

// A TokenError says why a token is not accepted, or why none can be made. It is [ErrToken] and Err.
type TokenError struct {
	Err  error  // [ErrTokenInvalid] and so on
	Hint string // what to do
}

// noKeys is what to do if a limiter has no key.
const noKeys = "set Options.TokenKeys"

// Error says why, and what to do.
func (e *TokenError) Error() string { return fmt.Sprintf("%v: %v: %s", ErrToken, e.Err, e.Hint) }

// Is reports whether target is [ErrToken].
func (e *TokenError) Is(target error) bool { return target == ErrToken }

// Unwrap returns Err.
func (e *TokenError) Unwrap() error { return e.Err }

// A SettledError says that a lease that was resumed had been settled before, with other amounts:
// nothing was changed. It is [ErrSettled].
type SettledError struct {
	Entity string
	// Consumed is what the lease has taken in the end, in tokens, by resource and limit; all 0
	// if it was rolled back.
	Consumed map[string]map[string]int64
}

// Error says what the earlier settlement did, and what to do.
func (e *SettledError) Error() string {
	var kept []string
	for _, resource := range slices.Sorted(maps.Keys(e.Consumed)) {
		for _, limit := range slices.Sorted(maps.Keys(e.Consumed[resource])) {
			kept = append(kept, fmt.Sprintf("%d %s of %s", e.Consumed[resource][limit], limit, resource))
		}
	}
	return fmt.Sprintf("%v: the lease of %s took %s in the end, and nothing is changed now: settle a lease in one place", ErrSettled, e.Entity, strings.Join(kept, ", "))
}

// Is reports whether target is [ErrSettled].
func (e *SettledError) Is(target error) bool { return target == ErrSettled }
