package compare

import (
	"math"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/internal/confidence"
)

// An interval is a value with its bounds.
type interval struct{ value, low, high float64 }

// binomial is the interval of a share of n operations. n need not be whole.
func binomial(share, n float64) interval {
	low, high := confidence.Binomial(share, n)
	return interval{share, low, high}
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
