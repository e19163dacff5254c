package cli

import (
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// wait writes a wait for people.
func wait(d time.Duration) string {
	if d == limiter.Never {
		return "never"
	}
	return d.String()
}

// balanceView is a [limiter.Balance] in JSON: the status with respect to one token.
type balanceView struct {
	decide.Status
	// FullAfter is the least time until the limit is full; null is for ever.
	FullAfter *int64 `json:"full_after_ms"`
	// Used is the share of the capacity that is used: 1 for an empty limit, more in debt.
	Used float64 `json:"used"`
	// Pending says that the bucket still has the former limit. The next acquire brings it the
	// new one, and the waits count from then.
	Pending bool `json:"pending"`
	// Shadowed is how many tokens a limit in shadow would have refused.
	Shadowed int64 `json:"shadowed,omitempty"`
	// ShadowedAt is when a limit in shadow would have refused a request last.
	ShadowedAt *time.Time `json:"shadowed_at,omitempty"`
}

func balanceViews(balances []limiter.Balance) []balanceView {
	views := make([]balanceView, len(balances))
	for i := range balances {
		b := &balances[i]
		views[i] = balanceView{decide.StatusOf(&b.Status), decide.Millis(b.FullAfter), b.Used, b.Pending, b.Shadowed, nil}
		if !b.ShadowedAt.IsZero() {
			views[i].ShadowedAt = &b.ShadowedAt
		}
	}
	return views
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
