package compare

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

const (
	confidence = 0.95
	tail       = (1 - confidence) / 2
	// normal is the quantile of the normal distribution at 1 - tail.
	normal = 1.959963984540054
)

// student is the quantile of Student's distribution at 1 - tail.
func student(degrees float64) float64 {
	x := mathext.InvRegIncBeta(degrees/2, 0.5, 2*tail)
	return math.Sqrt(degrees * (1 - x) / x)
}

// An interval is a value with its bounds.
type interval struct{ value, low, high float64 }

// binomial is the interval of Clopper and Pearson for a share of n operations. n need not be
// whole.
func binomial(share, n float64) interval {
	k := share * n
	i := interval{share, 0, 1}
	if k > 0 {
		i.low = min(share, mathext.InvRegIncBeta(k, n-k+1, tail))
	}
	if k < n {
		i.high = max(share, mathext.InvRegIncBeta(k+1, n-k, 1-tail))
	}
	return i
}

// over is the interval of b/a, by recovery of the variances from both intervals on the
// logarithmic scale. Where a value is 0, it has the ratios of the bounds, which are wider.
func over(b, a interval) (low, high float64) {
	if a.value == 0 || b.value == 0 {
		return b.low / a.high, b.high / a.low
	}
	log := math.Log
	ratio := log(b.value / a.value)
	low = ratio - math.Hypot(log(b.value/b.low), log(a.high/a.value))
	high = ratio + math.Hypot(log(b.high/b.value), log(a.value/a.low))
	return math.Exp(low), math.Exp(high)
}
