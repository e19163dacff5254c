package scenario

import (
	"math"
	"sort"
	"time"
)

// A curve is a rate over time: pieces on which it changes evenly. Instants are in
// nanoseconds and counts in operations, as float64: over 24 h at a million operations a
// second, both are exact to far less than one unit. The first piece begins long before the
// start, at the first rate, for the warm-up.
type curve []piece

// A piece begins at an instant, at which a number of operations have been due.
type piece struct {
	start, count float64
	rate         float64 // operations per nanosecond at the start
	slope        float64 // change of the rate per nanosecond
}

// beforeStart is how far the first piece reaches back: over all phases and the warm-up.
const beforeStart = 3 * float64(maxDuration)

// newCurve returns the curve of stages that begin at start and end at end, which is where
// a stage without a length ends.
func newCurve(stages []Stage, start, end time.Duration) curve {
	perNano := func(rate float64) float64 { return rate / float64(time.Second) }
	rate := perNano(stages[0].FromRate)
	at, count := float64(start), 0.0
	var c curve
	if rate > 0 {
		c = curve{{start: at - beforeStart, count: -rate * beforeStart, rate: rate}}
	}
	for _, s := range stages {
		length := float64(s.For)
		if s.For == 0 {
			length = float64(end) - at
		}
		from, to := perNano(s.FromRate), perNano(s.ToRate)
		c = append(c, piece{at, count, from, (to - from) / length})
		at, count, rate = at+length, count+(from+to)/2*length, to
	}
	return append(c, piece{start: at, count: count, rate: rate})
}

// countAt is the number of operations due from the start until an instant; negative before
// the start.
func (c curve) countAt(at float64) float64 {
	i := sort.Search(len(c), func(i int) bool { return c[i].start > at })
	p := &c[max(i-1, 0)]
	t := max(at-p.start, 0)
	return p.count + t*(p.rate+p.slope*t/2)
}

// instantOf is the instant from which on the count of operations exceeds n; false if it
// never does. Operation n of a process that spaces them evenly is due then. So a stage
// without a rate has none.
func (c curve) instantOf(n float64) (at float64, ok bool) {
	i := sort.Search(len(c), func(i int) bool { return c[i].count > n })
	if i == 0 {
		return math.Inf(-1), true
	}
	p := &c[i-1]
	wanted := n - p.count
	if wanted == 0 && (p.rate > 0 || p.slope > 0) {
		return p.start, true
	}
	// The root of rate·t + slope/2·t² = wanted in the form without cancellation.
	root := math.Sqrt(max(p.rate*p.rate+2*p.slope*wanted, 0))
	if p.rate+root == 0 {
		return 0, false
	}
	at = p.start + 2*wanted/(p.rate+root)
	if i < len(c) {
		at = min(at, c[i].start)
	}
	return at, true
}
