package calendar

// farthest is more than the difference of any two offsets. A change of the clocks reaches no civil time that is farther.
const farthest = 2 * day

// nearDay reports whether a day matches of the three that begin or end with day n.
func (p *pattern) nearDay(n, direction int64) bool {
	return p.onDay(n) || p.onDay(n+direction) || p.onDay(n+2*direction)
}

// A pattern in real time: the wall of a zone reads a minute that matches, or it does not. A change of the clocks can begin
// or end a run, and can divide it.

// onAt reports whether a pattern matches at an instant.
func (z *Zone) onAt(p *pattern, t int64) bool { return p.on(z.civil(t)) }

// from returns the first instant at or after t at which a pattern matches, or does not, as on says.
//
// The naive way looks at each span until the next match: too long for a leap day. If no day matches near t, no change of
// the clocks can reach a match until shortly before the next one, so the spans between are skipped. A run of minutes that
// match is never so long: less than a year.
func (z *Zone) from(p *pattern, t int64, on bool) int64 {
	for {
		i := z.at(t)
		offset := z.spans[i].offset
		c := t + offset
		if p.on(c) == on {
			return t
		}
		next := p.from(c, on)
		if next-offset < z.end(i) {
			return next - offset
		}
		t = z.end(i)
		if on && !p.nearDay(floorDiv(c, day), -1) {
			t = max(t, next-offset-farthest)
		}
	}
}

// since returns the first instant of the run that holds t: whether a pattern matches does not change from there to t.
func (z *Zone) since(p *pattern, t int64) int64 {
	on := z.onAt(p, t)
	for {
		i := z.at(t)
		offset, start := z.spans[i].offset, z.spans[i].start
		c := t + offset
		first := p.upTo(c, !on) + minute - offset
		if first > start {
			return first
		}
		t = start - 1
		if !on && !p.nearDay(floorDiv(c, day), 1) {
			t = min(t, first+farthest)
		}
		if z.onAt(p, t) != on {
			return start // t is just before the span, because the run is longer than what was skipped
		}
	}
}
