package dynamolite

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Latency is how long a request takes beyond its work, which is microseconds. The zero value is nothing.
//
// Half of it passes before the work and half after, like the way of a request and that of its answer: a
// caller whose context ends in the first half has done nothing, one whose context ends in the second
// has an error although the work is done, as on AWS. Inside a testing/synctest bubble the time is
// virtual.
type Latency struct {
	// P50 is what half of the requests do not exceed, at most a minute. Without P99 all take this long.
	P50 time.Duration
	// P99 is what all but one of a hundred requests do not exceed, at least P50 and at most a minute. The
	// distribution is log-normal: the logarithm of the latency is normal, with a long tail as services
	// have it. No request takes more than an hour. Default: P50.
	P99 time.Duration
	// Seed chooses the sequence: the n-th request of a database takes equally long in every run.
	// Default: 0, a sequence like any other.
	Seed uint64
}

const (
	maxLatency = time.Minute // of P50 and P99
	maxSample  = time.Hour
)

// ParseLatency reads what a command line says: "5ms" is a fixed latency, "p50=5ms,p99=20ms" a
// distribution, to which ",seed=7" may be added, and "0" or "off" is none. Anything else is an
// *[OptionError].
func ParseLatency(s string) (Latency, error) {
	var l Latency
	problem := ""
	switch {
	case s == "off":
	case strings.Contains(s, "="):
		l, problem = parseLatency(s)
	default:
		var err error
		if l.P50, err = time.ParseDuration(s); err != nil {
			problem = `is neither "off" nor a duration such as "5ms" nor "p50=5ms,p99=20ms"`
		}
	}
	if problem == "" {
		problem = l.problem()
	}
	if problem != "" {
		return Latency{}, &OptionError{Option: "latency", Value: s, Problem: problem}
	}
	return l, nil
}

// parseLatency reads a list of name=value, and says what is wrong with it.
func parseLatency(s string) (l Latency, problem string) {
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		name, text, _ := strings.Cut(part, "=")
		want := `a duration such as "5ms"`
		var err error
		switch name {
		case "p50":
			l.P50, err = time.ParseDuration(text)
		case "p99":
			l.P99, err = time.ParseDuration(text)
		case "seed":
			want = "a whole number"
			l.Seed, err = strconv.ParseUint(text, 10, 64)
		default:
			return l, fmt.Sprintf("has %q where p50=, p99= or seed= belongs", part)
		}
		switch {
		case err != nil:
			return l, fmt.Sprintf("has %q, but %s belongs after the %q", part, want, name+"=")
		case seen[name]:
			return l, fmt.Sprintf("has %s twice", name)
		}
		seen[name] = true
	}
	if !seen["p50"] {
		return l, "lacks p50="
	}
	return l, ""
}

// problem is what is wrong with the latency, or "".
func (l Latency) problem() string {
	switch {
	case l.P50 < 0 || l.P99 < 0:
		return "is negative"
	case l.P50 > maxLatency || l.P99 > maxLatency:
		return fmt.Sprintf("is more than %v", maxLatency)
	case l.P99 > 0 && l.P99 < l.P50:
		return "has a p99 below its p50"
	case l.P99 > 0 && l.P50 == 0:
		return "has a p99, but a p50 of 0"
	default:
		return ""
	}
}

// validate says what is wrong with the latency, as an *[OptionError].
func (l Latency) validate() error {
	if problem := l.problem(); problem != "" {
		return &OptionError{Option: "Latency", Value: fmt.Sprintf("p50=%v,p99=%v", l.P50, l.P99), Problem: problem}
	}
	return nil
}

// latencies are the latencies of one database. A nil *latencies is none. Safe for concurrent use.
type latencies struct {
	p50  float64 // nanoseconds
	log  float64 // standard deviation of the logarithm
	seed uint64
	n    atomic.Uint64 // samples taken
}

// normal99 is how many standard deviations above the mean the 99th percentile of a normal distribution lies.
var normal99 = normal(0.99)

// normal is the inverse of the standard normal distribution function, for 0 < u < 1.
func normal(u float64) float64 { return math.Sqrt2 * math.Erfinv(2*u-1) }

// sampler makes the latencies, nil if there are none.
func (l Latency) sampler() *latencies {
	if l.P50 == 0 {
		return nil
	}
	s := &latencies{p50: float64(l.P50), seed: l.Seed}
	if l.P99 > l.P50 {
		s.log = math.Log(float64(l.P99)/float64(l.P50)) / normal99
	}
	return s
}

// next is the latency of the next request, the part before its work and the part after.
//
// The n-th sample is a function of the seed and n alone, so that callers share no state but a counter
// and any interleaving of them draws the same samples.
func (s *latencies) next() (before, after time.Duration) {
	if s == nil {
		return 0, 0
	}
	d := time.Duration(s.p50)
	if s.log > 0 {
		d = s.sample(s.n.Add(1))
	}
	return d / 2, d - d/2
}

func (s *latencies) sample(n uint64) time.Duration {
	// The 53 bits that a float64 has room for, and a half so that neither 0 nor 1 is reached.
	const bits = 53
	u := (float64(mix(s.seed+n*0x9e3779b97f4a7c15)>>(64-bits)) + 0.5) / (1 << bits)
	return time.Duration(min(s.p50*math.Exp(s.log*normal(u)), float64(maxSample)))
}

// mix spreads neighbouring numbers over all 64 bits (the finaliser of SplitMix64: Steele, Lea, Flood, "Fast
// splittable pseudorandom number generators", 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// wait lets a duration pass on the real clock, or returns the context's error once that ends first. A
// duration of 0 or less has passed: the context is not looked at.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
