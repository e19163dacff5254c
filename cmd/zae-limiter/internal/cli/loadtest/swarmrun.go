package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

// swarmRunner is the command swarm run.
type swarmRunner struct {
	herd     herd
	duration time.Duration
}

const aboutSwarmRun = `Run a load test on the workers of a Locust master: start users, measure while all of them
run, stop them, and show the master's statistics. CLASS names classes of users; without one,
users of all classes run. A shape of the locustfile (--shape) says how many users run when,
instead of --users and --spawn-rate.

Users wait for their answers, so latencies leave out the requests that would have come
meanwhile: loadtest run includes them. Locust rounds quantiles to two digits. Workers report
every three seconds, so the rates of short runs are off by some percent.`

func newSwarmRun(a *app.App) *cobra.Command {
	o := &swarmRunner{}
	cmd := a.Command(o, &cobra.Command{
		Use:   "run [CLASS...]",
		Short: "Run a load test on the workers of a Locust master",
		Long:  aboutSwarmRun + aboutMaster,
		Example: "  zae-limiter loadtest swarm run --name limits --users 200 --spawn-rate 20 --duration 5m\n" +
			"  zae-limiter loadtest swarm run --url http://localhost:8089 --shape Spike --duration 1h --yes",
	})
	o.herd.bind(a, cmd)
	f := cmd.Flags()
	f.IntVar(&o.herd.order.Users, "users", 20, "`number` of users")
	f.Float64Var(&o.herd.order.SpawnRate, "spawn-rate", 10, "`number` of users that start in a second")
	f.StringVar(&o.herd.order.Shape, "shape", "", "`class` of a shape in the locustfile")
	f.DurationVar(&o.duration, "duration", time.Minute, "how long the users are measured; with a shape, the longest time")
	return a.Prints(cmd, &swarm.Result{})
}

// Validate checks the command line.
func (o *swarmRunner) Validate() error {
	if err := positive(o.herd.flags, "users", "spawn-rate", "duration"); err != nil {
		return err
	}
	for _, flag := range []string{"users", "spawn-rate"} {
		if o.herd.order.Shape != "" && o.herd.flags.Changed(flag) {
			return fmt.Errorf("--%s has no meaning with --shape: the shape says how many users run", flag)
		}
	}
	if o.herd.order.Shape != "" && len(o.herd.order.Classes) > 0 {
		return errors.New("give classes or --shape, not both")
	}
	options := o.herd.options(o.duration)
	if err := options.Validate(); err != nil {
		return refused(err)
	}
	return o.herd.validate()
}

// Run runs the test, and shows what it has measured even if it was interrupted.
func (o *swarmRunner) Run(ctx context.Context) error {
	most := o.herd.order.Users
	if o.herd.order.Shape != "" {
		most = 0
	}
	return o.herd.on(ctx, most, o.duration, func() error {
		options := o.herd.options(o.duration)
		view := viewOf(o.herd.app, nil)
		options.Observe = view.showSwarm
		r, err := swarm.Run(ctx, options)
		view.clear()
		if r == nil {
			return err
		}
		if r.EndedEarly && r.Shape == "" {
			err = errors.Join(err, fmt.Errorf("the test ended after %s: somebody stopped it, or its last worker left", seconds(r.Seconds)))
		}
		return errors.Join(err, o.herd.app.Print(r, func(w *strings.Builder) { swarmText(w, r) }))
	})
}

// showSwarm shows a look at a master.
func (v *view) showSwarm(p swarm.Progress) {
	l := p.Look
	v.update(p.Doing, p.Done, func() []string {
		if p.Doing != "" {
			return []string{p.Doing}
		}
		return []string{
			bar(p.Done, p.Planned),
			fmt.Sprintf("users %d   workers %d   %s", l.Users, l.Connected(), l.State),
			fmt.Sprintf("requests %.0f/s   failures %.1f/s   mean %s   p95 %s   p99 %s", l.PerSecond, l.FailedPerSecond, took(l.Total.Mean), took(l.Total.P95), took(l.Total.P99)),
		}
	}, func() string {
		return fmt.Sprintf("%s of %s: %d users, %d workers, requests %.0f/s, failures %.1f/s, mean %s, p95 %s, p99 %s",
			p.Done.Round(time.Second), p.Planned.Round(time.Second), l.Users, l.Connected(), l.PerSecond, l.FailedPerSecond, took(l.Total.Mean), took(l.Total.P95), took(l.Total.P99))
	})
}

// swarmText shows a result.
func swarmText(w *strings.Builder, r *swarm.Result) {
	rows := make([][]string, 0, len(r.Requests)+1)
	for _, q := range r.Requests {
		rows = append(rows, requestRow(q))
	}
	all := r.Total
	all.Method = "all"
	app.Table(w, []string{"METHOD", "NAME", "REQUESTS", "FAILURES", "DONE/S", "MEAN", "P50", "P95", "P99", "MAX"}, append(rows, requestRow(all)))
	w.WriteByte('\n')
	app.Fields(w,
		"Users", fmt.Sprintf("%d to %d", r.LeastUsers, r.MostUsers), "Workers", fmt.Sprintf("%d to %d", r.LeastWorkers, r.MostWorkers),
		"Measured", seconds(r.Seconds))
	for _, e := range r.Errors {
		fmt.Fprintf(w, "%d failures of %s %s: %s\n", e.Occurrences, e.Method, e.Name, e.Error)
	}
	if r.Interrupted {
		w.WriteString("Interrupted: these are the measurements so far.\n")
	}
}

func requestRow(q swarm.Request) []string {
	return []string{
		q.Method, q.Name, limitarg.Grouped(q.Requests), limitarg.Grouped(q.Failures), fmt.Sprintf("%.1f", q.PerSecond),
		took(q.Mean), took(q.P50), took(q.P95), took(q.P99), took(q.Max),
	}
}
