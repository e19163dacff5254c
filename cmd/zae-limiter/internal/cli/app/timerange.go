package app

import (
	"fmt"
	"time"
)

// ParseRange reads the flags --start and --end. Each is an instant or a date in UTC; an end
// date includes its whole day. The range includes from and excludes to; a flag that is not
// given gives zero.
func ParseRange(start, end string) (from, to time.Time, err error) {
	if start != "" {
		if from, _, err = parseTime("start", start); err != nil {
			return from, to, err
		}
	}
	if end == "" {
		return from, to, nil
	}
	last, date, err := parseTime("end", end)
	if err != nil {
		return from, to, err
	}
	to = last.Add(time.Nanosecond)
	if date {
		to = last.AddDate(0, 0, 1)
	}
	if !from.Before(to) {
		return from, to, fmt.Errorf("--end %s is before --start %s", end, start)
	}
	return from, to, nil
}

// parseTime reads an instant, or a date, which means midnight in UTC.
func parseTime(flag, s string) (t time.Time, date bool, err error) {
	if t, err = time.Parse(time.DateOnly, s); err == nil {
		return t, true, nil
	}
	if t, err = time.Parse(time.RFC3339, s); err == nil {
		return t, false, nil
	}
	return t, false, fmt.Errorf("invalid --%s %q: give a time like 2006-01-02 or 2006-01-02T15:04:05Z", flag, s)
}
