package decide

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

// WhyDegraded is why a degraded lease was granted without the table.
func WhyDegraded(lease *limiter.Lease) string {
	const why = "DynamoDB cannot be reached"
	if len(lease.Consumed()) > 0 {
		return why + ": admitted by the share of this process, and debited later"
	}
	return why
}

// A Decision is the answer to a request, of the service and of the commands acquire and
// available.
type Decision struct {
	// Admitted says that the request was admitted, or would be.
	Admitted   bool     `json:"admitted"`
	RetryAfter *int64   `json:"retry_after_ms"`
	Statuses   []Status `json:"limits"`
	// CheckedAt is the instant of all balances and waits, of available only.
	CheckedAt time.Time `json:"checked_at,omitzero"`
	// Degraded says why the table was not asked: a lease then holds a part of this process's share,
	// or nothing was metered.
	Degraded string `json:"degraded,omitempty"`
	// Lease is the lease, of the service only and of a call that asks for one. Any replica settles it.
	Lease string `json:"lease,omitempty"`
}

// Admitted is the decision of a lease.
func Admitted(lease *limiter.Lease) Decision {
	if lease.Degraded() {
		return Unmetered(WhyDegraded(lease))
	}
	return Decision{Admitted: true, RetryAfter: Millis(0), Statuses: StatusesOf(lease.Statuses())}
}

// Unmetered admits without metering, and says why.
func Unmetered(why string) Decision {
	return Decision{Admitted: true, RetryAfter: Millis(0), Statuses: []Status{}, Degraded: why}
}

// Refused is the decision of a refusal.
func Refused(e *limiter.ExceededError) Decision {
	return Decision{RetryAfter: Millis(e.RetryAfter()), Statuses: StatusesOf(e.Statuses)}
}

// Foreseen is the decision that a request would get, by what [limiter.Limiter.Available] says.
func Foreseen(statuses []limiter.Status) Decision {
	after := (&limiter.ExceededError{Statuses: statuses}).RetryAfter()
	d := Decision{Admitted: after == 0, RetryAfter: Millis(after), Statuses: StatusesOf(statuses)}
	if len(statuses) > 0 {
		d.CheckedAt = statuses[0].CheckedAt
	}
	return d
}

// A Status is a [limiter.Status] in JSON.
type Status struct {
	Entity   string `json:"entity_id"`
	Resource string `json:"resource"`
	Limit    string `json:"limit_name"`
	limitarg.Parameters
	Available int64 `json:"available"`
	// Requested is what the request asked of this limit, in tokens.
	Requested int64 `json:"requested"`
	Deficit   int64 `json:"deficit"` // how many tokens it lacks for the request
	// Exceeded says that this limit refuses the request.
	Exceeded bool `json:"exceeded"`
	// WouldRefuse says that this limit is in shadow, and would refuse the request.
	WouldRefuse bool `json:"would_refuse,omitempty"`

	RetryAfter *int64    `json:"retry_after_ms"`
	ResetsAt   time.Time `json:"resets_at,omitzero"`
}

// StatusOf is a status in JSON.
func StatusOf(s *limiter.Status) Status {
	return Status{
		Entity: s.Entity, Resource: s.Resource, Limit: s.Limit.Name, Parameters: limitarg.ParametersOf(s.Limit),
		Available: s.Available, Requested: s.Requested, Deficit: s.Deficit(), Exceeded: s.Exceeded, WouldRefuse: s.WouldRefuse, RetryAfter: Millis(s.RetryAfter), ResetsAt: s.ResetsAt,
	}
}

// StatusesOf are statuses in JSON.
func StatusesOf(statuses []limiter.Status) []Status {
	views := make([]Status, len(statuses))
	for i := range statuses {
		views[i] = StatusOf(&statuses[i])
	}
	return views
}

// Millis is a wait in JSON; null if no wait helps.
func Millis(d time.Duration) *int64 {
	if d == limiter.Never {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}
