package manage

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// ParseUntil reads when something ends: an instant, a date or a weekday, which begin at midnight in UTC,
// or how long from now: "2h" or "3d". The result is after now, in whole milliseconds.
func ParseUntil(s string, now time.Time) (time.Time, error) {
	const day = 24 * time.Hour
	invalid := func(reason string) (time.Time, error) {
		return time.Time{}, &store.ValidationError{Field: "until", Value: s, Reason: reason}
	}
	t, _, isTime := ParseTime(s)
	if !isTime {
		t = weekdayAfter(s, now)
	}
	if t.IsZero() {
		d, err := time.ParseDuration(s)
		if days, ok := strings.CutSuffix(s, "d"); ok {
			const most = math.MaxInt64 / uint64(day)
			var n uint64
			if n, err = strconv.ParseUint(days, 10, 64); n > most {
				err = strconv.ErrRange
			}
			d = time.Duration(n) * day //nolint:gosec // it is at most that many
		}
		if err != nil {
			return invalid("give a time like 2006-01-02T15:04:05Z, a date, a weekday like friday, or a duration like 2h or 3d")
		}
		t = now.Add(d)
	}
	if !t.After(now) {
		return invalid("it is over already: give a time in the future")
	}
	return t.Truncate(time.Millisecond), nil
}

// weekdayAfter is the next midnight in UTC with which a weekday begins; zero if s is none.
func weekdayAfter(s string, now time.Time) time.Time {
	const week, shortest = 7, 3
	midnight := now.UTC().Truncate(24 * time.Hour)
	for i := 1; i <= week; i++ {
		t := midnight.AddDate(0, 0, i)
		if name := strings.ToLower(t.Weekday().String()); name == strings.ToLower(s) || name[:shortest] == strings.ToLower(s) {
			return t
		}
	}
	return time.Time{}
}

// ParseRange reads the ends of a range. Each is an instant or a date in UTC; a date as the end
// includes its whole day. The range includes from and excludes to; "" gives zero.
func ParseRange(start, end string) (from, to time.Time, err error) {
	const form = "give a time like 2006-01-02 or 2006-01-02T15:04:05Z"
	var ok bool
	if start != "" {
		if from, _, ok = ParseTime(start); !ok {
			return from, to, &store.ValidationError{Field: "start", Value: start, Reason: form}
		}
	}
	if end == "" {
		return from, to, nil
	}
	last, date, ok := ParseTime(end)
	if !ok {
		return from, to, &store.ValidationError{Field: "end", Value: end, Reason: form}
	}
	to = last.Add(time.Nanosecond)
	if date {
		to = last.AddDate(0, 0, 1)
	}
	if !from.Before(to) {
		return from, to, &store.ValidationError{Field: "end", Value: end, Reason: "it is before the start, " + start}
	}
	return from, to, nil
}

// ParseTime reads an instant, or a date, which means midnight in UTC.
func ParseTime(s string) (t time.Time, date, ok bool) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, true, true
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, false, err == nil
}
