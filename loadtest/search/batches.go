package search

import "math"

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

// student are the 97.5th percentiles of Student's t distribution by degrees of freedom,
// from 1.
var student = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// normal is the 97.5th percentile of the normal distribution.
const normal = 1.960

// interval returns the share of all, and an interval that has the true share with 95 %
// confidence. It is the wider one of two: of batch means, which is right if operations of a
// batch depend on each other, and Wilson's, which is right if few have the property.
func (b batches) interval() Interval {
	var hits, of float64
	for _, one := range b {
		hits, of = hits+float64(one.hits), of+float64(one.of)
	}
	if of == 0 {
		return Interval{Most: 1}
	}
	is := hits / of
	const z2 = normal * normal
	middle := (is + z2/(2*of)) / (1 + z2/of)
	half := normal * math.Sqrt(is*(1-is)/of+z2/(4*of*of)) / (1 + z2/of)
	wide := b.deviation(is, of)
	return Interval{Is: is, Least: max(0, min(middle-half, is-wide)), Most: min(1, max(middle+half, is+wide))}
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
	t := normal
	if dof := len(b) - 1; dof <= len(student) {
		t = student[dof-1]
	}
	return t * math.Sqrt(k/(k-1)*squares) / of
}

// verdict compares the share with the highest one allowed.
func (b batches) verdict(most float64) Verdict {
	switch i := b.interval(); {
	case i.Most <= most:
		return Kept
	case i.Least > most:
		return Broken
	default:
		return Uncertain
	}
}
