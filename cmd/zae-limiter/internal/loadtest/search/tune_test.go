package search_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/search"
	"github.com/zeroae/zae-limiter-go/store"
)

// measured is a run of a number of operations with a median.
func measured(operations int64, p50 result.Milliseconds) *result.Result {
	return &result.Result{Sides: []result.Side{{Phases: []result.Phase{{Classes: []result.Class{
		{Seconds: 10, Answers: result.Answers{Operations: operations, Failed: 1}, Latency: result.Latency{P50: p50, P95: 2 * p50, P99: 3 * p50}},
		{Seconds: 10, Answers: result.Answers{Operations: 1}, Latency: result.Latency{P50: 1000}},
	}}}}}}
}

// The search finds the largest number of users with the efficiency, whatever the curve.
func TestTheUsersOfAProcess(t *testing.T) {
	t.Parallel()
	for name, curve := range map[string]func(users int) float64{
		"linear":      func(users int) float64 { return 10 + float64(users)/7 },
		"a knee":      func(users int) float64 { return 10 + float64(max(0, users-23))*5 },
		"a late knee": func(users int) float64 { return 10 + float64(max(0, users-39))*100 },
		"at once":     func(users int) float64 { return 10 + float64(max(0, users-1))*100 },
		"flat":        func(int) float64 { return 10 },
	} {
		want := 1
		for users := 1; users <= 40; users++ {
			if curve(1)/curve(users) >= 0.8 {
				want = users
			}
		}
		tried := map[int]bool{}
		r, err := search.Tune(t.Context(), search.TuneOptions{Run: func(_ context.Context, users int, lasting time.Duration) (search.Step, error) {
			if tried[users] || users < 1 || users > 40 {
				t.Errorf("%s: %d users are tried again, or out of bounds", name, users)
			}
			tried[users] = true
			if want := map[bool]time.Duration{true: time.Minute, false: 30 * time.Second}[users == 1]; lasting != want {
				t.Errorf("%s: %d users for %v, want %v", name, users, lasting, want)
			}
			return search.StepOf(users, measured(int64(1000*users), result.Milliseconds(curve(users)))), nil
		}})
		if err != nil || r.Users != want {
			t.Errorf("%s: %d users, want %d: %v", name, r.Users, want, err)
		}
		if first := r.Steps[0]; first.Users != 1 || first.Efficiency != 1 || first.Operations != 1001 || first.Errors != 2 && first.Errors != 1 || first.P99 != 3*first.P50 {
			t.Errorf("%s: %+v", name, first)
		}
		if r.PerSecond != float64(1000*want+1)/10 {
			t.Errorf("%s: %v operations per second", name, r.PerSecond)
		}
	}
}

// A baseline of too few operations lasts longer, and not for ever.
func TestTheBaselineIsLongEnough(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perSecond float64
		lasting   []time.Duration
		err       error
	}{
		{10, []time.Duration{10 * time.Second}, nil},
		{1, []time.Duration{10 * time.Second, 100 * time.Second}, nil},
		{9, []time.Duration{10 * time.Second, 20 * time.Second}, nil},
		{0, []time.Duration{10 * time.Second, 100 * time.Second}, search.ErrTooFew},
	} {
		var lasting []time.Duration
		_, err := search.Tune(t.Context(), search.TuneOptions{
			Baseline: 10 * time.Second, MaxBaseline: 100 * time.Second, MaxUsers: 2,
			Run: func(_ context.Context, users int, d time.Duration) (search.Step, error) {
				if users == 1 {
					lasting = append(lasting, d)
				}
				return search.StepOf(users, measured(int64(c.perSecond*d.Seconds()), 10)), nil
			},
		})
		if !errors.Is(err, c.err) || len(lasting) != len(c.lasting) {
			t.Errorf("%v a second: %v, %v", c.perSecond, lasting, err)
			continue
		}
		for i := range lasting {
			if lasting[i] != c.lasting[i] {
				t.Errorf("%v a second: %v, want %v", c.perSecond, lasting, c.lasting)
			}
		}
	}
}

func TestBadTuneOptions(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]search.TuneOptions{
		"max users":         {MaxUsers: 1},
		"efficiency":        {Efficiency: 1.1},
		"step duration":     {Step: -1},
		"baseline duration": {Baseline: time.Hour},
	} {
		_, err := search.Tune(t.Context(), o)
		if bad, ok := errors.AsType[*store.ValidationError](err); !ok || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
