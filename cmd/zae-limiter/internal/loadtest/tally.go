package loadtest

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

const (
	longest = time.Hour // the longest duration in a histogram
	digits  = 3         // significant digits of a duration
)

// durations are a distribution of durations.
type durations struct {
	histogram *hdrhistogram.Histogram // in nanoseconds
	most, sum time.Duration
	count     int64
}

func newDurations() *durations {
	return &durations{histogram: hdrhistogram.New(1, int64(longest), digits)}
}

func (d *durations) add(took time.Duration) {
	_ = d.histogram.RecordValue(min(int64(took), int64(longest))) // cannot fail in this range
	d.most, d.sum = max(d.most, took), d.sum+took
	d.count++
}

func (d *durations) reset() {
	d.histogram.Reset()
	d.most, d.sum, d.count = 0, 0, 0
}

func (d *durations) merge(e *durations) {
	d.histogram.Merge(e.histogram)
	d.most, d.sum, d.count = max(d.most, e.most), d.sum+e.sum, d.count+e.count
}

func (d *durations) at(percent float64) result.Milliseconds {
	return result.InMilliseconds(min(d.most, time.Duration(d.histogram.ValueAtQuantile(percent))))
}

// latency summarizes the durations.
func (d *durations) latency() result.Latency {
	l := result.Latency{P50: d.at(50), P95: d.at(95), P99: d.at(99), P999: d.at(99.9), Max: result.InMilliseconds(d.most)}
	if d.count > 0 {
		l.Mean = result.InMilliseconds(d.sum / time.Duration(d.count))
	}
	l.Histogram = d.bins()
	return l
}

// binWidth is the ratio of the bounds of a bin.
const binWidth = 1.02

// bins returns the distribution in bins whose bounds are powers of binWidth.
func (d *durations) bins() (bins []result.Bin) {
	for _, bar := range d.histogram.Distribution() {
		if bar.Count == 0 {
			continue
		}
		exponent := math.Ceil(math.Log(max(float64(bar.To), 1)) / math.Log(binWidth))
		bound := result.InMilliseconds(time.Duration(math.Ceil(math.Pow(binWidth, exponent))))
		if n := len(bins); n > 0 && bins[n-1].UpTo == bound {
			bins[n-1].Count += bar.Count
			continue
		}
		bins = append(bins, result.Bin{UpTo: bound, Count: bar.Count})
	}
	return bins
}

// A tally counts the operations of a class in a phase. It is safe for concurrent use.
type tally struct {
	slow     time.Duration // see [Options.Slow]; 0 counts none
	mu       sync.Mutex
	whole    counts
	interval counts // since the last sample
	last     time.Time
}

// counts are what a tally counts.
type counts struct {
	begun, slow  int64
	answers      result.Answers
	latency, lag *durations
}

func newCounts() counts { return counts{latency: newDurations(), lag: newDurations()} }

func (c *counts) reset() {
	c.latency.reset()
	c.lag.reset()
	c.begun, c.slow, c.answers = 0, 0, result.Answers{}
}

func (c *counts) add(d *counts) {
	c.begun += d.begun
	c.slow += d.slow
	c.answers.Add(d.answers)
	c.latency.merge(d.latency)
	c.lag.merge(d.lag)
}

func newTally(slow time.Duration) *tally {
	return &tally{slow: slow, whole: newCounts(), interval: newCounts()}
}

// begin counts an operation that is sent. late is how late a free client sent it; negative
// if no client was free.
func (t *tally) begin(late time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.whole.begun++
	t.interval.begun++
	if late >= 0 {
		t.whole.lag.add(late)
		t.interval.lag.add(late)
	}
}

// end counts an operation by how long it took and its answer.
func (t *tally) end(took time.Duration, at time.Time, err error) {
	_, throttled := throttledBy(err)
	took = max(0, took)
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.After(t.last) {
		t.last = at
	}
	if t.slow > 0 && took > t.slow {
		t.interval.slow++
	}
	t.whole.latency.add(took)
	t.interval.latency.add(took)
	countAnswer(&t.whole.answers, throttled, err)
	countAnswer(&t.interval.answers, throttled, err)
}

func countAnswer(c *result.Answers, throttled bool, err error) {
	c.Operations++
	switch {
	case err == nil:
		c.Admitted++
		return
	case errors.Is(err, limiter.ErrExceeded):
		c.Refused++
		return
	case throttled || errors.Is(err, limiter.ErrThrottled):
		c.Throttled++
	case errors.Is(err, limiter.ErrUnavailable):
		c.Unavailable++
	default:
		c.Failed++
	}
	if c.FirstError == "" {
		c.FirstError = err.Error()
	}
}

// take moves the counts since the last sample.
func (t *tally) take(to *counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	to.add(&t.interval)
	t.interval.reset()
}
