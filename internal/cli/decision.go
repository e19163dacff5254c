package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/limitarg"
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
			strconv.FormatInt(s.Requested, 10), strconv.FormatInt(s.Available, 10), retry,
		}
	}
	app.Table(w, []string{"ENTITY", "RESOURCE", "LIMIT", "RATE", "REQUESTED", "AVAILABLE", "RETRY AFTER"}, rows)
}
