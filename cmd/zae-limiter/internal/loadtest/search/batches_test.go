package search_test

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/search"
)

// Quantiles as tables print them.
func TestStudent(t *testing.T) {
	t.Parallel()
	for degrees, want := range map[float64]float64{1: 12.706, 2: 4.303, 5: 2.571, 10: 2.228, 30: 2.042, 1e6: 1.960} {
		if got := search.Student(degrees); math.Abs(got-want) > 5e-4 {
			t.Errorf("%v degrees of freedom: %v, want %v", degrees, got, want)
		}
	}
}

// Of each true share, the interval misses at most the tail on each side.
func TestBinomial(t *testing.T) {
	t.Parallel()
	const n = 40
	for _, share := range []float64{0.001, 0.1, 0.5, 0.97} {
		below, above := 0.0, 0.0
		for k := range n + 1 {
			low, high := search.Binomial(float64(k)/n, n)
			lgamma := func(x int) float64 { v, _ := math.Lgamma(float64(x)); return v }
			p := math.Exp(lgamma(n+1) - lgamma(k+1) - lgamma(n-k+1) + float64(k)*math.Log(share) + float64(n-k)*math.Log1p(-share))
			if share < low {
				below += p
			}
			if share > high {
				above += p
			}
		}
		if below > search.Tail || above > search.Tail {
			t.Errorf("share %v: missed with probability %v and %v", share, below, above)
		}
	}
	if low, high := search.Binomial(0, n); low != 0 || math.Abs(high-(1-math.Pow(search.Tail, 1./n))) > 1e-9 {
		t.Errorf("none of %d: %v to %v", n, low, high)
	}
	if low, high := search.Binomial(1, n); high != 1 || math.Abs(low-math.Pow(search.Tail, 1./n)) > 1e-9 {
		t.Errorf("all of %d: %v to %v", n, low, high)
	}
}
