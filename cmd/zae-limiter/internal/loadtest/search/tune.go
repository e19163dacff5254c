package search

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

// TuneOptions configure a search. Run is required.
type TuneOptions struct {
	// Run measures the load of a number of users for a time.
	Run func(ctx context.Context, users int, lasting time.Duration) (Step, error)
	// MaxUsers is the highest number of users tried. Default 40.
	MaxUsers int
	// Efficiency is the lowest one that is accepted: the latency of one user alone, divided by
	// that of many. Default 0.8.
	Efficiency float64
	// Step is how long a number of users is measured, and Baseline how long one user alone
	// is. Defaults 30 s and 60 s. A baseline with too few operations is measured again, for
	// longer, up to MaxBaseline. Default 10 min.
	Step, Baseline, MaxBaseline time.Duration
	// Tell, if not nil, receives each step.
	Tell func(Step)
}

// A Step is the measurement of one number of users.
type Step struct {
	Users int `json:"users"` // number of users
	// Latency is what the efficiency compares: the median, or the mean if quantiles are rounded.
	Latency    result.Milliseconds `json:"latency_ms"`
	PerSecond  float64             `json:"operations_per_second"`
	P50        result.Milliseconds `json:"p50_ms"`
	P95        result.Milliseconds `json:"p95_ms"`
	P99        result.Milliseconds `json:"p99_ms"`
	Operations int64               `json:"operations"` // operations of the step
	Errors     int64               `json:"errors"`     // operations that failed
	Efficiency float64             `json:"efficiency"` // operations per user, as a share of the first step
}

// A TuneResult is what a search has found.
type TuneResult struct {
	// Users is the highest number of users whose efficiency is high enough; 0 if the search
	// was interrupted before it knew one.
	Users int `json:"users"`
	// PerSecond is the number of operations per second of these users.
	PerSecond float64 `json:"operations_per_second"`
	// Steps are all measurements, first the one of a single user.
	Steps []Step `json:"steps"`
}

// leastOperations is the number of operations from which a median is taken seriously.
const leastOperations = 100

// ErrTooFew ends a search whose baseline has too few operations.
var ErrTooFew = errors.New("one user alone carried out fewer than 100 operations: give a longer baseline, or a scenario with less time to think")

// Tune finds how many users one process carries with an efficiency. It measures one user
// alone, then the highest number, and then numbers in between. Those it interpolates, and
// always tries one strictly between the last two.
//
// If ctx ends, Tune returns what it has found and the context's error. It fails with a
// [*store.ValidationError] if an option is invalid, with [ErrTooFew], and with the error of
// a run.
func Tune(ctx context.Context, o TuneOptions) (*TuneResult, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &tuning{o: o, found: &TuneResult{}}
	return t.found, t.search(ctx)
}

func (o TuneOptions) withDefaults() (TuneOptions, error) {
	const (
		users      = 40
		efficiency = 0.8
		step       = 30 * time.Second
		baseline   = time.Minute
		longest    = 10 * time.Minute
	)
	o.MaxUsers, o.Efficiency = cmp.Or(o.MaxUsers, users), cmp.Or(o.Efficiency, efficiency)
	o.Step, o.Baseline, o.MaxBaseline = cmp.Or(o.Step, step), cmp.Or(o.Baseline, baseline), cmp.Or(o.MaxBaseline, longest)
	switch {
	case o.MaxUsers < 2:
		return o, invalid("max users", strconv.Itoa(o.MaxUsers), "give at least 2")
	case !(o.Efficiency > 0 && o.Efficiency <= 1):
		return o, invalid("efficiency", number(o.Efficiency), "give a share above 0 and up to 1")
	case o.Step < 0:
		return o, invalid("step duration", o.Step.String(), "give a duration above 0")
	case o.Baseline < 0 || o.Baseline > o.MaxBaseline:
		return o, invalid("baseline duration", o.Baseline.String(), "give a duration above 0 and up to "+o.MaxBaseline.String())
	}
	if o.Tell == nil {
		o.Tell = func(Step) {}
	}
	return o, nil
}

// A tuning is one search.
type tuning struct {
	o     TuneOptions
	found *TuneResult
	base  result.Milliseconds // the latency of one user
}

func (t *tuning) search(ctx context.Context) error {
	low, err := t.baseline(ctx)
	if err != nil {
		return err
	}
	high, err := t.step(ctx, t.o.MaxUsers, t.o.Step)
	if err != nil || high.Efficiency >= t.o.Efficiency {
		return err
	}
	for high.Users-low.Users > 1 {
		mid, err := t.step(ctx, between(low, high, t.o.Efficiency), t.o.Step)
		if err != nil {
			return err
		}
		if mid.Efficiency >= t.o.Efficiency {
			low = mid
		} else {
			high = mid
		}
	}
	return nil
}

// between interpolates the number of users at which the efficiency should be as wanted.
func between(low, high Step, wanted float64) int {
	part := 0.5
	if d := low.Efficiency - high.Efficiency; d > 0 {
		part = (low.Efficiency - wanted) / d
	}
	users := low.Users + int(math.Round(part*float64(high.Users-low.Users)))
	return min(max(users, low.Users+1), high.Users-1)
}

// baseline measures one user, long enough for a median.
func (t *tuning) baseline(ctx context.Context) (Step, error) {
	for lasting := t.o.Baseline; ; {
		s, err := t.o.Run(ctx, 1, lasting)
		if err != nil {
			return Step{}, err
		}
		if s.Operations >= leastOperations && s.Latency > 0 {
			t.base = s.Latency
			return t.note(s), nil
		}
		if lasting >= t.o.MaxBaseline {
			return Step{}, ErrTooFew
		}
		factor := 2.0
		if s.Operations > 0 {
			factor = max(factor, math.Ceil(leastOperations/float64(s.Operations)))
		}
		lasting = min(time.Duration(factor*float64(lasting)), t.o.MaxBaseline)
	}
}

// step measures a number of users.
func (t *tuning) step(ctx context.Context, users int, lasting time.Duration) (Step, error) {
	s, err := t.o.Run(ctx, users, lasting)
	if err != nil {
		return Step{}, err
	}
	return t.note(s), nil
}

// note keeps a step.
func (t *tuning) note(s Step) Step {
	if s.Latency > 0 {
		s.Efficiency = float64(t.base / s.Latency)
	}
	t.found.Steps = append(t.found.Steps, s)
	if s.Efficiency >= t.o.Efficiency && s.Users > t.found.Users {
		t.found.Users, t.found.PerSecond = s.Users, s.PerSecond
	}
	t.o.Tell(s)
	return s
}

// StepOf adds up the classes of the first side's phases. The percentiles are those of the
// class with the most operations.
func StepOf(users int, r *result.Result) Step {
	s := Step{Users: users}
	var most int64
	for i := range r.Sides[0].Phases {
		for k := range r.Sides[0].Phases[i].Classes {
			c := &r.Sides[0].Phases[i].Classes[k]
			s.Operations += c.Answers.Operations
			s.Errors += c.Answers.Errors()
			s.PerSecond += c.PerSecond()
			if n := c.Answers.Operations; n > most {
				most, s.P50, s.P95, s.P99 = n, c.Latency.P50, c.Latency.P95, c.Latency.P99
			}
		}
	}
	s.Latency = s.P50
	return s
}
