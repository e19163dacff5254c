package calendar_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

const (
	minute = int64(60_000)
	hour   = 60 * minute
)

func parse(tb testing.TB, text, zone string) *calendar.Renewal {
	tb.Helper()
	r, err := calendar.Parse(text, zone)
	if err != nil {
		tb.Fatalf("parse %q in %q: %v", text, zone, err)
	}
	return r
}

// instant is the text of an instant for messages, and in specifications.
func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }

func span(p calendar.Period) string { return instant(p.Start) + " to " + instant(p.End) }
