// Package confidence has intervals that hold a true value with a probability of 95 %.
package confidence

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

const (
	// Level is the probability with which an interval holds the true value.
	Level = 0.95
	// Tail is the probability that the true value is below the interval, and that it is above.
	Tail = (1 - Level) / 2
)

// Student is the quantile of Student's distribution at 1 - [Tail], for some degrees of
// freedom, more than 0.
func Student(degrees float64) float64 {
	x := mathext.InvRegIncBeta(degrees/2, 0.5, 2*Tail)
	return math.Sqrt(degrees * (1 - x) / x)
}

// Binomial is the interval of Clopper and Pearson for a share of n independent operations. n
// need not be whole.
func Binomial(share, n float64) (low, high float64) {
	k := share * n
	low, high = 0, 1
	if k > 0 {
		low = min(share, mathext.InvRegIncBeta(k, n-k+1, Tail))
	}
	if k < n {
		high = max(share, mathext.InvRegIncBeta(k+1, n-k, 1-Tail))
	}
	return low, high
}
