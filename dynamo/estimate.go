package dynamo

import "time"

const (
	// dateResolution is the unit that a Date header is cut to.
	dateResolution = time.Second
	// driftPPM is how fast the time that passes here and at the server part at most,
	// in millionths. A quartz is wrong by less than 100; two that both were would be
	// found out by the next answers.
	driftPPM = 100
	// tolerance is by how much dates may contradict each other and still be of one
	// clock: front ends differ by milliseconds, and some servers write the date of
	// up to a second ago.
	tolerance = time.Second
	// mostCredit interval how many dates that contradict what is known are needed to
	// outvote it.
	mostCredit = 16
)

// perMillion is a part of d.
func perMillion(d time.Duration, ppm int64) time.Duration {
	const thousand = 1000 // twice, so that the product does not overflow
	return d / thousand * time.Duration(ppm) / thousand
}

// An interval is between what the correction of a clock lies.
type interval struct{ low, high time.Duration }

func (b interval) contains(d time.Duration) bool { return b.low <= d && d <= b.high }

func (b interval) meets(o interval) bool { return b.low <= o.high && o.low <= b.high }

// agrees reports whether two dates may be of one clock.
func (b interval) agrees(o interval) bool {
	return b.low-tolerance <= o.high && o.low-tolerance <= b.high
}

// narrowed is what b and one more date say. If they contradict each other by a
// little, the later date is right: a date may be late, and none is early.
func (b interval) narrowed(o interval) interval {
	low := max(b.low, o.low)
	return interval{low, max(low, min(b.high, o.high))}
}

// An estimate is what dates tell of the correction of a clock. It knows no clock
// itself: instants are arguments, in the time that has passed.
//
// Each answer bounds the correction to a second and the round trip. The intervals of
// many answers meet in milliseconds. They widen with age, by the drift of clocks.
//
//	date 10   |────────────────|
//	date 11        |────────────────|
//	date 11      |────────────────|
//	            →  |───────────|  ←
//
// A date that contradicts what is known, by more than a little, takes one off its
// credit, which each date that agrees adds to; when there is none left, the
// contradiction is believed and learning starts over. So one server of several whose
// clock is wrong is outvoted, and a clock that all servers agree about is followed.
type estimate struct {
	in     interval
	at     time.Duration // when in was last widened
	credit int
	rival  interval // what dates that contradict say
	rivals int      // how many did
	known  bool
}

// A verdict is how a date stands to what was known before.
type verdict uint8

const (
	agrees   verdict = iota // it narrows it down
	doubts                  // it contradicts it, and is not believed yet
	restarts                // it contradicts it, and is believed
)

// observe takes in the interval that a date gives. local is what the local clock says
// of the correction. set says that the local clock was set and that no date has
// agreed with it or with what was known since.
func (e *estimate) observe(told interval, at, local time.Duration, set bool) verdict {
	e.age(at)
	switch {
	case !e.known:
		e.start(told)
		return agrees
	case set && told.contains(local) && !told.meets(e.in):
		e.start(told)
		return restarts
	case e.in.agrees(told):
		e.in, e.credit = e.in.narrowed(told), min(e.credit+1, mostCredit)
		return agrees
	}
	return e.contradict(told, local)
}

// contradict counts a date that contradicts what is known. The local clock is a
// witness like a date: if it says the same, two do.
func (e *estimate) contradict(told interval, local time.Duration) verdict {
	if e.rivals == 0 || !e.rival.agrees(told) {
		e.rival, e.rivals = told, 0
	}
	e.rival = e.rival.narrowed(told)
	witnesses := 1
	if told.contains(local) {
		witnesses++
	}
	e.rivals += witnesses
	if e.credit -= witnesses; e.credit >= 0 || e.rivals < 2 {
		e.credit = max(0, e.credit)
		return doubts
	}
	e.start(e.rival)
	return restarts
}

func (e *estimate) start(b interval) {
	e.in, e.known, e.credit, e.rivals = b, true, 1, 0
}

// age widens what is known by what clocks may have drifted.
func (e *estimate) age(at time.Duration) {
	drift := perMillion(at-e.at, driftPPM)
	if drift <= 0 {
		return // and counts next time
	}
	e.in, e.at = interval{e.in.low - drift, e.in.high + drift}, at
}

// correct is the correction: what the local clock says, if that is possible, for a
// clock that is kept right is better than an estimate; else the middle of what is
// possible. It is as it was as long as nothing is known.
func (e *estimate) correct(local, was time.Duration) time.Duration {
	switch {
	case !e.known:
		return was
	case e.in.contains(local):
		return local
	}
	return e.in.low + (e.in.high-e.in.low)/2
}

func (e *estimate) width() time.Duration { return e.in.high - e.in.low }
