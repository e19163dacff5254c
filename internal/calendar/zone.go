package calendar

import (
	"sync"
	"time"
)

// A Zone is a time zone of the IANA database. Zones are interned: the same name is the same pointer. It does not change.
type Zone struct {
	name  string
	spans []span
}

// A span is an interval of one offset from UTC. Its end is the start of the next.
type span struct {
	start  int64 // the first instant
	offset int64 // civil time less instant
	// peak is the civil time that the wall has not reached by the end of the span, in none of the spans so far. It grows
	// from span to span, except in those that lie within the repetition of a civil time; there it stays.
	peak int64
}

// The spans of a zone cover more than 1970 to 2100: the latest edge of a rare pattern may lie 40 years back, and its next
// edge 40 years ahead.
var (
	earliest = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// forever is an instant after all others.
const forever = int64(1) << 60

// within moves an instant between the bounds that zones cover.
func within(t int64) int64 { return min(max(t, earliest), latest) }

var zones = struct {
	sync.RWMutex

	byName map[string]*Zone
}{byName: map[string]*Zone{}}

// LoadZone returns the zone of an IANA name. The name "" means UTC. The data is what package time finds: the operating
// system's, or what the program embeds by importing time/tzdata. The error is an [*Error].
func LoadZone(name string) (*Zone, error) {
	if name == "" {
		name = "UTC"
	}
	zones.RLock()
	z := zones.byName[name]
	zones.RUnlock()
	if z != nil {
		return z, nil
	}
	// "Local" is a zone to package time, but another one on each machine.
	loc, err := time.LoadLocation(name)
	if err == nil && name != "Local" {
		zones.Lock()
		defer zones.Unlock()
		if zones.byName[name] == nil {
			zones.byName[name] = newZone(name, loc)
		}
		return zones.byName[name], nil
	}
	e := &Error{
		Field: "zone", Value: name, Reason: "it is not a name of the IANA time zone database, as this machine knows it",
		Advice: "give a name like Europe/Berlin or UTC",
	}
	if _, err := time.LoadLocation("Europe/Berlin"); err != nil {
		e.Reason = "this machine has no time zone data"
		e.Advice = `install the package tzdata, or import _ "time/tzdata" in the program`
	}
	return nil, e
}

// Name is the IANA name.
func (z *Zone) Name() string { return z.name }

func newZone(name string, loc *time.Location) *Zone {
	z := &Zone{name: name}
	peak := -2 * forever
	for t := earliest; ; {
		at := time.UnixMilli(t).In(loc)
		_, seconds := at.Zone()
		offset := int64(seconds) * 1000
		_, next := at.ZoneBounds()
		end := next.UnixMilli()
		last := next.IsZero() || end > latest
		if end <= t {
			end = t + day // package time counts 365 days for a leap year: on its last day, the end is past
		}
		if last {
			end = forever
		}
		peak = max(peak, end+offset)
		if n := len(z.spans); n > 0 && z.spans[n-1].offset == offset {
			z.spans[n-1].peak = peak // only the zone's abbreviation changed
		} else {
			z.spans = append(z.spans, span{start: t, offset: offset, peak: peak})
		}
		if last {
			z.spans[0].start = -forever
			return z
		}
		t = end
	}
}

// at returns the number of the span that holds an instant.
func (z *Zone) at(t int64) int {
	low, high := 0, len(z.spans) // spans[low].start <= t < spans[high].start
	for high-low > 1 {
		if mid := (low + high) / 2; z.spans[mid].start <= t {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// end is the first instant after a span.
func (z *Zone) end(i int) int64 {
	if i+1 < len(z.spans) {
		return z.spans[i+1].start
	}
	return forever
}

// civil is what the wall reads at an instant.
func (z *Zone) civil(t int64) int64 { return t + z.spans[z.at(t)].offset }

// reached is the latest civil time that the wall has shown up to an instant. It is more than what the wall reads while a
// civil time repeats. It is the inverse of place: place(c) <= t if and only if c <= reached(t).
func (z *Zone) reached(t int64) int64 {
	i := z.at(t)
	c := t + z.spans[i].offset
	if i > 0 {
		c = max(c, z.spans[i-1].peak-1)
	}
	return c
}

// place is the first instant at which the wall reads a civil time or later. A time that the clocks skip is placed at the
// end of the gap, and a time that repeats at its first occurrence (ADR 042).
func (z *Zone) place(c int64) int64 {
	low, high := 0, len(z.spans)-1 // the first span whose peak is above c is among these
	for low < high {
		if mid := (low + high) / 2; z.spans[mid].peak > c {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return max(c-z.spans[low].offset, z.spans[low].start)
}
