package calendar

import (
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"
)

// Params are the parameters of a limit: tokens in thousandths, and the period in milliseconds.
type Params struct {
	Capacity int64
	Amount   int64 // added each period; 0 for a quota
	Period   int64
}

// A Change is an entry of a [Schedule]: while the minutes of a pattern match, or until an
// instant, the limit has other parameters. It scales the limit, or it sets some of its
// parameters; the others stay as they are.
type Change struct {
	Cron     string // five fields; "" if the entry holds until an instant
	Until    int64  // milliseconds of Unix time; 0 if the entry holds while Cron matches
	Permille int64  // scales the capacity and the amount; 0: does not scale
	Capacity int64  // tokens; 0: stays
	Amount   int64  // tokens; 0: stays
	Seconds  int64  // the period; 0: stays
}

// A Schedule says which parameters a limit has at an instant. Its entries follow the wall of a zone in real time: an entry
// is in force in every minute that its pattern matches, and of several the first. It does not change, and it is interned
// like a [Renewal].
type Schedule struct {
	zone    *Zone
	entries []scheduled
	code    string
	// last is the piece that was asked for last, for the same reason as that of a Renewal.
	last atomic.Pointer[Piece]
}

// scheduled is a [Change] whose pattern is parsed.
type scheduled struct {
	*cron // nil if the entry holds until an instant

	Change
}

// onAt reports whether an entry matches at an instant.
func (e *scheduled) onAt(z *Zone, t int64) bool {
	if e.Until != 0 {
		return t < e.Until
	}
	return z.onAt(&e.pattern, t)
}

// next returns the first instant at or after t at which an entry matches, or does not, as on says.
func (e *scheduled) next(z *Zone, t int64, on bool) int64 {
	switch {
	case e.Until == 0 && e.always && !on, e.Until != 0 && on && t >= e.Until:
		return forever
	case e.Until == 0:
		return z.from(&e.pattern, t, on)
	case on:
		return t
	default:
		return max(t, e.Until)
	}
}

// since returns the first instant of the run that holds t: whether an entry matches does not
// change from there to t.
func (e *scheduled) since(z *Zone, t int64) int64 {
	switch {
	case e.Until == 0 && e.always, t < e.Until:
		return -forever
	case e.Until == 0:
		return z.since(&e.pattern, t)
	default:
		return e.Until
	}
}

// Base is the index when no entry is in force.
const Base = -1

// NewSchedule makes the schedule of some changes in a zone. The error is an [*Error].
func NewSchedule(changes []Change, zone string) (*Schedule, error) {
	z, err := LoadZone(zone)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, &Error{Field: "schedule", Reason: "it has no entry", Advice: "give one at least, or no schedule"}
	}
	s := &Schedule{zone: z}
	for _, change := range changes {
		if err := change.check(); err != nil {
			return nil, err
		}
		entry := scheduled{Change: change}
		if change.Until == 0 {
			if entry.cron, err = parseCron(change.Cron); err != nil {
				return nil, err
			}
			entry.Cron = entry.fieldsText()
		}
		s.entries = append(s.entries, entry)
	}
	s.code = s.encode()
	return schedules.intern(key{s.code, z.name}, s), nil
}

// check refuses what the peer refuses.
func (c Change) check() error {
	const (
		permille = 1_000_000_000
		tokens   = 1_000_000_000_000_000
		seconds  = 1_000_000_000
	)
	for _, v := range []struct {
		field        string
		value, bound int64
	}{
		{"scale in thousandths", c.Permille, permille},
		{"scheduled capacity", c.Capacity, tokens},
		{"scheduled refill amount", c.Amount, tokens},
		{"scheduled refill period", c.Seconds, seconds},
	} {
		if v.value < 0 || v.value > v.bound {
			return &Error{
				Field: v.field, Value: strconv.FormatInt(v.value, 10), Reason: "it is out of bounds",
				Advice: fmt.Sprintf("give a number from 1 to %d", v.bound),
			}
		}
	}
	if c.Until < 0 || c.Until > latest || c.Until != 0 && c.Cron != "" {
		return &Error{
			Field: "end of a scheduled entry", Value: strconv.FormatInt(c.Until, 10), Reason: "it is out of bounds, or the entry has five fields of cron, too",
			Advice: "give an instant before the year 2200, and no fields of cron",
		}
	}
	if absolute := c.Capacity != 0 || c.Amount != 0 || c.Seconds != 0; absolute == (c.Permille != 0) {
		return &Error{
			Field: "scheduled entry", Value: c.when(), Reason: "it must either scale the limit, or set some of its parameters",
			Advice: "give a scale, or a capacity, a refill amount or a refill period",
		}
	}
	return nil
}

// Zone is the IANA name of the zone.
func (s *Schedule) Zone() string { return s.zone.name }

// Changes are the entries.
func (s *Schedule) Changes() []Change {
	all := make([]Change, len(s.entries))
	for i := range s.entries {
		all[i] = s.entries[i].Change
	}
	return all
}

