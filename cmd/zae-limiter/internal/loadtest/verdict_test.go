package loadtest_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// The run finds wrong results: here the test changes the bucket without the limiter's
// knowledge.
func TestWrongAnswersAreFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		limit            limiter.Limit
		meddle           func(ctx context.Context, s *dynamo.Store) error
		least, most      int64 // wrong answers
		unequal, expired int64
	}{
		{
			name: "nobody", limit: limiter.PerSecond("rps", 10, limiter.Burst(100)),
			meddle: func(context.Context, *dynamo.Store) error { return nil },
		},
		{
			// A new bucket has 100 tokens that the old one had already given.
			name: "the bucket is deleted", limit: limiter.PerSecond("rps", 10, limiter.Burst(100)),
			meddle: func(ctx context.Context, s *dynamo.Store) error {
				_, err := s.DeleteEntity(ctx, "entity-0")
				return err
			},
			least: 80, most: 100, expired: 1,
		},
		{
			// 250 more are requested, and without other users the bucket would have them.
			name: "the bucket is emptied", limit: limiter.PerDay("rpd", 1000),
			meddle: func(ctx context.Context, s *dynamo.Store) error {
				l, err := limiter.New(s, limiter.Options{})
				if err != nil {
					return err
				}
				_, err = l.Acquire(ctx, limiter.Request{Entity: "entity-0", Resource: "api", Consume: map[string]int64{"rpd": 740}})
				return errors.Join(err, l.Close())
			},
			least: 230, most: 250, unequal: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, db := options(limited(at(builtin(t, "hot", time.Second), 500, 64), tt.limit), dynamolite.Options{})
				meddled := make(chan error, 1)
				go func() {
					time.Sleep(510 * time.Millisecond)
					s, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: o.Table, Namespace: o.Namespace})
					if err == nil {
						err = tt.meddle(t.Context(), s)
					}
					meddled <- err
				}()
				side := &run(t, o).Sides[0]
				if err := <-meddled; err != nil {
					t.Fatal(err)
				}
				if n := side.Wrong.Answers(); n < tt.least || n > tt.most {
					t.Errorf("%+v, want %d to %d wrong answers: %+v", side.Wrong, tt.least, tt.most, side.Limits)
				}
				if b := side.Balance; b.Wrong != tt.unequal || int64(b.Expired) != tt.expired || (b.FirstWrong == "") != (b.Wrong == 0) {
					t.Errorf("%+v", b)
				}
			})
		})
	}
}

// A rate that the clients cannot carry out is not measured for ever.
func TestARateBeyondTheClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(at(builtin(t, "spread", 20*time.Second), 50, 2), dynamolite.Options{Latency: dynamolite.Latency{P50: 100 * time.Millisecond}})
		r := run(t, o)
		c := class(&r.Sides[0])
		// Two clients carry out 20 a second. An operation is begun within 20 s of its due instant.
		if c.Due != 1000 || c.Answers.Operations < 600 || c.Answers.Operations > 700 || c.Latency.Max.Duration() > 21*time.Second {
			t.Errorf("%d due, %+v, at most %v ms", c.Due, c.Answers, c.Latency.Max)
		}
		if !strings.Contains(r.Unreliable, "never begun") {
			t.Errorf("unreliable: %q", r.Unreliable)
		}
	})
}

// A generator that is late itself spoils what it measures, unless its delay is small beside
// the latency.
func TestALateGenerator(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lag, latency result.Milliseconds
		unreliable   bool
	}{
		{0, 1, false}, {5, 1, false}, {6, 20, true}, {6, 61, false}, {60, 61, true},
	} {
		r := &result.Result{Sides: []result.Side{{Name: "limiter", Phases: []result.Phase{{Name: "all", Classes: []result.Class{{
			Name: "c", Lag: result.Latency{P99: tt.lag}, Latency: result.Latency{P99: tt.latency},
		}}}}}}}
		if got := loadtest.Unreliable(r, 5*time.Millisecond); (got != "") != tt.unreliable {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestEntitlement(t *testing.T) {
	t.Parallel()
	hourly, err := limiter.ParseRenewal("0 * * * *", "")
	if err != nil {
		t.Fatal(err)
	}
	quota, start := limiter.Quota("l", 7, hourly), time.Date(2027, 3, 1, 9, 59, 0, 0, time.UTC)
	for _, tt := range []struct {
		limit limiter.Limit
		after time.Duration
		want  int64
	}{
		{limiter.PerSecond("l", 10, limiter.Burst(100)), 0, 100},
		{limiter.PerSecond("l", 10, limiter.Burst(100)), -time.Second, 100},
		{limiter.PerSecond("l", 10, limiter.Burst(100)), 199 * time.Millisecond, 101},
		{limiter.PerSecond("l", 10, limiter.Burst(100)), time.Hour, 36_100},
		{limiter.Limit{Name: "l", Capacity: 1, Amount: limiter.MaxTokens, Period: time.Millisecond}, 24 * 365 * 100 * time.Hour, math.MaxInt64},
		{quota, -time.Second, 7},
		{quota, time.Minute - time.Millisecond, 7},
		{quota, time.Minute, 14},
		{quota, 61 * time.Minute, 21},
		{limiter.Quota("l", limiter.MaxTokens, hourly), 24 * 365 * 100 * time.Hour, math.MaxInt64},
	} {
		if got := loadtest.Entitlement(tt.limit, start, tt.after); got != tt.want {
			t.Errorf("%v after %v: %d, want %d", tt.limit, tt.after, got, tt.want)
		}
	}
}
