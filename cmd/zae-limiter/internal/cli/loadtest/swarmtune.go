package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/search"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

// swarmTuner is the command swarm tune.
type swarmTuner struct {
	herd   herd
	search search.TuneOptions
}

const aboutSwarmTune = `Find how many users one worker of a Locust master carries. The efficiency of a number of
users is the mean latency of one user on each worker, divided by that of the many. It is the
mean because Locust rounds the median. The search finds the highest number whose efficiency
is at least --threshold. It says how many workers 100, 500 and 1,000 users need.

The number of workers must stay the same: deploy the stack with --min-workers and
--max-workers of the same number, and give that number here. While a worker is replaced, the
search waits.`

func newSwarmTune(a *app.App) *cobra.Command {
	o := &swarmTuner{herd: herd{searches: true}}
	cmd := a.Command(o, &cobra.Command{
		Use:     "tune [CLASS...]",
		Short:   "Find how many users one worker of a Locust master carries",
		Long:    aboutSwarmTune + aboutMaster,
		Example: "  zae-limiter loadtest swarm tune --name limits --workers 1 --max-users 100",
	})
	o.herd.bind(a, cmd)
	f := cmd.Flags()
	bindTune(f, &o.search)
	f.Float64Var(&o.herd.order.SpawnRate, "spawn-rate", 10, "`number` of users of a worker that start in a second")
	return a.Prints(cmd, &search.TuneResult{})
}

// Validate checks the command line.
func (o *swarmTuner) Validate() error {
	if err := positive(o.herd.flags, "spawn-rate"); err != nil {
		return err
	}
	if err := checkTune(o.herd.flags, &o.search); err != nil {
		return err
	}
	options := o.herd.options(o.search.Step)
	options.Order.Users = o.search.MaxUsers * o.herd.workers
	if err := options.Validate(); err != nil {
		return refused(err)
	}
	return o.herd.validate()
}

// attempts is how often a step is measured whose workers changed.
const attempts = 3

// Run searches, and shows what it has found even if it was interrupted.
func (o *swarmTuner) Run(ctx context.Context) error {
	return o.herd.on(ctx, o.search.MaxUsers*o.herd.workers, o.search.Baseline, func() error {
		o.search.Run = o.step
		o.search.Tell = tellStep(o.herd.app, "mean")
		found, err := search.Tune(ctx, o.search)
		if found == nil || len(found.Steps) == 0 {
			return err
		}
		return errors.Join(err, o.herd.app.Print(found, func(w *strings.Builder) { tuneText(w, "worker", found) }))
	})
}

// step measures a number of users on each worker.
func (o *swarmTuner) step(ctx context.Context, users int, lasting time.Duration) (search.Step, error) {
	options := o.herd.options(lasting)
	options.Exactly = true
	options.Order.Users, options.Order.SpawnRate = users*o.herd.workers, o.herd.order.SpawnRate*float64(o.herd.workers)
	for range attempts {
		r, err := swarm.Run(ctx, options)
		switch {
		case err != nil:
			return search.Step{}, err
		case r.EndedEarly:
			return search.Step{}, fmt.Errorf("the test of %d users ended early: somebody stopped it, or its last worker left", options.Order.Users)
		case r.LeastWorkers == o.herd.workers && r.MostWorkers == o.herd.workers:
			return stepOfWorker(users, o.herd.workers, &r.Total), nil
		}
	}
	return search.Step{}, fmt.Errorf("the number of workers changed in %d measurements: deploy the stack with --min-workers %d --max-workers %[2]d", attempts, o.herd.workers)
}

// stepOfWorker is what one of some workers did.
func stepOfWorker(users, workers int, all *swarm.Request) search.Step {
	return search.Step{
		Users: users, Latency: result.Milliseconds(all.Mean), PerSecond: all.PerSecond / float64(workers),
		P50: result.Milliseconds(all.P50), P95: result.Milliseconds(all.P95), P99: result.Milliseconds(all.P99),
		Operations: all.Requests, Errors: all.Failures,
	}
}
