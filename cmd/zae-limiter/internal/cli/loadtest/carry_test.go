package loadtest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// carrier is a function of workers on the table of a world.
func carrier(t *testing.T, w *testbed.World) fleet.Carry {
	t.Helper()
	a := &app.App{Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return w.Engine, nil }}
	a.Flags.Table = testbed.Table
	carry, err := loadtest.CarryWithLocust(t.Context(), a, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return carry
}

// A worker on Lambda carries a job until its time is up, or until the master sends it away.
// The master then has all of its statistics, and knows that it left.
func TestAJob(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"its time is up": "quit", "the master quits": "stats"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := testbed.New(t, testbed.Options{})
			all, err := admin.NewNamespaces(dynamo.Options{API: w.Engine, Table: testbed.Table})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := all.Register(t.Context(), "drill"); err != nil {
				t.Fatal(err)
			}
			limits := w.Open(dynamo.Options{Namespace: "drill"})
			if err := limits.SetLimits(t.Context(), store.ConfigKey{Resource: "gpt-4"}, []store.Limit{limiter.PerMinute("rpm", 1e6), limiter.PerMinute("tpm", 9e6)}); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			address, kinds := lead(t, map[string]any{"Caller": 4}, func(send func(string, any)) {
				if last == "quit" {
					close(stop)
				} else {
					send("quit", nil)
				}
			})
			job := fleet.Job{ID: "w", Master: address, Namespace: "drill", File: file, ConnectBy: time.Now().Add(time.Minute)}
			if err := carrier(t, w)(t.Context(), job, stop); err != nil {
				t.Fatal(err)
			}
			var heard string
			for kind := range kinds {
				heard = kind
			}
			if heard != last {
				t.Errorf("last message %s, want %s", heard, last)
			}
			sum := consumed(t, w, "drill")
			if diff := cmp.Diff(7*sum["rpm"], sum["tpm"]); diff != "" || sum["rpm"] == 0 {
				t.Errorf("tokens in the table: %v", sum)
			}
		})
	}
}

// A job that cannot be carried out ends with its reason.
func TestJobsThatCannotBeCarriedOut(t *testing.T) {
	t.Parallel()
	w := testbed.New(t, testbed.Options{})
	usual := fleet.Job{ID: "w", Master: "127.0.0.1:1", Namespace: dynamo.DefaultNamespace, Scenario: "simple", ConnectBy: time.Now().Add(time.Second)}
	with := func(change func(*fleet.Job)) fleet.Job {
		j := usual
		change(&j)
		return j
	}
	for _, c := range []struct {
		job  fleet.Job
		want func(error) bool
	}{
		{usual, func(err error) bool { return is[*locust.UnreachableError](err) }},
		{with(func(j *fleet.Job) { j.Namespace = "none" }), func(err error) bool { return errors.Is(err, store.ErrNotFound) }},
		{with(func(j *fleet.Job) { j.Scenario = "none" }), func(err error) bool { return errors.Is(err, store.ErrNotFound) }},
		{with(func(j *fleet.Job) { j.Scenario, j.File = "", "name: 7\nload" }), func(err error) bool { return err != nil }},
		{with(func(j *fleet.Job) { j.Scenario = "attack" }), func(err error) bool { return is[*store.ValidationError](err) }},
		{with(func(j *fleet.Job) { j.Master = "m" }), func(err error) bool { return is[*store.ValidationError](err) }},
	} {
		if err := carrier(t, w)(t.Context(), c.job, nil); !c.want(err) {
			t.Errorf("%+v: %v", c.job, err)
		}
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
