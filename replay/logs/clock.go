package logs

import (
	"bytes"
	"strconv"
	"time"
)

// A clock reads times. It remembers the last one, because the times of many lines of an
// access log are equal.
type clock struct {
	layout string
	last   []byte
	millis int64
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

// layouts are tried in order, besides RFC 3339 and numbers.
var layouts = []string{
	"02/Jan/2006:15:04:05 -0700", time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700",
	"2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05 Z0700",
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
		return millisOf(t)
	}
	if millis, ok := sinceEpoch(v); ok {
		return millis, nil
	}
	var t time.Time
	if t.UnmarshalText(v) == nil {
		return millisOf(t)
	}
	if f, err := strconv.ParseFloat(string(v), 64); err == nil {
		// Some loggers write numbers with an exponent: 1.7e9.
		if millis, ok := sinceEpoch(strconv.AppendFloat(nil, f, 'f', -1, 64)); ok {
			return millis, nil
		}
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, string(v)); err == nil {
			return millisOf(t)
		}
	}
	return 0, &valueError{v, "it is not a time; name its layout"}
}

// millisOf is the instant of a time. A time before the epoch cannot be in a log.
func millisOf(t time.Time) (int64, error) {
	if t.Before(time.UnixMilli(0)) {
		return 0, &lineError{"the time is before 1970"}
	}
	return t.UnixMilli(), nil
}

// sinceEpoch reads a number since the epoch. Its size tells the unit.
func sinceEpoch(v []byte) (millis int64, ok bool) {
	const (
		maxDigits    = 19
		seconds      = 100_000_000_000
		milliseconds = seconds * 1000
		microseconds = milliseconds * 1000
	)
	whole, fraction, _ := bytes.Cut(v, []byte{'.'})
	if len(whole) == 0 || len(whole) > maxDigits {
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
	return n / millisecond, true
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
