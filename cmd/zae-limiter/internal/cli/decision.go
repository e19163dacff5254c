package cli

import (
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

// wait writes a wait for people.
func wait(d time.Duration) string {
	if d == limiter.Never {
		return "never"
	}
	return d.String()
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
