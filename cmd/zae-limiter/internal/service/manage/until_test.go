package manage_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// An end is an instant, a date or a weekday in UTC, or a time from now.
func TestParseUntil(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 27, 12, 0, 0, 0, time.UTC) // a Friday
	for s, want := range map[string]string{
		"2026-11-28T01:00:00+02:00": "2026-11-27T23:00:00Z",
		"2026-12-24":                "2026-12-24T00:00:00Z",
		"friday":                    "2026-12-04T00:00:00Z",
		"Sat":                       "2026-11-28T00:00:00Z",
		"2h":                        "2026-11-27T14:00:00Z",
		"3d":                        "2026-11-30T12:00:00Z",
		"2026-11-27":                "",
		"0s":                        "",
		"-1h":                       "",
		"xd":                        "",
		"106751d":                   "2319-03-08T12:00:00Z",
		"106752d":                   "",
		"213504d":                   "", // an overflow made it 25 minutes
		"-106752d":                  "",
		"fri day":                   "",
	} {
		got, err := manage.ParseUntil(s, now)
		if (err != nil) != (want == "") || err == nil && got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q is %v, %v, want %q", s, got, err, want)
		}
	}
}
