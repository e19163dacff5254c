package scenario

import (
	"math"
	"math/rand/v2"
	"time"
)

// A Schedule says when the operations of an open class are due, or how many users a closed
// class has. Its instants count from the instant for which it was made. The methods Next and
// Skip are for one goroutine at a time.
type Schedule struct {
	// An open class.
	curve  curve
	from   float64 // the instant for which the schedule was made, in nanoseconds
	end    time.Duration
	count  float64       // operations until the one that Next returns
	last   time.Duration // that Next has returned
	random *rand.Rand    // of a Poisson process, nil without one

	users []crowd
}

// Schedule returns the schedule of a class from an instant, which counts from the start of
// the measurement. It is negative in the warm-up, in which the rate and the number of users
// are those of the beginning. The schedule ends with the last phase, and knows nothing of
// phases in which the class is not active.
//
// Evenly spaced operations are due when the sum of the rate reaches a whole number, counted
// from the first instant at which the class is active. So schedules from different instants
// fit together. A Poisson process has no memory: each schedule has a process of its own, the
// same in every run.
func (p *Plan) Schedule(class int, from time.Duration) *Schedule {
	c := &p.Classes[class]
	start, end := p.ClassStart(class), p.Duration()
	s := &Schedule{from: float64(from), end: end - from}
	if !c.Arrival.Open() {
		s.users = crowds(c.Arrival.Stages, start-from)
		return s
	}
	s.curve = newCurve(c.Arrival.Stages, start, end)
	s.count = s.curve.countAt(s.from)
	if c.Arrival.Poisson {
		const arrivals = 1 << 63 // keeps these numbers apart from those of operations
		seed := seeded(p.Seed, p.classes[class].key+arrivals, uint64(from))
		s.random = rand.New(rand.NewPCG(seed.next(), seed.next()))
		s.count += s.random.ExpFloat64()
	} else {
		s.count = s.firstWhole()
	}
	return s
}

// firstWhole is the first whole number whose instant, in whole nanoseconds, is not before
// the schedule's. So of two schedules that meet, exactly one has an operation that is due
// where they meet.
func (s *Schedule) firstWhole() float64 {
	n := math.Floor(s.count) - 1
	for {
		at, ok := s.curve.instantOf(n)
		if !ok || math.Round(at) >= s.from {
			return n
		}
		n++
	}
}

// Next returns the instant at which the next operation is due; false after the last one. No
// operation is due before its predecessor.
func (s *Schedule) Next() (due time.Duration, ok bool) {
	due, ok = s.peek()
	if ok {
		s.advance(due)
	}
	return due, ok
}

// Skip passes over the operations that are due before an instant, and returns their number.
func (s *Schedule) Skip(until time.Duration) (passed int64) {
	if s.curve != nil && s.random == nil {
		const margin = 2 // of rounding; the loop takes the rest
		near := math.Floor(s.curve.countAt(s.from+float64(min(until, s.end)))) - margin
		if near > s.count {
			passed, s.count = int64(near-s.count), near
		}
	}
	for {
		due, ok := s.peek()
		if !ok || due >= until {
			return passed
		}
		s.advance(due)
		passed++
	}
}

func (s *Schedule) peek() (due time.Duration, ok bool) {
	if s.curve == nil {
		return 0, false
	}
	at, ok := s.curve.instantOf(s.count)
	if !ok || at-s.from >= float64(s.end) {
		return 0, false
	}
	due = max(time.Duration(math.Round(at-s.from)), s.last)
	return due, due < s.end
}

func (s *Schedule) advance(due time.Duration) {
	s.last = due
	if s.random != nil {
		s.count += s.random.ExpFloat64()
	} else {
		s.count++
	}
}

// Expected is the expected number of operations that are due between two instants.
func (s *Schedule) Expected(from, to time.Duration) float64 {
	if s.curve == nil || to <= from {
		return 0
	}
	return s.curve.countAt(s.from+float64(min(to, s.end))) - s.curve.countAt(s.from+float64(min(from, s.end)))
}

// Rate is the number of operations due per second at an instant.
func (s *Schedule) Rate(at time.Duration) float64 {
	const half = float64(time.Millisecond)
	if s.curve == nil || at >= s.end {
		return 0
	}
	mid := s.from + float64(at)
	return (s.curve.countAt(mid+half) - s.curve.countAt(mid-half)) / (2 * half) * float64(time.Second)
}
