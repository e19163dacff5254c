package wall

import "time"

const (
	second = int64(time.Second)
	minute = int64(time.Minute)

	// maxRate limits a rate, in half units per second, and maxDepth the time that a bucket takes
	// to fill from zero. maxCharge limits one charge in half units, to more than a thousand times
	// the cost of any request. With maxDebt they keep every product and sum of grains within an
	// int64.
	maxRate   = int64(2e6)
	maxDepth  = 10 * time.Minute
	maxCharge = int64(1) << 26
	maxDebt   = int64(1) << 62
)

// pace is the rate and the depth of the buckets of a kind.
type pace struct {
	half  int64 // grains in a half unit: the nanoseconds of the rate's period
	rate  int64 // grains per nanosecond: half units per period; above 0
	keep  int64 // nanoseconds from empty to full
	depth int64 // grains of a full bucket: keep times rate
}

// perSecond returns the pace of a rate in half units per second, of which a bucket keeps the
// given time's worth.
func perSecond(rate int64, keep time.Duration) pace {
	return newPace(second, min(rate, maxRate), int64(min(max(keep, time.Second), maxDepth)))
}

// perMinute returns the pace of a rate in half units per minute, of which a bucket keeps one
// second's worth.
func perMinute(rate int64) pace { return newPace(minute, min(rate, 60*maxRate), second) }

func newPace(half, rate, keep int64) pace {
	return pace{half: half, rate: rate, keep: keep, depth: keep * rate}
}

// bucket is a balance as of an instant.
type bucket struct {
	at      int64 // nanoseconds since the meter was made; never decreases
	balance int64 // grains, at most the depth of the bucket's pace; negative after an expensive request
}

// refilled returns the bucket at an instant. An instant before its own changes nothing.
func (p *pace) refilled(b bucket, now int64) bucket {
	elapsed := now - b.at
	if elapsed <= 0 {
		return b
	}
	b.at = now
	// The product does not overflow: it is at most the depth, or less than what is missing.
	if missing := p.depth - b.balance; elapsed > p.keep && elapsed > missing/p.rate {
		b.balance = p.depth
	} else {
		b.balance += min(elapsed*p.rate, missing)
	}
	return b
}

// charged returns the bucket less a number of half units, at most maxCharge.
func (p *pace) charged(b bucket, halves int64) bucket {
	b.balance = max(b.balance-halves*p.half, -maxDebt)
	return b
}
