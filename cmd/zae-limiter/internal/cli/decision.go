package cli

import (
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

// millis is a wait in JSON; null if no wait helps.
func millis(d time.Duration) *int64 {
	if d == limiter.Never {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// wait writes a wait for people.
func wait(d time.Duration) string {
	if d == limiter.Never {
		return "never"
	}
	return d.String()
}

// statusView is a [limiter.Status] in JSON.
type statusView struct {
	Entity   string `json:"entity_id"`
	Resource string `json:"resource"`
	Limit    string `json:"limit_name"`
	limitarg.Parameters
	Available int64 `json:"available"`
	// Requested is what the request asked of this limit, in tokens.
	Requested int64 `json:"requested"`
	Deficit   int64 `json:"deficit"` // how many tokens it lacks for the request
	// Exceeded says that this limit refuses the request.
	Exceeded   bool      `json:"exceeded"`
	RetryAfter *int64    `json:"retry_after_ms"`
	ResetsAt   time.Time `json:"resets_at,omitzero"`
}

func statusViewOf(s *limiter.Status) statusView {
	return statusView{
		Entity: s.Entity, Resource: s.Resource, Limit: s.Limit.Name, Parameters: limitarg.ParametersOf(s.Limit),
		Available: s.Available, Requested: s.Requested, Deficit: s.Deficit(), Exceeded: s.Exceeded, RetryAfter: millis(s.RetryAfter), ResetsAt: s.ResetsAt,
	}
}

func statusViews(statuses []limiter.Status) []statusView {
	views := make([]statusView, len(statuses))
	for i := range statuses {
		views[i] = statusViewOf(&statuses[i])
	}
	return views
}

// balanceView is a [limiter.Balance] in JSON: the status with respect to one token.
type balanceView struct {
	statusView
	// FullAfter is the least time until the limit is full; null is for ever.
	FullAfter *int64 `json:"full_after_ms"`
	// Used is the share of the capacity that is used: 1 for an empty limit, more in debt.
	Used float64 `json:"used"`
	// Pending says that the bucket still has the former limit. The next acquire brings it the
	// new one, and the waits count from then.
	Pending bool `json:"pending"`
}

func balanceViews(balances []limiter.Balance) []balanceView {
	views := make([]balanceView, len(balances))
	for i := range balances {
		b := &balances[i]
		views[i] = balanceView{statusViewOf(&b.Status), millis(b.FullAfter), b.Used, b.Pending}
	}
	return views
}

func longestWait(statuses []limiter.Status) time.Duration {
	return (&limiter.ExceededError{Statuses: statuses}).RetryAfter()
}

func printStatuses(w *strings.Builder, statuses []limiter.Status) {
	rows := make([][]string, len(statuses))
	for i, s := range statuses {
		retry := ""
		if s.Exceeded {
			retry = wait(s.RetryAfter)
		}
		rows[i] = []string{
			s.Entity, s.Resource, s.Limit.Name, limitarg.Rate(s.Limit),
			limitarg.Grouped(s.Requested), limitarg.Grouped(s.Available), retry,
		}
	}
	app.Table(w, []string{"ENTITY", "RESOURCE", "LIMIT", "RATE", "REQUESTED", "AVAILABLE", "RETRY AFTER"}, rows)
}
