package search

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Level is a service level.
type Level struct {
	// Slow is the latency that at most one operation of a hundred exceeds: a bound of the
	// 99th percentile. Required.
	Slow time.Duration
	// Errors is the share of operations without an answer that is allowed; 0 allows none.
	Errors float64
	// Throttled is the share of the item writes that DynamoDB may throttle; 0 allows none.
	// The limiter repeats them, so most operations are answered all the same.
	Throttled float64
}

// CeilingOptions configure a search. Run and Level.Slow are required.
type CeilingOptions struct {
	Level Level
	// Run measures the load at a rate, in operations per second. It counts as slow what
	// takes longer than Level.Slow ([result.Sample.Slow]).
	Run func(ctx context.Context, rate float64) (*result.Result, error)
	// From and To bound the rates tried, in operations per second. Defaults 100 and
	// 100,000.
	From, To float64
	// Within is how close the rates must be between which the ceiling is, as a part of the
	// lower one. Default 0.05.
	Within float64
	// Repeats is how often a rate is measured at most, until it is certain whether it keeps
	// the level. Default 3.
	Repeats int
	// Tell, if not nil, receives each probe when its verdict is known.
	Tell func(Probe)
}

// A Verdict says whether a rate keeps the service level.
type Verdict string

// The verdicts.
const (
	// Kept: with 95 % confidence the rate keeps the level.
	Kept Verdict = "kept"
	// Broken: with 95 % confidence it does not, or an answer was wrong.
	Broken Verdict = "broken"
	// Uncertain: the measurements do not tell. The search takes it for broken.
	Uncertain Verdict = "uncertain"
	// Unmeasured: the generator was too late to measure this rate.
	Unmeasured Verdict = "unmeasured"
)

// A Probe is the measurement of one rate.
type Probe struct {
	Rate    float64 `json:"rate"` // operations due per second
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	Runs    int     `json:"runs"` // number of runs
	// Operations is the number of operations of all runs. PerSecond is how many ended per
	// second.
	Operations int64   `json:"operations"`
	PerSecond  float64 `json:"operations_per_second"`
	// Slow and Errors are shares of the operations, with their intervals of 95 %
	// confidence.
	Slow      Interval `json:"slow"`
	Errors    Interval `json:"errors"`    // share of operations that failed
	Throttled Interval `json:"throttled"` // share of the item writes that DynamoDB throttled
}

// An Interval is an estimate with its bounds.
type Interval struct {
	Is    float64 `json:"is"`    // the estimate
	Least float64 `json:"least"` // lower bound
	Most  float64 `json:"most"`  // upper bound
}

// A CeilingResult is what a search has found.
type CeilingResult struct {
	// Kept is the highest rate that keeps the level; 0 if none does. Above is the lowest
	// rate tried that does not, 0 if all do.
	Kept  float64 `json:"kept"`
	Above float64 `json:"above,omitempty"` // lowest rate tried that breaks the level
	// Limit says what ends the search: the level, the generator, the highest rate, or too
	// few operations.
	Limit  string  `json:"ended_by"`
	Probes []Probe `json:"probes"` // the rates that were measured
}

// slowShare is the share of slow operations that the 99th percentile allows.
const slowShare = 0.01

// Ceiling finds the highest rate that keeps a service level. It doubles the rate, or halves
// it, until one rate keeps the level and another does not, and then bisects. Each verdict is
// a test at 95 % confidence by batch means: operations of one second depend on each other,
// so the shares of whole batches of seconds are what is compared. If a rate is not certain,
// it is measured again.
//
// If ctx ends, Ceiling returns what it has found and the context's error. It fails with a
// [*store.ValidationError] if an option is invalid, and with the error of a run.
func Ceiling(ctx context.Context, o CeilingOptions) (*CeilingResult, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &ceiling{o: o, found: &CeilingResult{Limit: "the service level"}}
	return s.found, s.search(ctx)
}

func (o CeilingOptions) withDefaults() (CeilingOptions, error) {
	const (
		from, to = 100, 100_000
		within   = 0.05
		repeats  = 3
	)
	o.From, o.To = cmp.Or(o.From, from), cmp.Or(o.To, to)
	o.Within, o.Repeats = cmp.Or(o.Within, within), cmp.Or(o.Repeats, repeats)
	switch {
	case o.Level.Slow <= 0:
		return o, invalid("p99", o.Level.Slow.String(), "give a duration above 0")
	case !(o.Level.Errors >= 0 && o.Level.Errors < 1):
		return o, invalid("errors", number(o.Level.Errors), "give a share from 0 to below 1")
	case !(o.Level.Throttled >= 0 && o.Level.Throttled < 1):
		return o, invalid("throttled", number(o.Level.Throttled), "give a share from 0 to below 1")
	case !(o.From > 0):
		return o, invalid("from", number(o.From), "give a rate above 0")
	case !(o.To > o.From):
		return o, invalid("to", number(o.To), "give a rate above "+number(o.From))
	case !(o.Within > 0 && o.Within < 1):
		return o, invalid("within", number(o.Within), "give a share above 0 and below 1")
	case o.Repeats < 1:
		return o, invalid("repeats", strconv.Itoa(o.Repeats), "give at least 1")
	}
	if o.Tell == nil {
		o.Tell = func(Probe) {}
	}
	return o, nil
}

