package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"
)

// ErrHeld says that the upstream has asked for a pause. See [HeldError].
var ErrHeld = errors.New("the upstream has asked for a pause")

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

// silentHold is the pause after a 429 that names none.
const silentHold = time.Second

// pauseOf returns the pause for which a response asks. Retry-After takes precedence over
// RateLimit. A response from a cache says nothing about now.
func pauseOf(res *http.Response, now time.Time, longest time.Duration) time.Duration {
	if age := res.Header.Get("Age"); age != "" && age != "0" {
		return 0
	}
	refused := res.StatusCode == http.StatusTooManyRequests
	if refused || res.StatusCode == http.StatusServiceUnavailable {
		if pause, ok := retryAfter(res.Header, now, longest); ok {
			return pause
		}
	}
	if pause := exhausted(res.Header, longest); pause > 0 {
		return pause
	}
	if refused {
		return silentHold
	}
	return 0
}

// retryAfter reads Retry-After: seconds, or a date, which counts from the response's own
// Date, so that clocks need not agree.
func retryAfter(h http.Header, now time.Time, longest time.Duration) (pause time.Duration, ok bool) {
	value := h.Get(fieldRetryAfter)
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return seconds64(seconds, longest), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return at.Sub(now), true
}

// exhausted reads RateLimit: the longest effective window of a limit of which nothing is
// left. A malformed field says nothing.
func exhausted(h http.Header, longest time.Duration) (pause time.Duration) {
	lines := h.Values(fieldLimit)
	if len(lines) == 0 {
		return 0
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return 0
	}
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			return 0
		}
		if _, ok := item.Value.(string); !ok {
			return 0
		}
		left, ok := parameter(item, "r")
		if !ok {
			return 0
		}
		if window, ok := parameter(item, "t"); ok && left == 0 {
			pause = max(pause, seconds64(uint64(window), longest)) //nolint:gosec // not negative
		}
	}
	return pause
}

// parameter returns a parameter that is a non-negative integer.
func parameter(item httpsfv.Item, name string) (value int64, ok bool) {
	bare, ok := item.Params.Get(name)
	if !ok {
		return 0, false
	}
	value, ok = bare.(int64)
	return value, ok && value >= 0
}

// seconds64 is a number of seconds, at most longest.
func seconds64(n uint64, longest time.Duration) time.Duration {
	if n >= uint64(longest/time.Second)+1 {
		return longest
	}
	return time.Duration(n) * time.Second
}
