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

// Latency is how long a request takes beyond its work, which takes microseconds. The zero value
// adds nothing.
//
// Half of it passes before the work and half after it, like the transit of the request and of its
// response. A caller whose context ends in the first half has done nothing. A caller whose
// context ends in the second half gets an error although the work is done, as on AWS. Inside a
// testing/synctest bubble the time is virtual.
type Latency struct {
	// P50 is the median latency, at most a minute. Without P99, every request takes this long.
	P50 time.Duration
	// P99 is the 99th percentile of the latency, at least P50 and at most a minute. The
	// distribution is log-normal: the logarithm of the latency is normal, with the long tail that
	// services have. No request takes more than an hour. Default: P50.
	P99 time.Duration
	// Seed chooses the sequence: the n-th request of a database takes equally long in every run.
	// Default: 0, which is a valid seed.
	Seed uint64
}

const (
	maxLatency = time.Minute // of P50 and P99
	maxSample  = time.Hour
)

// UnmarshalText parses a command-line value. "5ms" is a fixed latency, and "0" or "off" is
// none. "p50=5ms,p99=20ms" is a distribution, to which ",seed=7" may be added. Any other
// value is an *[OptionError], and changes nothing.
func (l *Latency) UnmarshalText(text []byte) error {
	s, problem := string(text), ""
	var parsed Latency
	switch {
	case s == "off":
	case strings.Contains(s, "="):
		parsed, problem = parseLatency(s)
	default:
		var err error
		if parsed.P50, err = time.ParseDuration(s); err != nil {
			problem = `is neither "off" nor a duration such as "5ms" nor "p50=5ms,p99=20ms"`
		}
	}
	if problem == "" {
		problem = parsed.problem()
	}
	if problem != "" {
		return &OptionError{Option: "latency", Value: s, Problem: problem}
	}
	*l = parsed
	return nil
}

// parseLatency parses a list of name=value pairs. It returns what is wrong with the list, or "".
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

// problem returns what is wrong with the latency, or "".
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

// validate reports an invalid latency as an *[OptionError].
func (l Latency) validate() error {
	if problem := l.problem(); problem != "" {
		return &OptionError{Option: "Latency", Value: fmt.Sprintf("p50=%v,p99=%v", l.P50, l.P99), Problem: problem}
	}
	return nil
}

// latencies generates the latencies of one database. A nil *latencies generates none. Safe for
// concurrent use.
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

// sampler returns the generator of the latencies, nil if there are none.
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

// next returns the latency of the next request: the part before its work and the part after it.
//
// The n-th sample is a function of the seed and n alone. Callers therefore share only a counter,
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
	// The 53 bits that a float64 can hold, plus a half so that the result is neither 0 nor 1.
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

// wait waits for a duration on the real clock, or until the context ends, and then returns the
// context's error. A duration of 0 or less returns at once, without a look at the context.
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