func invalid(field, value, reason string) error {
	return &store.ValidationError{Field: field, Value: value, Reason: reason}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// A ceiling is one search.
type ceiling struct {
	o     CeilingOptions
	found *CeilingResult
}

func (s *ceiling) search(ctx context.Context) error {
	rate := s.o.From
	for s.found.Kept == 0 || s.found.Above == 0 {
		p, err := s.try(ctx, rate)
		if err != nil {
			return err
		}
		const least = 1 // operations per second
		switch {
		case p.Verdict == Kept && rate == s.o.To:
			s.found.Limit = "the highest rate of the search"
			return nil
		case p.Verdict == Kept:
			rate = min(2*rate, s.o.To)
		case s.found.Kept == 0 && p.Verdict == Uncertain:
			s.found.Limit = "too few operations: measure each rate for longer, or begin with a higher one"
			return nil
		case s.found.Kept == 0 && p.Verdict == Unmeasured, rate/2 < least:
			return nil
		case s.found.Kept == 0:
			rate /= 2
		}
	}
	for s.found.Above > s.found.Kept*(1+s.o.Within) {
		if _, err := s.try(ctx, math.Sqrt(s.found.Kept*s.found.Above)); err != nil {
			return err
		}
	}
	return nil
}

// try measures a rate until it is certain whether it keeps the level.
func (s *ceiling) try(ctx context.Context, rate float64) (Probe, error) {
	p := Probe{Rate: rate, Verdict: Uncertain}
	var m measured
	var seconds float64
	for p.Runs < s.o.Repeats && p.Verdict == Uncertain {
		r, err := s.o.Run(ctx, rate)
		if err != nil {
			return p, err
		}
		p.Runs++
		seconds += m.add(&p, r)
		s.judge(&p, r, &m)
	}
	if seconds > 0 {
		p.PerSecond = float64(p.Operations) / seconds
	}
	s.found.Probes = append(s.found.Probes, p)
	if p.Verdict == Kept {
		s.found.Kept = rate
	} else {
		s.found.Above, s.found.Limit = rate, "the service level"
		if p.Verdict == Unmeasured {
			s.found.Limit = "the generator: " + p.Reason
		}
	}
	s.o.Tell(p)
	return p, nil
}

// measured are the shares of the runs of one rate.
type measured struct{ slow, errors, throttled batches }

// add adds a run to a probe, and returns how long it took.
func (m *measured) add(p *Probe, r *result.Result) (seconds float64) {
	for i := range r.Sides {
		samples := r.Sides[i].Samples
		for b := range perRun {
			var sum result.Sample
			for _, sample := range samples[b*len(samples)/perRun : (b+1)*len(samples)/perRun] {
				sum.Done += sample.Done
				sum.Slow += sample.Slow
				sum.Failed += sample.Throttled + sample.Unavailable + sample.Failed
				sum.Writes += sample.Writes
				sum.WritesThrottled += sample.WritesThrottled
				seconds += sample.Seconds
			}
			p.Operations += sum.Done
			m.slow, m.errors = m.slow.plus(sum.Slow, sum.Done), m.errors.plus(sum.Failed, sum.Done)
			m.throttled = m.throttled.plus(sum.WritesThrottled, sum.Writes)
		}
	}
	p.Slow, p.Errors, p.Throttled = m.slow.interval(), m.errors.interval(), m.throttled.interval()
	return seconds
}

// judge gives a probe its verdict.
func (s *ceiling) judge(p *Probe, r *result.Result, m *measured) {
	if reason := wrong(r); reason != "" {
		p.Verdict, p.Reason = Broken, reason
		return
	}
	verdicts := []Verdict{m.slow.verdict(slowShare), m.errors.verdict(s.o.Level.Errors), m.throttled.verdict(s.o.Level.Throttled)}
	if p.Operations > 0 { // short runs could not show how rare errors and throttles are
		if p.Errors.Is == 0 {
			verdicts[1] = Kept
		}
		if p.Throttled.Is == 0 {
			verdicts[2] = Kept
		}
	}
	switch {
	case slices.Contains(verdicts, Broken):
		p.Verdict = Broken
		p.Reason = fmt.Sprintf("%.2f %% of the operations took more than %v, %.2f %% had no answer, and %.2f %% of the writes were throttled",
			100*p.Slow.Is, s.o.Level.Slow, 100*p.Errors.Is, 100*p.Throttled.Is)
	case !slices.Contains(verdicts, Uncertain):
		p.Verdict = Kept
	}
	if isLast := p.Runs == s.o.Repeats; r.Unreliable != "" && (p.Verdict == Broken || p.Verdict == Uncertain && isLast) {
		p.Verdict, p.Reason = Unmeasured, r.Unreliable
	}
}

// wrong says what is wrong with the answers of a run; "" if nothing is.
func wrong(r *result.Result) string {
	for i := range r.Sides {
		s := &r.Sides[i]
		if s.Wrong != nil && s.Wrong.Answers() > 0 {
			return fmt.Sprintf("%d answers were wrong", s.Wrong.Answers())
		}
		if s.Balance != nil && s.Balance.Wrong > 0 {
			return fmt.Sprintf("%d counters of the table differ from the books", s.Balance.Wrong)
		}
	}
	return ""
}