// SetsAmounts reports whether each entry scales a limit or sets its capacity, and nothing else:
// then it can be that of a quota.
func (s *Schedule) SetsAmounts() bool {
	for i := range s.entries {
		if c := &s.entries[i].Change; c.Amount != 0 || c.Seconds != 0 {
			return false
		}
	}
	return true
}

// At returns the parameters in force at an instant, and the index of the entry that sets them, or [Base].
func (s *Schedule) At(t int64, base Params) (p Params, index int) {
	piece := s.Piece(t)
	return s.In(piece, base), piece.entry
}

// index is the first entry that an instant matches.
func (s *Schedule) index(t int64) int {
	t = within(t)
	for i := range s.entries {
		if s.entries[i].onAt(s.zone, t) {
			return i
		}
	}
	return Base
}

// A Piece is an interval of instants in which the same entry of a [Schedule] is in force.
type Piece struct {
	Period

	entry int
}

// Piece returns the piece that holds an instant. It ends where another entry is in force, or
// after eight years; and it begins where another one was.
func (s *Schedule) Piece(t int64) Piece {
	if p := s.last.Load(); p != nil && p.Start <= t && t < p.End {
		return *p
	}
	entry := s.index(t)
	p := Piece{Period{s.begin(t, entry), s.end(t, entry)}, entry}
	if p.End-t <= horizon { // an end that is none must not be remembered for later instants
		s.last.Store(&p)
	}
	return p
}

// After returns the piece after another one, and Before the one before it. Neither becomes
// the one that was asked for last.
func (s *Schedule) After(p Piece) Piece {
	entry := s.index(p.End)
	return Piece{Period{p.End, s.end(p.End, entry)}, entry}
}

// Before returns the piece before another one.
func (s *Schedule) Before(p Piece) Piece {
	entry := s.index(p.Start - 1)
	return Piece{Period{s.begin(p.Start-1, entry), p.Start}, entry}
}

// IsLast reports whether a piece never ends, as far as zones are known.
func (p Piece) IsLast() bool { return p.End == forever }

// All yields the parameters that can be in force: base, and those of each entry.
func (s *Schedule) All(base Params) iter.Seq[Params] {
	return func(yield func(Params) bool) {
		for i := range s.entries {
			if !yield(s.entries[i].apply(base)) {
				return
			}
		}
		yield(base)
	}
}

// In returns the parameters in force in a piece.
func (s *Schedule) In(p Piece, base Params) Params {
	if p.entry == Base {
		return base
	}
	return s.entries[p.entry].apply(base)
}

// horizon bounds how far [Schedule.NextChange] looks. A leap day is never farther.
const horizon = (8*365 + 2) * day

// NextChange returns the first instant after t at which another entry is in force, and whether there is one within eight
// years. It is where the entry in force ends, or where one that goes before it begins.
func (s *Schedule) NextChange(t int64) (at int64, ok bool) {
	at = s.Piece(t).End
	return at, at-within(t) <= horizon
}

// rivals are the entries whose beginning or end can change which entry is in force: those
// that go before it.
func (s *Schedule) rivals(entry int) []scheduled {
	if entry == Base {
		return s.entries
	}
	return s.entries[:entry]
}

// end is the first instant after t at which another entry than the one in force at t is. It
// is at most eight years and a millisecond later, except that no piece ends that reaches
// beyond what zones cover.
func (s *Schedule) end(t int64, entry int) int64 {
	if t >= latest {
		return forever
	}
	t = within(t)
	at := t + horizon + 1
	if entry != Base {
		at = min(at, s.entries[entry].next(s.zone, t, false))
	}
	rivals := s.rivals(entry)
	for i := range rivals {
		at = min(at, rivals[i].next(s.zone, t, true))
	}
	return at
}

// begin is the first instant from which on the entry in force at t has been in force.
func (s *Schedule) begin(t int64, entry int) int64 {
	if t <= earliest {
		return -forever
	}
	t = within(t)
	at := -forever
	if entry != Base {
		at = s.entries[entry].since(s.zone, t)
	}
	rivals := s.rivals(entry)
	for i := range rivals {
		at = max(at, rivals[i].since(s.zone, t))
	}
	return at
}

// maxMilli is the largest number of thousandths of tokens that a limit can have.
const maxMilli = 1_000_000_000_000_000_000

// apply returns the parameters that an entry makes of those of the limit. The scale is a float64 and the result is cut
// off, because the peer computes so.
func (c Change) apply(p Params) Params {
	if c.Permille != 0 {
		return Params{scale(p.Capacity, c.Permille), scale(p.Amount, c.Permille), p.Period}
	}
	if c.Capacity != 0 {
		p.Capacity = c.Capacity * 1000
	}
	if c.Amount != 0 {
		p.Amount = c.Amount * 1000
	}
	if c.Seconds != 0 {
		p.Period = c.Seconds * 1000
	}
	return p
}

// scale multiplies by a scale. The result is from 1 to maxMilli, except that 0 stays 0.
func scale(v, permille int64) int64 {
	if v == 0 {
		return 0
	}
	scaled := float64(v) * (float64(permille) / 1000)
	if scaled >= maxMilli {
		return maxMilli
	}
	return max(1, int64(scaled))
}
