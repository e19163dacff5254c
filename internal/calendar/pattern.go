package calendar

import "math/bits"

// A pattern is a set of minutes on the civil line: some minutes of some days. It is what five fields of cron mean. Some
// minute matches, because a pattern that never matches is refused.
type pattern struct {
	times    dayset
	months   uint16 // bit 1 is January
	dates    uint32 // bit 1 is the first day of a month
	weekdays uint8  // bit 0 is Sunday
	// both says that the date and the weekday must match; otherwise one of them is enough.
	both bool
	// clamp says that a date beyond the end of a month means its last day.
	clamp bool
	// real says that edges follow real time: the hour is "*" or has a step.
	real bool
	// always says that every minute matches.
	always bool
}

// everyWeekday is the set of all weekdays.
const everyWeekday = 0x7f

// days is the set of the days of a month that match. Bit 1 is the first day.
func (p *pattern) days(year, month int) uint32 {
	if p.months>>month&1 == 0 {
		return 0
	}
	n := daysIn(year, month)
	dates := p.dates
	if p.clamp && dates>>(n+1) != 0 {
		dates |= 1 << n
	}
	dates &= monthMask(n)
	if p.both && (dates == 0 || p.weekdays == everyWeekday) {
		return dates // as weekdays would not change it
	}
	first := weekdayOf(date{year, month, 1}.number())
	week := uint64(p.weekdays>>first | p.weekdays<<(7-first)&everyWeekday) // bit 0 is the weekday of the first day
	weekdays := uint32((week | week<<7 | week<<14 | week<<21 | week<<28) << 1)
	if p.both {
		dates &= weekdays
	} else {
		dates |= weekdays
	}
	return dates & monthMask(n)
}

// daysThat is the set of the days of a month that match, or do not, as on says.
func (p *pattern) daysThat(year, month int, on bool) uint32 {
	days := p.days(year, month)
	if !on {
		days = ^days & monthMask(daysIn(year, month))
	}
	return days
}

// monthMask has a bit for each day of a month of n days.
func monthMask(n int) uint32 { return (1<<n - 1) << 1 }

// onDay reports whether minutes of a day match.
func (p *pattern) onDay(n int64) bool {
	d := dateOf(n)
	return p.days(d.year, d.month)>>d.day&1 == 1
}

// on reports whether the minute of a civil time matches.
func (p *pattern) on(c int64) bool {
	n, m := split(c)
	return p.times.has(m) && p.onDay(n)
}

// split returns the day of a civil time, and the minute of that day.
func split(c int64) (n int64, m int) {
	n = floorDiv(c, day)
	return n, int((c - n*day) / minute)
}

// from returns the first minute that matches, or does not, as on says, at or after the minute of a civil time. If every
// minute matches, there is none that does not; do not ask for it.
func (p *pattern) from(c int64, on bool) int64 {
	n, m := split(c)
	for {
		switch {
		case p.onDay(n):
			if m = p.times.from(m, on); m < minutesPerDay {
				return n*day + int64(m)*minute
			}
		case !on:
			return n*day + int64(m)*minute
		}
		n, m = n+1, 0
		if on || p.times.full() {
			n = p.dayFrom(n, on)
		}
	}
}

// upTo is [pattern.from] backwards: the last such minute, at or before the minute of a civil time.
func (p *pattern) upTo(c int64, on bool) int64 {
	n, m := split(c)
	for {
		switch {
		case p.onDay(n):
			if m = p.times.upTo(m, on); m >= 0 {
				return n*day + int64(m)*minute
			}
		case !on:
			return n*day + int64(m)*minute
		}
		n, m = n-1, minutesPerDay-1
		if on || p.times.full() {
			n = p.dayUpTo(n, on)
		}
	}
}

// dayFrom returns the first day that matches, or does not, at or after day n. It looks at each month once, and skips
// those that cannot match: 40 months at most, for a leap day that must also be a certain weekday.
func (p *pattern) dayFrom(n int64, on bool) int64 {
	d := dateOf(n)
	for {
		if rest := p.daysThat(d.year, d.month, on) >> d.day; rest != 0 {
			d.day += bits.TrailingZeros32(rest)
			return d.number()
		}
		d.month, d.day = d.month+1, 1
		if on {
			d.month += bits.TrailingZeros16(p.months >> d.month) // 16 if no month of the year is left
		}
		if d.month > 12 {
			d.year, d.month = d.year+1, 1
			if on {
				d.month = bits.TrailingZeros16(p.months)
			}
		}
	}
}

// dayUpTo returns the last day that matches, or does not, at or before day n.
func (p *pattern) dayUpTo(n int64, on bool) int64 {
	d := dateOf(n)
	for {
		if rest := p.daysThat(d.year, d.month, on) & (1<<(d.day+1) - 1); rest != 0 {
			d.day = bits.Len32(rest) - 1
			return d.number()
		}
		d.month, d.day = d.month-1, 31
		if on {
			d.month = bits.Len16(p.months&(1<<(d.month+1)-1)) - 1 // -1 if no month of the year is left
		}
		if d.month < 1 {
			d.year, d.month = d.year-1, 12
			if on {
				d.month = bits.Len16(p.months) - 1
			}
		}
	}
}

// edgeAfter returns the first edge after a civil time: the first minute of a run of minutes that match.
func (p *pattern) edgeAfter(c int64) int64 { return p.from(p.from(c, false), true) }

// edgeUpTo returns the last edge at or before a civil time.
func (p *pattern) edgeUpTo(c int64) int64 { return p.upTo(p.upTo(c, true), false) + minute }
