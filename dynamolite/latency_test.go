package dynamolite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

func TestLatencyIsParsed(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		in      string
		want    dynamolite.Latency
		problem string
	}{
		{in: "off"},
		{in: "0"},
		{in: "5ms", want: dynamolite.Latency{P50: 5 * ms}},
		{in: "p50=5ms", want: dynamolite.Latency{P50: 5 * ms}},
		{in: "p50=5ms,p99=20ms", want: dynamolite.Latency{P50: 5 * ms, P99: 20 * ms}},
		{in: "p99=20ms,seed=7,p50=5ms", want: dynamolite.Latency{P50: 5 * ms, P99: 20 * ms, Seed: 7}},
		{in: "1m", want: dynamolite.Latency{P50: time.Minute}},
		{in: "", problem: "neither"},
		{in: "5", problem: "neither"},
		{in: "fast", problem: "neither"},
		{in: "-5ms", problem: "negative"},
		{in: "61s", problem: "more than 1m0s"},
		{in: "p50=5ms,p99=2m", problem: "more than 1m0s"},
		{in: "p50=5ms,p99=4ms", problem: "below its p50"},
		{in: "p50=0,p99=4ms", problem: "a p50 of 0"},
		{in: "p99=4ms", problem: "lacks p50="},
		{in: "p50=5", problem: `but a duration such as "5ms" belongs after the "p50="`},
		{in: "p50=5ms,p99", problem: `but a duration such as "5ms" belongs after the "p99="`},
		{in: "p50=5ms,seed=-1", problem: `but a whole number belongs after the "seed="`},
		{in: "p50=5ms,p50=6ms", problem: "has p50 twice"},
		{in: "p50=5ms,p90=6ms", problem: `has "p90=6ms" where`},
		{in: "p50=5ms,", problem: `has "" where`},
	} {
		before := dynamolite.Latency{P50: time.Hour}
		got := before
		err := got.UnmarshalText([]byte(tt.in))
		if tt.problem == "" {
			if err != nil || got != tt.want {
				t.Errorf("%q: %+v, %v; want %+v", tt.in, got, err, tt.want)
			}
			continue
		}
		wantOptionError(t, err, "latency", tt.in, tt.problem)
		if got != before {
			t.Errorf("%q: %+v beside an error", tt.in, got)
		}
	}
}

// wantOptionError checks for an error about an option.
func wantOptionError(tb testing.TB, err error, option, value, problem string) {
	tb.Helper()
	e, ok := errors.AsType[*dynamolite.OptionError](err)
	if !ok {
		tb.Errorf("%q: got %v, want an OptionError that mentions %q", value, err, problem)
		return
	}
	if e.Option != option || e.Value != value || !strings.Contains(e.Problem, problem) {
		tb.Errorf("got %+v, want option %q, value %q and a problem that mentions %q", *e, option, value, problem)
	}
	if !strings.Contains(err.Error(), problem) {
		tb.Errorf("%v does not mention %q", err, problem)
	}
}

// Every valid value has a command-line form, and every parsed value is valid.
func TestLatencyRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		durations := rapid.Int64Range(-int64(time.Second), int64(61*time.Second))
		l := dynamolite.Latency{
			P50: time.Duration(durations.Draw(t, "p50")), P99: time.Duration(durations.Draw(t, "p99")), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		var got dynamolite.Latency
		err := got.UnmarshalText(fmt.Appendf(nil, "p50=%v,p99=%v,seed=%d", l.P50, l.P99, l.Seed))
		if (err == nil) != (l.Validate() == nil) {
			t.Fatalf("parsed: %v, validated: %v", err, l.Validate())
		}
		if err == nil && got != l {
			t.Fatalf("%+v became %+v", l, got)
		}
	})
}

func draw(l dynamolite.Latency, n int) []time.Duration {
	next, out := l.Sampler(), make([]time.Duration, n)
	for i := range out {
		before, after := next()
		out[i] = before + after
	}
	return out
}

