package limiter

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// Never is the wait of a request that no wait makes admissible, because it
// asks for more than the limit's capacity.
const Never time.Duration = math.MaxInt64

// A Status is how one limit stands to a request.
type Status struct {
	Entity, Resource string
	// Limit is what the bucket enforces, undivided.
	Limit Limit
	// Available is the balance in whole tokens, rounded down, after what the
	// request took; negative in debt.
	Available int64
	// Requested is what the request asked of this limit.
	Requested int64
	// Exceeded says that this limit refused the request.
	Exceeded bool
	// RetryAfter is the smallest wait after which this limit admits the
	// request if nobody else consumes: 0 unless Exceeded, and [Never] if
	// Requested is more than the capacity.
	//
	// It is exact, to the millisecond, as of the state of the bucket that it rests
	// on. Where the store was asked, that is the state that it answered with. A
	// refusal from memory rests on a state seen up to [Options.Trust] ago: what other
	// processes have consumed since makes the true wait longer, what they have
	// returned since makes it shorter. [Limiter.TimeUntilAvailable] always asks.
	RetryAfter time.Duration
}

// statusJSON has the member names of the peer's error body, so that one client
// reads both.
type statusJSON struct {
	Entity        string   `json:"entity_id"`
	Resource      string   `json:"resource"`
	Limit         string   `json:"limit_name"`
	Capacity      int64    `json:"capacity"`
	Amount        int64    `json:"refill_amount"`
	PeriodSeconds int64    `json:"refill_period_seconds"`
	Available     int64    `json:"available"`
	Requested     int64    `json:"requested"`
	Exceeded      bool     `json:"exceeded"`
	RetrySeconds  *float64 `json:"retry_after_seconds"`
	RetryMillis   *int64   `json:"retry_after_ms"`
}

// MarshalJSON writes the status with the member names of the peer's error
// body; the wait is null if it is [Never].
func (s Status) MarshalJSON() ([]byte, error) {
	seconds, millis := jsonWait(s.RetryAfter)
	return json.Marshal(statusJSON{
		Entity: s.Entity, Resource: s.Resource, Limit: s.Limit.Name,
		Capacity: s.Limit.Capacity, Amount: s.Limit.Amount, PeriodSeconds: int64(s.Limit.Period / time.Second),
		Available: s.Available, Requested: s.Requested, Exceeded: s.Exceeded,
		RetrySeconds: seconds, RetryMillis: millis,
	})
}

func jsonWait(d time.Duration) (seconds *float64, millis *int64) {
	if d == Never {
		return nil, nil
	}
	s, ms := d.Seconds(), d.Milliseconds()
	return &s, &ms
}

// An ExceededError is a refusal: [ErrExceeded]. Nothing was consumed.
type ExceededError struct {
	// Statuses has every limit the request named, of the entity and then of
	// its parent, whether it refused or not.
	Statuses []Status
}

// Is reports whether target is [ErrExceeded].
func (e *ExceededError) Is(target error) bool { return target == ErrExceeded }

// RetryAfter is the smallest wait after which the same request is admitted if
// nobody else consumes, to the millisecond; [Never] if it asks for more than a
// limit's capacity. For a refusal from memory it is exact as of the image that the
// refusal rests on, see [Status]. It covers the parent's limits too, if the parent's bucket could be
// asked.
func (e *ExceededError) RetryAfter() time.Duration { return longestWait(e.Statuses) }

func longestWait(statuses []Status) time.Duration {
	var wait time.Duration
	for i := range statuses {
		wait = max(wait, statuses[i].RetryAfter)
	}
	return wait
}

// Error names the limits that refused and the wait.
func (e *ExceededError) Error() string {
	var names []string
	for i := range e.Statuses {
		if s := &e.Statuses[i]; s.Exceeded {
			names = append(names, fmt.Sprintf("%s of %s/%s (requested %d, available %d)",
				s.Limit.Name, s.Entity, s.Resource, s.Requested, s.Available))
		}
	}
	advice := "request no more than the capacity"
	if wait := e.RetryAfter(); wait != Never {
		advice = "retry after " + wait.String()
	}
	return fmt.Sprintf("%s: %s: %s", ErrExceeded, strings.Join(names, ", "), advice)
}

// MarshalJSON writes a body fit for an HTTP 429: the message, the wait (null
// if it is [Never]) and every limit's status.
func (e *ExceededError) MarshalJSON() ([]byte, error) {
	seconds, millis := jsonWait(e.RetryAfter())
	return json.Marshal(struct {
		Error        string   `json:"error"`
		Message      string   `json:"message"`
		RetrySeconds *float64 `json:"retry_after_seconds"`
		RetryMillis  *int64   `json:"retry_after_ms"`
		Limits       []Status `json:"limits"`
	}{"rate_limit_exceeded", e.Error(), seconds, millis, e.Statuses})
}
