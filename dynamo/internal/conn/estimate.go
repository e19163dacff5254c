package conn

import "time"

const (
	// dateResolution is the unit to which a Date header is truncated.
	dateResolution = time.Second
	// driftPPM is the highest rate, in millionths, at which the elapsed time here and
	// at the server drift apart. A quartz is wrong by less than 100. If both clocks
	// drifted that much, the next answers would show it.
	driftPPM = 100
	// tolerance is how much dates of one clock may contradict each other. Front ends
	// differ by milliseconds, and some servers write a date up to a second old.
	tolerance = time.Second
	// mostCredit bounds the number of contradicting dates that are needed to outvote
	// the estimate.
	mostCredit = 16
)

// perMillion is ppm millionths of d.
func perMillion(d time.Duration, ppm int64) time.Duration {
	const thousand = 1000 // divide twice, so that the product does not overflow
	return d / thousand * time.Duration(ppm) / thousand
}

// An interval bounds the correction of a clock.
type interval struct{ low, high time.Duration }

func (b interval) contains(d time.Duration) bool { return b.low <= d && d <= b.high }

func (b interval) meets(o interval) bool { return b.low <= o.high && o.low <= b.high }

// agrees reports whether two dates may be of one clock.
func (b interval) agrees(o interval) bool {
	return b.low-tolerance <= o.high && o.low-tolerance <= b.high
}

// narrowed combines b with one more date. After a small contradiction the later date is
// right: a date may be late, and none is early.
func (b interval) narrowed(o interval) interval {
	low := max(b.low, o.low)
	return interval{low, max(low, min(b.high, o.high))}
}

// An estimate holds what dates tell of the correction of a clock. It reads no clock:
// instants are arguments, in elapsed time.
//
// Each answer bounds the correction to a second and the round trip. The intervals of
// many answers intersect in milliseconds. They widen with age, by the drift of clocks.
//
//	date 10   |────────────────|
//	date 11        |────────────────|
//	date 11      |────────────────|
//	            →  |───────────|  ←
//
// Each date that agrees with the estimate adds to its credit. A date that contradicts
// it by more than a little takes one off. With no credit left, the estimate accepts the
// contradiction and starts over. So the estimate outvotes one server of several with a
// wrong clock, and follows a clock on which all servers agree.
type estimate struct {
	in     interval
	at     time.Duration // when in was last widened
	credit int
	rival  interval // the interval of the contradicting dates
	rivals int      // the number of contradicting dates
	known  bool
}

// A verdict says how a date relates to the estimate before it.
type verdict uint8

const (
	agrees   verdict = iota // it narrows the estimate
	doubts                  // it contradicts the estimate, and is not accepted yet
	restarts                // it contradicts the estimate, and is accepted
)

// observe updates the estimate by the interval that a date gives. local is the
// correction according to the local clock. set reports that the local clock was set,
// and that no date since has agreed with it or with the estimate.
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

// contradict counts a date that contradicts the estimate. The local clock is a witness
// like a date: if it agrees with the date, there are two witnesses.
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

// age widens the estimate by the possible drift of clocks.
func (e *estimate) age(at time.Duration) {
	drift := perMillion(at-e.at, driftPPM)
	if drift <= 0 {
		return // the drift counts next time
	}
	e.in, e.at = interval{e.in.low - drift, e.in.high + drift}, at
}

// correct returns the correction. It is the local clock's, if that is within the
// bounds, because a well-kept clock is better than an estimate. Otherwise it is the
// middle of the bounds. It does not change as long as nothing is known.
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