func TestLatencyDistribution(t *testing.T) {
	t.Parallel()
	const n = 100_000
	for _, l := range []dynamolite.Latency{
		{P50: 5 * time.Millisecond, P99: 20 * time.Millisecond},
		{P50: 5 * time.Millisecond, P99: 20 * time.Millisecond, Seed: 7},
		{P50: time.Millisecond, P99: 1100 * time.Microsecond},
		{P50: time.Millisecond, P99: time.Second},
	} {
		got := draw(l, n)
		slices.Sort(got)
		for _, q := range []struct {
			quantile float64
			want     time.Duration
		}{{0.5, l.P50}, {0.99, l.P99}, {0.01, time.Duration(float64(l.P50) * float64(l.P50) / float64(l.P99))}} {
			// The error of a quantile of so many samples, on a logarithmic scale. 4 % of the step
			// from p50 to p99 is about six standard errors at the extremes.
			is := got[int(q.quantile*n)]
			if off := math.Abs(math.Log(float64(is)/float64(q.want))) / math.Log(float64(l.P99)/float64(l.P50)); off > 0.04 {
				t.Errorf("%+v: quantile %v is %v, want %v", l, q.quantile, is, q.want)
			}
		}
	}
}

func TestFixedLatency(t *testing.T) {
	t.Parallel()
	for _, l := range []dynamolite.Latency{{}, {P50: 5}, {P50: time.Second, P99: time.Second}} {
		next := l.Sampler()
		for range 3 {
			if before, after := next(); before+after != l.P50 || before != l.P50/2 {
				t.Errorf("%+v: %v before and %v after", l, before, after)
			}
		}
	}
}

// However long the tail is, a latency is neither negative nor more than an hour.
func TestLatencyIsBounded(t *testing.T) {
	t.Parallel()
	for _, d := range draw(dynamolite.Latency{P50: 1, P99: time.Minute}, 200_000) {
		if d < 0 || d > time.Hour {
			t.Fatalf("a latency of %v", d)
		}
	}
}

func TestLatencyRepeats(t *testing.T) {
	t.Parallel()
	const n = 1000
	l := dynamolite.Latency{P50: time.Millisecond, P99: 10 * time.Millisecond, Seed: 3}
	want := draw(l, n)
	if got := draw(l, n); !slices.Equal(got, want) {
		t.Error("two runs of one seed differ")
	}
	other := l
	other.Seed++
	if got := draw(other, n); got[0] == want[0] || got[n-1] == want[n-1] {
		t.Error("two seeds give one sequence")
	}
	// Concurrent callers draw the same samples, in some order.
	next, got := l.Sampler(), make([]time.Duration, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			before, after := next()
			got[i] = before + after
		})
	}
	wg.Wait()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Error("concurrent callers draw other latencies than one caller")
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wait, deadline, took time.Duration // deadline 0: none; negative: ended at the beginning
		err                  error
	}{
		"passes":            {wait: time.Hour, took: time.Hour},
		"before a deadline": {wait: time.Hour, deadline: 2 * time.Hour, took: time.Hour},
		"until a deadline":  {wait: time.Hour, deadline: time.Minute, took: time.Minute, err: context.DeadlineExceeded},
		"after the end":     {wait: time.Hour, deadline: -1, err: context.DeadlineExceeded},
		"nothing":           {wait: 0, deadline: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, start := t.Context(), time.Now()
				if tt.deadline != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithDeadline(ctx, start.Add(tt.deadline))
					defer cancel()
				}
				for range 10 { // if the context and the wait have both ended, chance decides unless the code does
					if err := dynamolite.Wait(ctx, tt.wait); !errors.Is(err, tt.err) {
						t.Errorf("got %v, want %v", err, tt.err)
					}
					if tt.took > 0 {
						break
					}
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

func BenchmarkLatency(b *testing.B) {
	next := dynamolite.Latency{P50: time.Millisecond, P99: 10 * time.Millisecond}.Sampler()
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
}
