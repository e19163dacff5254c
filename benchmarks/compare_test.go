package benchmarks_test

import (
	"math"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A sample is what a slice of operations took.
type sample struct {
	wall, cpu time.Duration // cpu is of the whole process, garbage collection included
	allocs    uint64
}

// measure times n operations, starting from a collected heap: a slice pays for
// its own garbage, as far as it fills the heap.
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

// A quantity is one of the things that a sample measures.
type quantity struct {
	name string
	of   func(sample) float64
}

var (
	wallTime = quantity{"time", func(s sample) float64 { return float64(s.wall) }}
	procTime = quantity{"CPU", func(s sample) float64 { return float64(s.cpu) }}
	allocs   = quantity{"allocations", func(s sample) float64 { return float64(s.allocs) }}
)

// A target is the most that a quantity may be of what it is compared with.
type target struct {
	quantity
	most float64
}

const (
	fewestRounds, mostRounds = 31, 101
	// doubt is the chance that the interval of an estimate misses the true
	// median, on either side.
	doubt = 0.005
)

// A comparison alternates between subject and base, and times base twice: that
// ratio's distance from 1 is noise.
type comparison struct {
	slice                  int
	subject, base, control []sample
}

// compare measures slices of operations in turn, in an order that rotates, so
// that whatever else the machine does falls on all alike. It stops as soon as
// every target is clearly met or missed, or when more rounds would not help.
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

// verdict says whether a target is met: missed only if the whole interval lies
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

// An estimate is a median, and an interval that all but surely holds the true
// one.
type estimate struct{ median, low, high float64 }

// ratios are those of samples taken one after the other.
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

// estimateOf takes the interval from the order of the values alone, which
// assumes nothing of how they are spread: the true median lies below the k-th
// of n with the chance that a fair coin falls tails fewer than k times in n.
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
