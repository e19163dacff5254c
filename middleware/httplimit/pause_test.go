package httplimit_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// TestPausesAsUpstreamsWriteThem: a row has a status, header fields, and the pause that is right.
// The response has a Date, from which all times count.
func TestPausesAsUpstreamsWriteThem(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 5, 23, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration, layout string) string { return date.Add(d).Format(layout) }
	unix := func(d time.Duration) string { return strconv.FormatInt(date.Add(d).Unix(), 10) }
	for _, c := range []struct {
		status int
		fields string // "Name: value" by lines
		want   time.Duration
	}{
		// Retry-After in other forms.
		{429, "Retry-After: 30.5", 31 * time.Second},
		{429, "Retry-After: 0.2", time.Second},
		{429, "Retry-After:  7 ", 7 * time.Second},
		{429, "Retry-After: 0", 0},
		{429, "Retry-After: 1m30s", 90 * time.Second},
		{429, "Retry-After: " + in(30*time.Second, time.RFC850), 30 * time.Second},
		{429, "Retry-After: " + in(30*time.Second, time.ANSIC), 30 * time.Second},
		{429, "Retry-After: " + in(30*time.Second, time.RFC3339), 30 * time.Second},
		{429, "Retry-After: " + in(-time.Hour, http.TimeFormat), 0},
		{429, "Retry-After: " + unix(30*time.Second), 30 * time.Second},
		{429, "Retry-After: " + in(240*time.Hour, http.TimeFormat), 5 * time.Minute},
		{429, "Retry-After-Ms: 20000", 20 * time.Second},
		{429, "Retry-After-Ms: 150.5\nRetry-After: 1", 150_500 * time.Microsecond},
		{429, "Retry-After-Ms: soon\nRetry-After: 3", 3 * time.Second},
		{429, "X-Ms-Retry-After-Ms: 9931", 9931 * time.Millisecond},

		// Every error may name a wait. Other answers name one for something else.
		{503, "Retry-After: 30", 30 * time.Second},
		{529, "Retry-After: 30", 30 * time.Second},
		{403, "Retry-After: 30", 30 * time.Second},
		{500, "Retry-After: 30", 30 * time.Second},
		{202, "Retry-After: 30", 0},
		{301, "Retry-After: 30", 0},
		{403, "", 0},
		{529, "", 0},

		// OpenAI: only the limit that is exhausted counts, and Retry-After before all.
		{429, "X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 1m30s", 90 * time.Second},
		{429, "X-RateLimit-Remaining-Requests: 59\nX-RateLimit-Reset-Requests: 1s\nX-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 6m0s", 5 * time.Minute},
		{429, "X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 20ms\nX-RateLimit-Remaining-Tokens: 8\nX-RateLimit-Reset-Tokens: 1s", 20 * time.Millisecond},
		{429, "Retry-After: 2\nX-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 1m30s", 2 * time.Second},
		{200, "X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 1s", time.Second},
		{200, "X-RateLimit-Remaining-Requests: 1\nX-RateLimit-Reset-Requests: 1s", 0},
		{429, "X-RateLimit-Remaining-Requests: 1\nX-RateLimit-Reset-Requests: 10s", time.Second},

		// Anthropic.
		{429, "Anthropic-RateLimit-Requests-Remaining: 0\nAnthropic-RateLimit-Requests-Reset: " + in(30*time.Second, time.RFC3339), 30 * time.Second},
		{429, "Anthropic-RateLimit-Unified-Reset: " + unix(30*time.Second), 30 * time.Second},

		// GitHub, GitLab, Twitter, Discord, Reddit, Atlassian, Linear.
		{403, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + unix(40*time.Second), 40 * time.Second},
		{403, "X-RateLimit-Remaining: 12\nX-RateLimit-Reset: " + unix(40*time.Second), 0},
		{403, "X-RateLimit-Reset: " + unix(40*time.Second), 0},
		{429, "RateLimit-Remaining: 0\nRateLimit-Reset: " + unix(40*time.Second) + "\nRateLimit-ResetTime: " + in(40*time.Second, http.TimeFormat), 40 * time.Second},
		{429, "X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: " + unix(40*time.Second), 40 * time.Second},
		{200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + unix(64*time.Second) + "\nX-RateLimit-Reset-After: 64.57", 65 * time.Second},
		{200, "X-RateLimit-Remaining: 0.0\nX-RateLimit-Reset: 200", 200 * time.Second},
		{429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + in(time.Minute, "2006-01-02T15:04Z"), time.Minute},
		{400, "X-RateLimit-Requests-Remaining: 0\nX-RateLimit-Requests-Reset: " + unix(40*time.Second) + "000", 40 * time.Second},
		{429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + unix(-40*time.Second), time.Second},

		// Drafts 3 to 6, draft 7, and drafts 8 to 11.
		{429, "RateLimit-Reset: 5", 5 * time.Second},
		{503, "RateLimit-Limit: 10\nRateLimit-Remaining: 0\nRateLimit-Reset: 5", 5 * time.Second},
		{200, "RateLimit-Reset: 5", 0},
		{429, "RateLimit: limit=10, remaining=0, reset=5", 5 * time.Second},
		{200, "RateLimit: limit=10, remaining=0, reset=5", 5 * time.Second},
		{200, "RateLimit: limit=10, remaining=3, reset=5", 0},
		{200, "RateLimit: limit=10, remaining=0", 0},
		{429, `RateLimit: "default";r=0;t=5`, 5 * time.Second},

		// Garbage, and numbers that Go reads and nobody means.
		{429, "Retry-After: -5", time.Second},
		{429, "Retry-After: 1e3", time.Second},
		{429, "Retry-After: Inf", time.Second},
		{429, "Retry-After: 0x10", time.Second},
		{429, "Retry-After: 1.2.3", time.Second},
		{429, "Retry-After: ." + strings.Repeat("9", 5000), time.Second},
		{429, "Retry-After: " + strings.Repeat("9", 5000), 5 * time.Minute},
		{429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: ", time.Second},
		{429, "X-RateLimit-Remaining: none\nX-RateLimit-Reset: 30", time.Second},
		{429, "X-RateLimit-Remaining: -1\nX-RateLimit-Reset: 30", time.Second},
		{429, "Password-Reset: 30", time.Second},
	} {
		res := &http.Response{StatusCode: c.status, Header: http.Header{"Date": {date.Format(http.TimeFormat)}}}
		for line := range strings.Lines(c.fields) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			res.Header.Add(name, value)
		}
		if got := httplimit.PauseOf(res, date.Add(3*time.Second)); got != c.want {
			t.Errorf("%d with %.200q: %v, want %v", c.status, c.fields, got, c.want)
		}
	}
}

