package search_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/search"
	"github.com/zeroae/zae-limiter-go/store"
)

// A system is one whose operations are slow with a probability that depends on the rate.
type system struct {
	slow, failed, throttled func(rate float64) float64
	unreliable              func(rate float64) bool
	wrong                   func(rate float64) int64
	random                  *rand.Rand
	even                    bool // every second has as many
	stalls                  bool // slow operations come in seconds in which all are slow
	runs                    int
}

func never(float64) float64 { return 0 }

func (s *system) run(_ context.Context, rate float64) (*result.Result, error) {
	s.runs++
	side := result.Side{Wrong: &result.Wrong{Beyond: s.wrong(rate)}}
	for range 20 {
		sample := result.Sample{Seconds: 1, Done: int64(rate)}
		sample.Slow, sample.Failed = s.draw(sample.Done, s.slow(rate)), s.draw(sample.Done, s.failed(rate))
		sample.Writes = 2 * sample.Done
		sample.WritesThrottled = s.draw(sample.Writes, s.throttled(rate))
		side.Samples = append(side.Samples, sample)
	}
	r := &result.Result{Sides: []result.Side{side}}
	if s.unreliable(rate) {
		r.Unreliable = "the generator itself was late"
	}
	return r, nil
}

func (s *system) draw(n int64, p float64) (hits int64) {
	if s.even {
		return int64(p * float64(n))
	}
	if s.stalls {
		if s.random.Float64() < p {
			return n
		}
		return 0
	}
	for range n {
		if s.random.Float64() < p {
			hits++
		}
	}
	return hits
}

func newSystem(slow func(rate float64) float64) *system {
	return &system{
		slow: slow, failed: never, throttled: never, random: rand.New(rand.NewPCG(1, 2)),
		unreliable: func(float64) bool { return false }, wrong: func(float64) int64 { return 0 },
	}
}

// above is a system with a sharp ceiling.
func above(ceiling float64) func(float64) float64 {
	return func(rate float64) float64 {
		if rate > ceiling {
			return 0.3
		}
		return 0.001
	}
}

func options(s *system) search.CeilingOptions {
	return search.CeilingOptions{Run: s.run, Level: search.Level{Slow: time.Second, Errors: 0.001, Throttled: 0.01}, To: 20_000}
}

// oneAbove is one operation in a second above a rate.
func oneAbove(ceiling float64) func(float64) float64 {
	return func(rate float64) float64 {
		if rate > ceiling {
			return 1.01 / rate
		}
		return 0
	}
}

func TestTheCeilingIsFound(t *testing.T) {
	t.Parallel()
	for _, ceiling := range []float64{30, 99, 100, 101, 777, 3210, 15_000} {
		s := newSystem(above(ceiling))
		r, err := search.Ceiling(t.Context(), options(s))
		if err != nil {
			t.Fatal(err)
		}
		if r.Kept > ceiling || r.Kept < 0.94*ceiling || r.Above <= ceiling || r.Above > 1.06*ceiling || r.Limit != "the service level" {
			t.Errorf("ceiling %v: kept %v, above %v, %s", ceiling, r.Kept, r.Above, r.Limit)
		}
		if len(r.Probes) > 20 {
			t.Errorf("ceiling %v: %d probes", ceiling, len(r.Probes))
		}
	}
}

func TestWhereTheSearchEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(s *system, o *search.CeilingOptions)
		kept   bool
		limit  string
	}{
		"nothing is slow":       {func(s *system, _ *search.CeilingOptions) { s.slow = never }, true, "the highest rate of the search"},
		"everything is slow":    {func(s *system, _ *search.CeilingOptions) { s.slow = func(float64) float64 { return 1 } }, false, "the service level"},
		"nothing has an answer": {func(s *system, _ *search.CeilingOptions) { s.failed = func(float64) float64 { return 1 } }, false, "the service level"},
		"wrong answers":         {func(s *system, _ *search.CeilingOptions) { s.wrong = func(float64) int64 { return 1 } }, false, "the service level"},
		"some errors above 1000": {func(s *system, _ *search.CeilingOptions) {
			s.failed = func(rate float64) float64 { return above(1000)(rate) - 0.001 }
		}, true, "the service level"},
		"some throttles above 1000": {func(s *system, _ *search.CeilingOptions) {
			s.throttled = func(rate float64) float64 { return above(1000)(rate) - 0.001 }
		}, true, "the service level"},
		"throttles that are allowed": {func(s *system, o *search.CeilingOptions) {
			s.slow, s.throttled = above(1000), func(float64) float64 { return 0.3 }
			o.Level.Throttled = 0.4
		}, true, "the service level"},
		"an error above 1000, where none is allowed": {func(s *system, o *search.CeilingOptions) {
			s.failed, s.even = oneAbove(1000), true
			o.Level.Errors = 0
		}, true, "the service level"},
		"a throttle above 1000, where none is allowed": {func(s *system, o *search.CeilingOptions) {
			s.throttled, s.even = oneAbove(1000), true
			o.Level.Throttled = 0
		}, true, "the service level"},
		"an error in every second, where more are allowed": {func(s *system, o *search.CeilingOptions) {
			s.slow, s.failed, s.even = above(1000), oneAbove(0), true
			o.Level.Errors = 0.1
		}, true, "the service level"},
		"the generator is late": {func(s *system, _ *search.CeilingOptions) {
			s.slow, s.unreliable = above(1000), func(rate float64) bool { return rate > 1000 }
		}, true, "the generator: the generator itself was late"},
	} {
		s := newSystem(above(15_000))
		o := options(s)
		c.change(s, &o)
		r, err := search.Ceiling(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if (r.Kept > 0) != c.kept || r.Limit != c.limit || (r.Above == 0) != (name == "nothing is slow") {
			t.Errorf("%s: %+v", name, r)
		}
		if c.kept && name != "nothing is slow" && (r.Kept < 950 || r.Kept > 1000) {
			t.Errorf("%s: kept %v", name, r.Kept)
		}
	}
}

