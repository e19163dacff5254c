package labels

import limiter "github.com/zeroae/zae-limiter-go"

// UsedRatios are the upper bounds of the histogram of what was used of estimates. Half of them are
// for estimates that were too small.
var UsedRatios = []float64{.1, .25, .5, .75, .9, 1, 1.1, 1.25, 1.5, 2, 4}

// When says when a lease was settled that had been written down: "in_time", or "late".
func When(r *limiter.CallResult) string {
	if r.Late {
		return "late"
	}
	return "in_time"
}

// UsedRatio is what a lease that was settled took of a limit in the end, by what it had reserved. It is
// not ok if it had reserved nothing.
func UsedRatio(p *limiter.PartResult, limit string) (ratio float64, ok bool) {
	const milli = 1000
	reserved := float64(p.Reserved[limit]) * milli
	if reserved == 0 {
		return 0, false
	}
	used := reserved
	for _, a := range p.Settled {
		if a.Limit == limit {
			used += float64(a.Milli)
		}
	}
	return used / reserved, true
}
