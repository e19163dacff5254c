package scenario

import (
	"math"
	"math/bits"
)

// A source is a sequence of random numbers that its seed determines (SplitMix64). Every
// operation has its own.
type source struct{ state uint64 }

const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio, as SplitMix64 has it

// mix is the finalizer of SplitMix64: each bit of x changes half of the bits of the result.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// seeded returns a source for two numbers under a seed.
func seeded(seed, a, b uint64) source {
	return source{mix(mix(mix(seed+golden)+a+golden) + b + golden)}
}

func (s *source) next() uint64 {
	s.state += golden
	return mix(s.state)
}

// below returns a number from 0 to n-1. Its distribution differs from an even one by at
// most n/2^64.
func (s *source) below(n uint64) uint64 {
	hi, _ := bits.Mul64(s.next(), n)
	return hi
}

// between returns a number from least to most.
func (s *source) between(least, most int64) int64 {
	if least == most {
		return least
	}
	return least + int64(s.below(uint64(most-least)+1))
}

// logNormal returns a number of a log-normal distribution with the given median, and with most
// as the 99th percentile; the nearest bound in place of a number that is out of bounds.
func (s *source) logNormal(least, median, most int64) int64 {
	const p99 = 2.3263478740408408 // standard deviations above the mean
	u := (float64(s.next()>>11) + 0.5) / (1 << 53)
	deviations := math.Sqrt2 * math.Erfinv(2*u-1)
	factor := math.Pow(float64(most)/float64(median), deviations/p99)
	return min(max(int64(math.Round(min(float64(median)*factor, float64(most)))), least), most)
}

// An alias chooses an index with the probability of its weight, in constant time (Walker's
// method of aliases): a slot is chosen evenly, and a threshold in it decides between the
// slot's own index and another one.
type alias []slot

type slot struct {
	threshold uint64 // below it, the slot's own index
	other     int32
}

func newAlias(weights []float64) alias {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	n := len(weights)
	a, level := make(alias, n), make([]float64, n)
	var small, large []int32
	for i, w := range weights {
		a[i] = slot{math.MaxUint64, int32(i)}
		level[i] = w / sum * float64(n)
		if level[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a[s] = slot{uint64(level[s] * (1 << 64)), l}
		level[l] -= 1 - level[s]
		if level[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return a
}

// pick chooses an index. The high part of one random number chooses the slot, the low part
// decides inside it.
func (a alias) pick(s *source) int {
	if len(a) == 1 {
		return 0
	}
	i, rest := bits.Mul64(s.next(), uint64(len(a)))
	if rest < a[i].threshold {
		return int(i)
	}
	return int(a[i].other)
}

// powerLaw returns the weights k^-alpha of 1 to n.
func powerLaw(n int, alpha float64) []float64 {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -alpha)
	}
	return weights
}
