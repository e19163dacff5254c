package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/connect"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/function"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

// A NewCarry makes what carries out the jobs of the function of workers, on the table of the
// flags. A function makes it once, before its first job.
type NewCarry func(ctx context.Context, a *app.App, log *slog.Logger) (fleet.Carry, error)

// serve has what both functions share.
type serve struct {
	app   *app.App
	level string
}

// bind makes a hidden command that only AWS Lambda runs.
func (o *serve) bind(cmd *cobra.Command) *cobra.Command {
	o.level = "info"
	cmd.Hidden = true
	cmd.Flags().Var(app.Choice(&o.level, "debug", "info", "warn", "error"), "log-level", "lowest level to log, as JSON lines on standard error")
	return cmd
}

// onLambda checks that AWS Lambda runs the program.
func (o *serve) onLambda(command, instead string) error {
	if o.app.Getenv(function.EnvRuntime) == "" {
		return app.Usagef("loadtest %s runs only as a function of AWS Lambda: on a command line, use zae-limiter loadtest %s", command, instead)
	}
	return nil
}

func (o *serve) logger() (*slog.Logger, error) {
	var level slog.Level
	err := level.UnmarshalText([]byte(o.level))
	return slog.New(slog.NewJSONHandler(o.app.Stderr, &slog.HandlerOptions{Level: level})), err
}

// now is the local clock.
func (o *serve) now() time.Time { return o.app.Clock() }

// workerServer is the command serve-worker.
type workerServer struct {
	serve
	carry NewCarry
}

// NewServeWorker is the command loadtest serve-worker, the function of the workers. Help does
// not list it.
func NewServeWorker(a *app.App, carry NewCarry) *cobra.Command {
	o := &workerServer{serve{app: a}, carry}
	cmd := o.bind(a.Command(o, &cobra.Command{
		Use: "serve-worker", Short: "Work for a Locust master on AWS Lambda",
	}))
	a.BindPrincipal(cmd)
	return cmd
}

// Validate checks that AWS Lambda runs the program.
func (o *workerServer) Validate() error { return o.onLambda("serve-worker", "worker") }

// Run serves jobs until the context ends, as AWS Lambda ends the program.
func (o *workerServer) Run(ctx context.Context) error {
	log, err := o.logger()
	if err != nil {
		return err
	}
	carry, err := o.carry(ctx, o.app, log)
	if err != nil {
		return err
	}
	f := &fleet.Function{Carry: carry, Now: o.now}
	return function.Serve(ctx, func(ctx context.Context, j fleet.Job) (fleet.Leave, error) {
		left, err := f.Handle(ctx, j)
		log.InfoContext(ctx, "worker left", "id", left.ID, "reason", left.Reason, "seconds", left.Seconds, "error", err)
		return left, err
	})
}

// orchestrator is the command orchestrate.
type orchestrator struct {
	serve
	master, page, function string
	source                 source
	packed                 string
	options                fleet.Options
}

// NewOrchestrate is the command loadtest orchestrate, the function that starts workers. Help
// does not list it.
func NewOrchestrate(a *app.App) *cobra.Command {
	o := &orchestrator{serve: serve{app: a}}
	cmd := o.bind(a.Command(o, &cobra.Command{
		Use: "orchestrate", Short: "Start workers for a Locust master on AWS Lambda",
	}))
	f := cmd.Flags()
	f.StringVar(&o.master, "master", "", "`HOST:PORT` at which workers connect to the Locust master")
	f.StringVar(&o.page, "page", "", "`URL` of the master's web page")
	f.StringVar(&o.function, "function", "", "`name` of the function of the workers")
	f.StringVar(&o.source.name, "scenario", "", "`name` of the scenario of the program that the workers carry out")
	f.StringVar(&o.packed, "scenario-file", "", "`text` of a scenario, gzip in base64, instead of --scenario")
	f.DurationVar(&o.options.Timeout, "worker-timeout", loadstack.DefaultTimeout, "`time` that a worker may run")
	f.IntVar(&o.options.Min, "min-workers", 1, "least `number` of workers")
	f.IntVar(&o.options.Max, "max-workers", 1, "most `number` of workers that carry load")
	f.IntVar(&o.options.UsersPerWorker, "users-per-worker", 1, "`number` of users that a worker carries")
	return cmd
}

// Validate checks the flags, which come from the environment of a function.
func (o *orchestrator) Validate() error {
	if err := o.onLambda("orchestrate", "deploy"); err != nil {
		return err
	}
	if o.master == "" || o.page == "" || o.function == "" {
		return errors.New("missing --master, --page or --function: give the address of the Locust master, the URL of its web page, and the name of the function of the workers")
	}
	file, err := loadstack.Unpack(o.packed)
	if err != nil {
		return fmt.Errorf("invalid --scenario-file: %w", err)
	}
	o.source.file = string(file)
	job := o.job()
	job.ID, job.ConnectBy, job.Until = "any", time.Unix(1, 0), time.Unix(1, 0)
	if err := job.Validate(); err != nil {
		return err
	}
	return o.options.Validate()
}

// job has what all workers have in common.
func (o *orchestrator) job() fleet.Job {
	return fleet.Job{
		Master: o.master, Namespace: o.app.Flags.Namespace, Scenario: o.source.name, File: o.source.file,
	}
}

// lookTimeout limits one look at the master.
const lookTimeout = 5 * time.Second

// Run serves the ticks of the schedule until the context ends, as AWS Lambda ends the program.
func (o *orchestrator) Run(ctx context.Context) error {
	log, err := o.logger()
	if err != nil {
		return err
	}
	starter, err := connect.Workers(ctx, o.app.Endpoint(), o.function)
	if err != nil {
		return err
	}
	of := &fleet.Orchestrator{
		Master:  fleet.Locust{Page: &swarm.Page{URL: o.page, Client: &http.Client{Timeout: lookTimeout}}},
		Starter: starter, Options: o.options, Job: o.job(), Now: o.now, Logger: log,
	}
	return function.Serve(ctx, func(ctx context.Context, _ json.RawMessage) (fleet.Summary, error) {
		deadline, ok := ctx.Deadline()
		if !ok {
			return fleet.Summary{}, errors.New("the event has no deadline: run the program as a function of AWS Lambda")
		}
		summary, err := of.Run(ctx, fleet.EndOf(o.now(), deadline))
		log.InfoContext(ctx, "orchestrator ended", "looks", summary.Looks, "started", summary.Started, "failed", summary.Failed, "reason", summary.Reason)
		return summary, err
	})
}
