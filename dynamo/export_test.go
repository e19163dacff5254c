package dynamo

import "time"

// CompareReleases compares two version strings; ok is false if one is invalid.
func CompareReleases(a, b string) (order int, ok bool) {
	x, okA := parseRelease(a)
	y, okB := parseRelease(b)
	return x.compare(y), okA && okB
}

// Following returns o for a process in which as much time passes as its clock says. So
// a test can stop or move the time.
func Following(o Options) Options {
	first := o.Now()
	o.passed = func() time.Duration { return o.Now().Sub(first) }
	return o
}
