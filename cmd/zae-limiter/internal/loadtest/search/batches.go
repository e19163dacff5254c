package search

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// perRun is the number of batches of a run, if it has that many samples.
const perRun = 10

// batches are shares of consecutive stretches of a load: of operations, some have a
// property. Operations that follow each other depend on each other: a stall delays hundreds
// of them. So the shares of batches tell how certain the share of all is.
type batches []batch

type batch struct{ hits, of int64 }

// plus returns the batches with one more, unless it is empty.
func (b batches) plus(hits, of int64) batches {
	if of == 0 {
		return b
	}
	return append(b, batch{hits, of})
}

// interval returns the share of all, and an interval that has the true share with 95 %
// confidence. It is the wider one of two: of batch means, which is right if operations of a
// batch depend on each other, and the exact one of independent operations, which is right if
// few have the property.
func (b batches) interval() Interval {
	var hits, of float64
	for _, one := range b {
		hits, of = hits+float64(one.hits), of+float64(one.of)
	}
	if of == 0 {
		return Interval{Most: 1}
	}
	is := hits / of
	low, high := binomial(is, of)
	wide := b.deviation(is, of)
	return Interval{Is: is, Least: max(0, min(low, is-wide)), Most: min(1, max(high, is+wide))}
}

// deviation is half of the width of the interval of batch means.
func (b batches) deviation(is, of float64) float64 {
	if len(b) < 2 {
		return 1
	}
	var squares float64
	for _, one := range b {
		rest := float64(one.hits) - is*float64(one.of)
		squares += rest * rest
	}
	k := float64(len(b))
	return student(k-1) * math.Sqrt(k/(k-1)*squares) / of
}

// verdict compares the share with the highest one allowed.
func (b batches) verdict(most float64) Verdict {
	switch i := b.interval(); {
	case most == 0 && i.Is > 0: // one is too many
		return Broken
	case i.Most <= most:
		return Kept
	case i.Least > most:
		return Broken
	default:
		return Uncertain
	}
}

// tail is the probability that a true value is below its interval, and that it is above.
const tail = 0.025

// student is the quantile of Student's distribution at 1 - [tail], for some degrees of
// freedom, more than 0.
func student(degrees float64) float64 {
	x := mathext.InvRegIncBeta(degrees/2, 0.5, 2*tail)
	return math.Sqrt(degrees * (1 - x) / x)
}

// binomial is the interval of Clopper and Pearson for a share of n independent operations. n
// need not be whole.
func binomial(share, n float64) (low, high float64) {
	k := share * n
	low, high = 0, 1
	if k > 0 {
		low = min(share, mathext.InvRegIncBeta(k, n-k+1, tail))
	}
	if k < n {
		high = max(share, mathext.InvRegIncBeta(k+1, n-k, 1-tail))
	}
	return low, high
}