// Where none is allowed, one is enough for a verdict.
func TestOneErrorIsTooManyWhereNoneIsAllowed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allowed float64
		sample  result.Sample
		want    search.Verdict
	}{
		"an error, none allowed":       {0, result.Sample{Failed: 1}, search.Broken},
		"an error, some allowed":       {0.01, result.Sample{Failed: 1}, search.Kept},
		"a throttle, none allowed":     {0, result.Sample{WritesThrottled: 1}, search.Broken},
		"a throttle, some allowed":     {0.01, result.Sample{WritesThrottled: 1}, search.Kept},
		"no error and none is allowed": {0, result.Sample{}, search.Kept},
	} {
		r, err := search.Ceiling(t.Context(), search.CeilingOptions{
			Level: search.Level{Slow: time.Second, Errors: c.allowed, Throttled: c.allowed}, From: 1000, To: 1001,
			Run: func(context.Context, float64) (*result.Result, error) {
				samples := make([]result.Sample, 20)
				for i := range samples {
					samples[i] = result.Sample{Seconds: 1, Done: 1000, Writes: 1000}
				}
				samples[7].Failed, samples[7].WritesThrottled = c.sample.Failed, c.sample.WritesThrottled
				return &result.Result{Sides: []result.Side{{Samples: samples}}}, nil
			},
		})
		if err != nil || r.Probes[0].Verdict != c.want || r.Probes[0].Runs != 1 {
			t.Errorf("%s: %+v, %v", name, r.Probes[0], err)
		}
	}
}

// Of many systems at the very limit, no more than a few are judged, and of those that are
// beyond it, hardly any is judged to keep the level, also if slow operations come together.
func TestVerdictsAreCertain(t *testing.T) {
	t.Parallel()
	for _, stalls := range []bool{false, true} {
		wrongly, broken := 0, 0
		const systems = 400
		for seed := range uint64(systems) {
			s := newSystem(func(float64) float64 { return 0.015 })
			s.random, s.stalls = rand.New(rand.NewPCG(seed, 7)), stalls
			o := options(s)
			o.From, o.To, o.Repeats = 500, 501, 1
			first := search.Verdict("")
			o.Tell = func(p search.Probe) {
				if first == "" {
					first = p.Verdict
				}
			}
			if _, err := search.Ceiling(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if first == search.Kept {
				wrongly++
			}
			if first == search.Broken {
				broken++
			}
		}
		// With stalls, 74 % of the runs have none at all: nobody can tell those.
		if !stalls && (wrongly > systems/20 || broken < systems/2) || stalls && broken > systems/10 {
			t.Errorf("stalls %t: %d of %d systems that break the level were judged to keep it, %d to break it", stalls, wrongly, systems, broken)
		}
	}
}

// What is not certain is measured again.
func TestUncertainRatesAreMeasuredAgain(t *testing.T) {
	t.Parallel()
	s := newSystem(func(float64) float64 { return 0.01 })
	s.even = true
	o := options(s)
	o.From, o.To, o.Repeats = 500, 501, 5
	r, err := search.Ceiling(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Probes[0]; p.Verdict != search.Uncertain || p.Runs != 5 || p.Operations != 5*20*500 || p.PerSecond != 500 {
		t.Errorf("%+v", p)
	}
}

// A rate without enough operations is not made lower.
func TestTooFewOperations(t *testing.T) {
	t.Parallel()
	s := newSystem(never)
	o := options(s)
	o.From = 5
	r, err := search.Ceiling(t.Context(), o)
	if err != nil || r.Kept != 0 || len(r.Probes) != 1 || r.Probes[0].Runs != 3 || !strings.HasPrefix(r.Limit, "too few operations: ") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAnInterruptedSearchShowsItsProbes(t *testing.T) {
	t.Parallel()
	s := newSystem(above(15_000))
	o := options(s)
	gone := errors.New("interrupted")
	o.Run = func(ctx context.Context, rate float64) (*result.Result, error) {
		if s.runs == 2 {
			return nil, gone
		}
		return s.run(ctx, rate)
	}
	r, err := search.Ceiling(t.Context(), o)
	if !errors.Is(err, gone) || len(r.Probes) != 2 || r.Kept != 200 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestBadCeilingOptions(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*search.CeilingOptions){
		"p99":       func(o *search.CeilingOptions) { o.Level.Slow = 0 },
		"errors":    func(o *search.CeilingOptions) { o.Level.Errors = 1 },
		"throttled": func(o *search.CeilingOptions) { o.Level.Throttled = -0.1 },
		"from":      func(o *search.CeilingOptions) { o.From = -1 },
		"to":        func(o *search.CeilingOptions) { o.To = 50 },
		"within":    func(o *search.CeilingOptions) { o.Within = 1 },
		"repeats":   func(o *search.CeilingOptions) { o.Repeats = -1 },
	} {
		s := newSystem(never)
		o := options(s)
		change(&o)
		_, err := search.Ceiling(t.Context(), o)
		bad, ok := errors.AsType[*store.ValidationError](err)
		if !ok || bad.Field != field || !strings.Contains(bad.Reason, "give") || s.runs > 0 {
			t.Errorf("%s: %v", field, err)
		}
	}
}
