package scenario

import (
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

const maxLimits = store.MaxLimits

// text reads a string, and otherwise returns another one.
func (r *reader) text(p place, otherwise string) string {
	if s, ok := r.Text(p); ok {
		return s
	}
	return otherwise
}

// number reads a whole number, and otherwise returns 1.
func (r *reader) number(p place, least, most int64) int64 {
	if n, ok := r.Number(p, least, most); ok {
		return n
	}
	return 1
}

func (r *reader) weight(p place) int64 { return r.number(p, 1, maxWeight) }

// seed reads a whole number of 64 bits.
func (r *reader) seed(p place) uint64 {
	n, err := strconv.ParseUint(p.Node.Value, 10, 64)
	if !p.IsScalar() || p.Node.Tag == "!!str" || err != nil {
		r.Find(p, "give a whole number from 0 to %d, not %s", uint64(1<<64-1), p.Describe())
	}
	return n
}

// scalar reads a value that is written without blanks.
func (r *reader) scalar(p place, give string) (string, bool) {
	if !p.IsScalar() || p.IsNull() {
		r.Find(p, "%s, not %s", give, p.Describe())
		return "", false
	}
	return p.Node.Value, true
}

const (
	giveDuration = "give a duration with its unit: 250ms, 10s or 1m30s, for instance"
	giveSpan     = "give a duration with its unit, or two with .. between them: 10s or 0.5s..2s, for instance"
	giveRate     = "give operations and a unit of s, min or hour, or two with .. between them: 500/s or 100/s..500/s, for instance"
	giveAmount   = "give tokens, or two numbers with .. between them, also with a median: 800, 200..2000 or 200..2000 p50=400, for instance"
	giveDecimal  = "give a number of users per second above 0: 2 or 0.5, for instance"
	picks        = "random, in-turn, power-law 1.5 or rotating 30s, for instance"
)

// duration reads a duration, and otherwise returns a second.
func (r *reader) duration(p place) time.Duration {
	s, ok := r.scalar(p, giveDuration)
	if !ok {
		return time.Second
	}
	d, ok := duration(s)
	if !ok {
		r.Find(p, "%s, not %s", giveDuration, p.Describe())
		return time.Second
	}
	return d
}

// duration reads the form of package time, with a unit and without a sign.
func duration(s string) (time.Duration, bool) {
	if s == "" || s == "0" || strings.Trim(s, "0123456789.hmnsuµ") != "" {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

// twoOf reads a value, or a lower and a higher one with two dots between them.
func twoOf[T any](s string, read func(string) (T, bool)) (least, most T, ok bool) {
	low, high, two := strings.Cut(s, "..")
	if least, ok = read(low); !ok || !two {
		return least, least, ok
	}
	most, ok = read(high)
	return least, most, ok
}

func (r *reader) span(p place) (span Span) {
	s, ok := r.scalar(p, giveSpan)
	if !ok {
		return Span{}
	}
	if span.Least, span.Most, ok = twoOf(s, duration); !ok {
		r.Find(p, "%s, not %s", giveSpan, p.Describe())
		return Span{}
	}
	return span
}

// rate reads operations per second, and otherwise returns one.
func (r *reader) rate(p place) (from, to float64) {
	s, ok := r.scalar(p, giveRate)
	if !ok {
		return 1, 1
	}
	if from, to, ok = twoOf(s, rate); !ok {
		r.Find(p, "%s, not %s", giveRate, p.Describe())
		return 1, 1
	}
	return from, to
}

func rate(s string) (perSecond float64, ok bool) {
	number, unit, _ := strings.Cut(s, "/")
	n, ok := decimal(number)
	switch unit {
	case "s":
		return n, ok
	case "min":
		return n / time.Minute.Seconds(), ok
	case "hour":
		return n / time.Hour.Seconds(), ok
	}
	return 0, false
}

// decimal reads digits, at most one dot among them.
func decimal(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

// decimal reads a number above 0, and otherwise returns 1.
func (r *reader) decimal(p place) float64 {
	s, ok := r.scalar(p, giveDecimal)
	if !ok {
		return 1
	}
	n, ok := decimal(s)
	if !ok || n == 0 || p.Node.Tag == "!!str" {
		r.Find(p, "%s, not %s", giveDecimal, p.Describe())
		return 1
	}
	return n
}

func (r *reader) amount(limit string, p place) Amount {
	a := Amount{Limit: limit}
	s, ok := r.scalar(p, giveAmount)
	if !ok {
		return a
	}
	s, median, skewed := strings.Cut(s, " p50=")
	low, high, two := strings.Cut(s, "..")
	if !two {
		high, ok = low, !skewed
	}
	a.Percent = strings.HasSuffix(low, "%") && strings.HasSuffix(high, "%")
	read := func(s string) int64 {
		if a.Percent {
			s = strings.TrimSuffix(s, "%")
		}
		n, err := strconv.ParseInt(s, 10, 64)
		ok = ok && err == nil && strings.Trim(s, "0123456789") == ""
		return n
	}
	a.Least, a.Most = read(low), read(high)
	if skewed {
		a.Median = read(median)
		ok = ok && a.Median > 0
	}
	if !ok {
		r.Find(p, "%s, not %s", giveAmount, p.Describe())
		return Amount{Limit: limit}
	}
	return a
}

// pick reads how an entity is chosen.
func (r *reader) pick(p place) Pick {
	s, ok := r.Text(p)
	if !ok {
		return Pick{}
	}
	kind, parameter, has := strings.Cut(s, " ")
	switch {
	case kind == "random" && !has:
		return Pick{}
	case kind == "in-turn" && !has:
		return Pick{Kind: PickInTurn}
	case kind == "power-law":
		if alpha, ok := decimal(parameter); ok {
			return Pick{Kind: PickPowerLaw, Alpha: alpha}
		}
	case kind == "rotating":
		if d, ok := duration(parameter); ok {
			return Pick{Kind: PickRotating, For: d}
		}
	}
	r.Find(p, "give %s, not %s", picks, p.Describe())
	return Pick{}
}
