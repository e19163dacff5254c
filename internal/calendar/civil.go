package calendar

import "math/bits"

const (
	minute = int64(60_000) // milliseconds
	day    = 24 * 60 * minute

	minutesPerDay = 24 * 60
)

// floorDiv is the quotient of a division that rounds down.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// A date is a day of the Gregorian calendar.
type date struct{ year, month, day int }

// dateOf is the date of a number of days since 1970-01-01. (Howard Hinnant's civil_from_days: years begin in March, so
// that the leap day is the last.)
func dateOf(n int64) date {
	n += 719_468 // days from 0000-03-01 to 1970-01-01
	era := floorDiv(n, 146_097)
	ofEra := int(n - era*146_097)
	yearOfEra := (ofEra - ofEra/1460 + ofEra/36_524 - ofEra/146_096) / 365
	ofYear := ofEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	m := (5*ofYear + 2) / 153
	d := date{year: int(era)*400 + yearOfEra, month: m + 3, day: ofYear - (153*m+2)/5 + 1}
	if d.month > 12 {
		d.month -= 12
		d.year++
	}
	return d
}

// number is the number of days from 1970-01-01 to the date.
func (d date) number() int64 {
	y, m := d.year, d.month-3
	if m < 0 {
		m += 12
		y--
	}
	era := floorDiv(int64(y), 400)
	yearOfEra := y - int(era)*400
	ofYear := (153*m+2)/5 + d.day - 1
	return era*146_097 + int64(yearOfEra*365+yearOfEra/4-yearOfEra/100+ofYear) - 719_468
}

// daysIn is the length of a month.
func daysIn(year, month int) int {
	switch {
	case month != 2:
		return 30 + (month+month>>3)&1
	case year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 29
	}
	return 28
}

// weekdayOf is the weekday of a number of days since 1970-01-01, a Thursday. Sunday is 0.
func weekdayOf(n int64) int { return int(n + 4 - 7*floorDiv(n+4, 7)) }

// A dayset is a set of the minutes of a day.
type dayset [(minutesPerDay + 63) / 64]uint64

func (s *dayset) add(m int)      { s[m/64] |= 1 << (m % 64) }
func (s *dayset) has(m int) bool { return s[m/64]>>(m%64)&1 == 1 }

// full reports whether every minute is in the set.
func (s *dayset) full() bool { return s.from(0, false) == minutesPerDay }

// from returns the first minute at or after m that is in the set, or is not, as in says. It returns minutesPerDay if there
// is none.
func (s *dayset) from(m int, in bool) int {
	for i := m / 64; i < len(s); i++ {
		word := s[i]
		if !in {
			word = ^word
		}
		if i == m/64 {
			word &= ^uint64(0) << (m % 64)
		}
		if word != 0 {
			return min(64*i+bits.TrailingZeros64(word), minutesPerDay)
		}
	}
	return minutesPerDay
}

// upTo returns the last minute at or before m that is in the set, or is not, as in says. It returns -1 if there is none.
func (s *dayset) upTo(m int, in bool) int {
	for i := m / 64; i >= 0; i-- {
		word := s[i]
		if !in {
			word = ^word
		}
		if i == m/64 {
			word &= ^uint64(0) >> (63 - m%64)
		}
		if word != 0 {
			return 64*i + bits.Len64(word) - 1
		}
	}
	return -1
}
