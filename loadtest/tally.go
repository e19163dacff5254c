package loadtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	limiter "github.com/zeroae/zae-limiter-go"
)

// taken is how much of its request an operation took.
type taken uint8

const (
	tookNothing taken = iota
	tookAll
	tookUsed    // its tokens were settled
	tookUnknown // cut off: counts as neither wanted nor admitted
)

// A tally counts the answers to a load. It is safe for concurrent use.
type tally struct {
	mu        sync.Mutex
	latencies *hdrhistogram.Histogram // in nanoseconds
	most      time.Duration
	sum       time.Duration
	last      time.Time
	counts    Answers
}

// Answers counts operations by their result. It excludes those cut off by an interruption.
type Answers struct {
	Operations int64 `json:"operations"`
	Admitted   int64 `json:"admitted"`
	Refused    int64 `json:"refused"`
	// Throttled and Unavailable are errors of those kinds; Unavailable excludes Throttled.
	Throttled   int64 `json:"throttled"`
	Unavailable int64 `json:"unavailable"`
	// Failed counts all other errors.
	Failed int64 `json:"failed"`
	// FirstError is the first error of any kind.
	FirstError string `json:"first_error,omitempty"`
}

// Errors is the number of operations without an answer.
func (a Answers) Errors() int64 { return a.Throttled + a.Unavailable + a.Failed }

const (
	longest = time.Hour // the longest latency in the histogram
	digits  = 3         // significant digits of a latency
)

func newTally() *tally {
	return &tally{latencies: hdrhistogram.New(1, int64(longest), digits)}
}

// add counts an operation by the instants at which it was due and ended.
func (t *tally) add(due, end time.Time, err error) {
	d := max(0, end.Sub(due))
	_, throttled := throttledBy(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.latencies.RecordValue(min(int64(d), int64(longest))) // cannot fail in this range
	t.most, t.sum = max(t.most, d), t.sum+d
	if end.After(t.last) {
		t.last = end
	}
	c := &t.counts
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

// latency summarizes the latencies.
func (t *tally) latency() Latency {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := func(percent float64) time.Duration {
		return min(t.most, time.Duration(t.latencies.ValueAtQuantile(percent)))
	}
	l := Latency{P50: at(50), P95: at(95), P99: at(99), Max: t.most}
	if n := t.counts.Operations; n > 0 {
		l.Mean = t.sum / time.Duration(n)
	}
	return l
}

// each calls f for 0 to n-1, some at a time, until one fails.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	const atATime = 16
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range min(atATime, n) {
		calls.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	calls.Wait()
	return context.Cause(ctx)
}