// The law: a pause is bounded and not negative, whatever the upstream says, and only what names
// one in a refusal, or says that nothing is left, makes one.
func FuzzPause(f *testing.F) {
	f.Add(429, "20", `"default";r=0;t=50`, "", "", "")
	f.Add(503, "Mon, 05 Aug 2019 09:27:05 GMT", "", "Mon, 05 Aug 2019 09:27:00 GMT", "", "")
	f.Add(200, "", `limit=10, remaining=0, reset=5`, "", "", "")
	f.Add(403, "", "", "", "0", "1700000030")
	f.Add(429, "", "", "", "0", "6m0s")
	f.Fuzz(func(t *testing.T, status int, retry, limit, date, left, reset string) {
		res := &http.Response{StatusCode: status, Header: http.Header{
			"Retry-After": {retry}, "Retry-After-Ms": {left}, "Ratelimit": {limit}, "Date": {date},
			"X-Ratelimit-Remaining-Tokens": {left}, "X-Ratelimit-Reset-Tokens": {reset},
		}}
		pause := httplimit.PauseOf(res, time.Unix(1_700_000_000, 0))
		if pause < 0 || pause > httplimit.DefaultMaxHold {
			t.Errorf("%d %q %q %q %q %q: %v", status, retry, limit, date, left, reset, pause)
		}
		if status < 400 && pause > 0 && !strings.Contains(limit+left, "0") {
			t.Errorf("%d %q %q: %v", status, limit, left, pause)
		}
	})
}
