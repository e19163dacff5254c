package benchmarks_test

import (
	"math"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A sample is the cost of a slice of operations.
type sample struct {
	wall, cpu time.Duration // cpu is of the whole process, including garbage collection
	allocs    uint64
}

// measure times n operations, starting from a collected heap: a slice pays for its own
// garbage, as far as it fills the heap.
func measure(tb testing.TB, n int, do func() error) sample {
	tb.Helper()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(tb), time.Now()
	for range n {
		if err := do(); err != nil {
			tb.Fatal(err)
		}
	}
	s := sample{wall: time.Since(start), cpu: cpuTime(tb) - cpu}
	runtime.ReadMemStats(&after)
	s.allocs = after.Mallocs - before.Mallocs
	return s
}

// cpuTime is the CPU time that the process has used.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A quantity is one of the quantities in a sample.
type quantity struct {
	name string
	of   func(sample) float64
}

var (
	wallTime = quantity{"time", func(s sample) float64 { return float64(s.wall) }}
	procTime = quantity{"CPU", func(s sample) float64 { return float64(s.cpu) }}
	allocs   = quantity{"allocations", func(s sample) float64 { return float64(s.allocs) }}
)

// A target is the largest allowed ratio of a quantity to its base.
type target struct {
	quantity
	most float64
}

const (
	fewestRounds, mostRounds = 31, 101
	// doubt is the probability, on either side, that the interval of an estimate misses the
	// true median.
	doubt = 0.005
)

// A comparison alternates between subject and base, and times base twice: the ratio of the
// two base runs shows the noise by its distance from 1.
type comparison struct {
	slice                  int
	subject, base, control []sample
}

// compare measures slices of operations in turn. It rotates their order, so that other load
// on the machine affects all alike. It stops once every target is clearly met or missed, or
// when more rounds would not help.
func compare(tb testing.TB, slice int, targets []target, subject, base func() error) *comparison {
	tb.Helper()
	c := &comparison{slice: slice}
	for round := range mostRounds {
		for i := range 3 {
			switch (round + i) % 3 {
			case 0:
				c.subject = append(c.subject, measure(tb, slice, subject))
			case 1:
				c.base = append(c.base, measure(tb, slice, base))
			case 2:
				c.control = append(c.control, measure(tb, slice, base))
			}
		}
		if round+1 >= fewestRounds && !slices.ContainsFunc(targets, func(t target) bool { return c.verdict(t) == undecided }) {
			break
		}
	}
	return c
}

type verdict string

const (
	met       verdict = "met"
	missed    verdict = "MISSED"
	undecided verdict = "met within noise"
)

// verdict reports whether a target is met. It is missed only if the whole interval lies
// above it.
func (c *comparison) verdict(t target) verdict {
	switch r := ratios(c.subject, c.base, t.quantity); {
	case r.low > t.most:
		return missed
	case r.high <= t.most:
		return met
	}
	return undecided
}

// An estimate is a median, with an interval that almost certainly contains the true one.
type estimate struct{ median, low, high float64 }

// ratios estimates the ratios of consecutive samples.
func ratios(subject, base []sample, q quantity) estimate {
	var all []float64
	for i := range subject {
		all = append(all, q.of(subject[i])/q.of(base[i]))
	}
	return estimateOf(all)
}

// perOp is the cost of one operation.
func (c *comparison) perOp(samples []sample, q quantity) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, q.of(s)/float64(c.slice))
	}
	return estimateOf(all).median
}

// estimateOf derives the interval from the order of the values alone, without an assumption
// about their distribution. The true median lies below the k-th of n values with the
// probability that n fair coins show tails fewer than k times.
func estimateOf(values []float64) estimate {
	slices.Sort(values)
	n := len(values)
	k, chance := 0, math.Pow(0.5, float64(n))
	for sum := chance; sum <= doubt && k < n/2; sum += chance {
		k++
		chance *= float64(n-k+1) / float64(k)
	}
	outer := max(0, k-1)
	return estimate{median: values[n/2], low: values[outer], high: values[n-1-outer]}
}
