package httplimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// silentHold is the pause after a 429 that names none.
const silentHold = time.Second

// statusOverloaded is what some APIs answer in place of 503.
const statusOverloaded = 529

// A pauses reads the pause for which a response asks.
type pauses struct {
	status int
	h      http.Header
	// now is the instant from which times count: the response's own Date, so that clocks need
	// not agree.
	now     time.Time
	longest time.Duration
}

// pauseOf returns the pause for which a response asks. A wait that an error names takes
// precedence over what is left of limits. A response from a cache says nothing about now.
func pauseOf(res *http.Response, now time.Time, longest time.Duration) time.Duration {
	if age := res.Header.Get("Age"); age != "" && age != "0" {
		return 0
	}
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		now = date
	}
	p := pauses{status: res.StatusCode, h: res.Header, now: now, longest: longest}
	if pause, ok := p.retryAfter(); ok {
		return pause
	}
	pause := max(p.exhausted(), p.reset())
	if pause == 0 && p.status == http.StatusTooManyRequests {
		return silentHold
	}
	return pause
}

// refuses reports whether the status itself says that the upstream refuses further requests.
func (p *pauses) refuses() bool {
	return p.status == http.StatusTooManyRequests || p.status == http.StatusServiceUnavailable || p.status == statusOverloaded
}

// retryAfter reads the wait that an error names. With other statuses, Retry-After is about
// one thing: a redirection, or the result of a request.
func (p *pauses) retryAfter() (pause time.Duration, ok bool) {
	if p.status < http.StatusBadRequest {
		return 0, false
	}
	for _, field := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, ok := number(p.h.Get(field)); ok {
			return p.span(ms, time.Millisecond), true
		}
	}
	return p.wait(p.h.Get(fieldRetryAfter))
}

// reset reads the fields of many names that say when a limit is full again:
// X-RateLimit-Reset, X-RateLimit-Reset-Tokens, Anthropic-RateLimit-Tokens-Reset and others. Each
// counts if the field named "remaining" in place of "reset" is 0. A refusal may lack that one.
func (p *pauses) reset() (pause time.Duration) {
	for name, values := range p.h {
		if len(values) == 0 || !strings.Contains(name, "Reset") || !strings.Contains(name, "Ratelimit") && !strings.Contains(name, "Rate-Limit") {
			continue
		}
		left := p.h.Get(strings.TrimSuffix(strings.Replace(name, "Reset", "Remaining", 1), "-After"))
		if n, ok := number(left); ok && n == 0 || left == "" && p.refuses() {
			wait, _ := p.wait(values[0])
			pause = max(pause, wait)
		}
	}
	return pause
}

// exhausted reads RateLimit: the longest effective window of a limit of which nothing is
// left. Up to draft 7 the field is a dictionary, later a list. A malformed field says nothing.
func (p *pauses) exhausted() (pause time.Duration) {
	lines := p.h.Values(fieldLimit)
	if len(lines) == 0 {
		return 0
	}
	if old, err := httpsfv.UnmarshalDictionary(lines); err == nil {
		return p.window(func(name string) (any, bool) {
			member, _ := old.Get(name)
			item, ok := member.(httpsfv.Item)
			return item.Value, ok
		}, "remaining", "reset")
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
		pause = max(pause, p.window(item.Params.Get, "r", "t"))
	}
	return pause
}

// window is the time until a limit resets of which nothing is left.
func (p *pauses) window(get func(name string) (any, bool), left, reset string) time.Duration {
	n, ok := get(left)
	if !ok || n != int64(0) {
		return 0
	}
	t, _ := get(reset)
	seconds, _ := t.(int64)
	return p.span(float64(max(0, seconds)), time.Second)
}

// Numbers that are instants and no spans: of seconds and milliseconds since 1970.
const (
	leastUnix      = 1e9
	leastUnixMilli = 1e11
	leastGarbage   = 1e14
)

// wait reads a span or an instant, as APIs write them: seconds, with a fraction or without, Go's
// durations ("6m0s"), dates of HTTP and RFC 3339, and seconds or milliseconds since 1970. It is
// at least 0 and at most longest. Seconds are rounded up.
func (p *pauses) wait(value string) (pause time.Duration, ok bool) {
	value = strings.TrimSpace(value)
	if n, ok := number(value); ok {
		switch {
		case n < leastUnix || n >= leastGarbage:
			return p.span(n, time.Second), true
		case n < leastUnixMilli:
			n *= 1000
		}
		return p.until(time.UnixMilli(int64(n))), true
	}
	if d, err := time.ParseDuration(value); err == nil && d >= 0 {
		return min(d, p.longest), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return p.until(at), true
	}
	for _, layout := range [...]string{time.RFC3339, minutes3339} {
		if at, err := time.Parse(layout, value); err == nil {
			return p.until(at), true
		}
	}
	return 0, false
}

// minutes3339 is RFC 3339 without seconds, as some APIs write it.
const minutes3339 = "2006-01-02T15:04Z07:00"

func (p *pauses) until(at time.Time) time.Duration { return min(max(0, at.Sub(p.now)), p.longest) }

// span is n units, at most longest. A number of seconds is rounded up.
func (p *pauses) span(n float64, unit time.Duration) time.Duration {
	if n >= float64(p.longest)/float64(unit) {
		return p.longest
	}
	d := time.Duration(n * float64(unit))
	if unit == time.Second {
		d = time.Duration(wholeSeconds(d)) * time.Second
	}
	return min(d, p.longest)
}

// number reads a decimal number without a sign or an exponent.
func number(value string) (n float64, ok bool) {
	value = strings.TrimSpace(value)
	if strings.Trim(value, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil || n > 0 // beyond all numbers
}
