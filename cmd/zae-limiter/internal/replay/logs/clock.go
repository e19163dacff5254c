package logs

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// A clock reads times. It remembers the last one, because the times of many lines of an
// access log are equal.
type clock struct {
	layout string
	last   []byte
	millis int64
	form   int    // of the layouts, that of the last time
	joined []byte // memory of a date and a time
}

// parse returns the instant of a time, in milliseconds since the epoch, rounded down.
func (c *clock) parse(v []byte) (int64, error) {
	if len(v) > 0 && bytes.Equal(v, c.last) {
		return c.millis, nil
	}
	millis, err := c.read(v)
	if err != nil {
		return 0, err
	}
	c.last, c.millis = append(c.last[:0], v...), millis
	return millis, nil
}

// layouts are the forms of times besides RFC 3339 and numbers. A fraction may follow the
// seconds of each, with a point or a comma.
var layouts = []string{
	"02/Jan/2006:15:04:05 -0700", "02/Jan/2006:15:04:05", // access logs, HAProxy
	time.DateTime, "2006-01-02T15:04:05", "2006/01/02 15:04:05", // without a zone: Python, pandas, Go's log, nginx's errors
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05Z07", // PostgreSQL: +05:30, +00
	"2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07",
	"2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 Z0700", "2006-01-02 15:04:05 Z07",
	"2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700 MST", // PostgreSQL's log, Go's Time.String
	"20060102T150405Z0700", "20060102T150405",
	time.RFC1123Z, time.RFC1123, "Mon Jan _2 15:04:05 2006", time.UnixDate, time.RubyDate,
}

func (c *clock) read(v []byte) (int64, error) {
	if len(v) == 0 {
		return 0, errMissing
	}
	if c.layout != "" {
		t, err := time.Parse(c.layout, string(v))
		if err != nil {
			return 0, &valueError{v, "it is not a time like " + c.layout}
		}
		if isZoneUnknown(t, c.layout) {
			return 0, &valueError{v, unknownZone}
		}
		return millisOf(t)
	}
	if millis, ok := sinceEpoch(v); ok {
		return millis, nil
	}
	var t time.Time
	if t.UnmarshalText(v) == nil {
		return millisOf(t)
	}
	if len(bytes.Trim(v, "0123456789.eE+")) == 0 { // some loggers write numbers with an exponent: 1.7e9
		f, err := strconv.ParseFloat(string(v), 64)
		if millis, ok := sinceEpoch(strconv.AppendFloat(nil, f, 'f', -1, 64)); err == nil && ok {
			return millis, nil
		}
	}
	text := string(v)
	text, _, _ = strings.Cut(text, " m=") // Go's monotonic clock
	reason := "it is not a time; name its layout"
	for i := range layouts {
		form := (c.form + i) % len(layouts)
		t, err := time.Parse(layouts[form], text)
		switch {
		case err != nil:
		case isZoneUnknown(t, layouts[form]):
			reason = unknownZone
		default:
			c.form = form
			return millisOf(t)
		}
	}
	return 0, &valueError{v, reason}
}

const unknownZone = "the offset of its zone is not known; write UTC, GMT or an offset"

// isZoneUnknown reports whether a time has the name of a zone that package time does not
// know and takes for UTC.
func isZoneUnknown(t time.Time, layout string) bool {
	name, _ := t.Zone()
	return strings.Contains(layout, "MST") && !strings.Contains(layout, "-07") && name != "UTC" && name != "GMT"
}

// millisOf is the instant of a time. A time before the epoch cannot be in a log.
func millisOf(t time.Time) (int64, error) {
	if t.Before(time.UnixMilli(0)) {
		return 0, &lineError{problem: "the time is before 1970"}
	}
	return t.UnixMilli(), nil
}

// sinceEpoch reads a number since the epoch. Its size tells the unit. It refuses what is a
// date and a time in digits, of which each unit would make another instant.
func sinceEpoch(v []byte) (millis int64, ok bool) {
	const (
		maxDigits    = 19
		seconds      = 100_000_000_000
		milliseconds = seconds * 1000
		microseconds = milliseconds * 1000
	)
	if v[len(v)-1] > '9' { // most times in text end with a zone: Z
		return 0, false
	}
	whole, fraction, _ := bytes.Cut(v, []byte{'.'})
	if len(whole) == 0 || len(whole) > maxDigits || isCalendar(whole) {
		return 0, false
	}
	for _, digits := range [][]byte{whole, fraction} {
		for _, c := range digits {
			if c < '0' || c > '9' {
				return 0, false
			}
		}
	}
	n, err := strconv.ParseInt(string(whole), 10, 64)
	switch {
	case err != nil:
		return 0, false
	case n < seconds:
		return n*1000 + thousandths(fraction), true
	case n < milliseconds:
		return n, true
	case n < microseconds:
		return n / 1000, true
	}
	return n / int64(time.Millisecond), true
}

// isCalendar reports whether digits may be a date, with or without a time: 20261102 or
// 20261102091528.
func isCalendar(digits []byte) bool {
	const date, minutes, seconds, millis = "20060102", "200601021504", "20060102150405", "20060102150405.000"
	text := string(digits)
	var layout string
	switch len(digits) {
	case len(date):
		layout = date
	case len(minutes):
		layout = minutes
	case len(seconds):
		layout = seconds
	case len(millis) - 1:
		layout, text = millis, text[:len(seconds)]+"."+text[len(seconds):]
	default:
		return false
	}
	t, err := time.Parse(layout, text)
	const first, last = 1980, 2100 // years of logs
	return err == nil && t.Year() >= first && t.Year() < last
}

// thousandths are the first three digits of a fraction.
func thousandths(fraction []byte) (n int64) {
	const digits = 3
	for i := range digits {
		n *= 10
		if i < len(fraction) {
			n += int64(fraction[i] - '0')
		}
	}
	return n
}
