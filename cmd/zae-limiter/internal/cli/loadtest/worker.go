package loadtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust/perform"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

type workerOptions struct {
	app    *app.App
	source source
	master string
	setUp  bool

	worker locust.Options
	plan   *scenario.Plan
}

const aboutWorker = `Work for a Locust master: run the users that it asks for, and report to it what they
did. The classes in the master's locustfile need the names of the classes of the
scenario; they have no tasks. The repository has such files, in examples/locust.

The scenario says what a user does and how long it waits. Locust says how many users
there are, so users, stages and phases of the scenario have no meaning here. A class
with a rate is refused.

Locust shows each call as a request: ACQUIRE, COMMIT (of leases that were adjusted),
AVAILABLE, SET_LIMITS, GET_LIMITS, GET_ENTITY and so on (docs/locust.md). A refused
acquire is RATE_LIMITED, and no failure. The name of a request is its resource; for calls
about an entity it is the population.

Before it connects, the command registers the namespace, and writes the scenario's
limits and entities if they are not there yet. It deletes nothing. The table must exist.

The command ends when the master quits, and when it is interrupted. It then prints the
requests of the last test. If the connection is lost, the users go on for a minute; see
docs/locust.md.`

// NewWorker is the command loadtest worker.
func NewWorker(a *app.App) *cobra.Command {
	o := &workerOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "worker [SCENARIO]",
		Short: "Carry out a scenario as a worker of a Locust master",
		Long:  aboutWorker,
		Example: "  locust -f examples/locust/simple.py --master &\n" +
			"  zae-limiter loadtest worker --locust 127.0.0.1:5557 --namespace load simple\n" +
			"  zae-limiter loadtest worker --locust master:5557 --namespace load --file my.yaml",
		Args: o.source.args,
	})
	o.source.bind(cmd)
	a.BindPrincipal(cmd)
	f := cmd.Flags()
	f.StringVar(&o.master, "locust", "", "`host:port` of the master; Locust's port is 5557 (required)")
	f.BoolVar(&o.setUp, "setup", true, "write limits and entities of the scenario first, if they are\nnot there yet")
	return a.Prints(cmd, workerTotals{})
}

// Validate checks the command line.
func (o *workerOptions) Validate() error {
	if o.master == "" {
		return errors.New("missing --locust: give the host:port of the master, 127.0.0.1:5557 for instance")
	}
	if _, ok := o.app.Flags.Given("namespace"); !ok && o.app.Getenv(app.EnvNamespace) == "" {
		return errors.New("missing --namespace: give one of its own to the load, because it changes limits and takes tokens")
	}
	o.worker = locust.Options{Master: o.master, Logger: o.logger(), Now: o.app.Now}
	if wrong, ok := errors.AsType[*store.ValidationError](o.worker.Validate()); ok {
		return fmt.Errorf("invalid --locust %q: %s", wrong.Value, wrong.Reason)
	}
	s, err := o.source.read()
	if err != nil {
		return err
	}
	o.plan, err = planOf(s)
	return err
}

// logger writes what happens to standard error: the worker has no other output until it
// ends.
func (o *workerOptions) logger() *slog.Logger {
	if o.app.Flags.JSON() {
		return slog.New(slog.NewJSONHandler(o.app.Stderr, nil))
	}
	return slog.New(slog.NewTextHandler(o.app.Stderr, nil))
}

// Run works for the master, and prints the requests of the last test.
func (o *workerOptions) Run(ctx context.Context) (err error) {
	if err := o.register(ctx); err != nil {
		return err
	}
	clients, err := clientsOf(ctx, o.app, o.plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(clients)) }()
	actor, err := perform.New(o.plan, clients, o.app.Now)
	if err != nil {
		return err
	}
	if o.setUp {
		if err := actor.SetUp(ctx); err != nil {
			return err
		}
	}
	o.worker.Load = actor
	worker, err := locust.New(o.worker)
	if err != nil {
		return err
	}
	err = worker.Run(ctx)
	return errors.Join(err, o.print(worker.Totals()))
}

// register creates the namespace.
func (o *workerOptions) register(ctx context.Context) error {
	if !o.setUp {
		return nil
	}
	namespaces, err := o.app.Namespaces(ctx)
	if err != nil {
		return err
	}
	_, err = namespaces.Register(ctx, o.app.Flags.Namespace)
	return err
}

// workerTotals are the result in JSON.
type workerTotals struct {
	Requests []locust.Total `json:"requests"` // the requests by method and name
}

func (o *workerOptions) print(totals []locust.Total) error {
	return o.app.Print(workerTotals{totals}, func(w *strings.Builder) {
		rows := make([][]string, len(totals))
		for i, t := range totals {
			rows[i] = []string{t.Method, t.Name, limitarg.Grouped(t.Requests), limitarg.Grouped(t.Failures)}
		}
		app.Table(w, []string{"METHOD", "NAME", "REQUESTS", "FAILURES"}, rows)
	})
}
