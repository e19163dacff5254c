package httplimit

import (
	"net/http"

	limiter "github.com/zeroae/zae-limiter-go"
)

// Fields returns the values of the fields RateLimit-Policy and RateLimit for the limits of an
// entity, for other protocols. The statuses are those of a lease or of a refusal. The values
// are "" if none of them is the entity's.
func Fields(entity string, statuses []limiter.Status) (policy, limit string) {
	bound := noBound
	refusal := limiter.ExceededError{Statuses: statuses}
	if seconds, ok := refusal.RetryAfterSeconds(); ok && seconds > 0 {
		bound = seconds
	}
	h, f := http.Header{}, fields{}
	f.write(h, entity, statuses, bound)
	return h.Get(fieldPolicy), h.Get(fieldLimit)
}
