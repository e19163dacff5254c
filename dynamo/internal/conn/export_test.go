package conn

import (
	"time"
)

// An Estimate is the estimate of a clock's correction, made from dates.
type Estimate struct{ estimate }

// Observe adds the interval that a date gives, and reports whether it is believed.
func (e *Estimate) Observe(low, high, at, local time.Duration) (believed bool) {
	return e.observe(interval{low, high}, at, local, false) != doubts
}

// Interval returns the known interval at an instant.
func (e *Estimate) Interval(at time.Duration) (low, high time.Duration) {
	e.age(at)
	return e.in.low, e.in.high
}

// DriftPPM is the fastest relative drift of two clocks. Tolerance is the most by which
// dates may contradict each other.
const (
	DriftPPM  = driftPPM
	Tolerance = tolerance
)
