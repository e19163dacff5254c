package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	load "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
	"github.com/zeroae/zae-limiter-go/store"
)

// newSwarm is the command swarm.
func newSwarm(a *app.App) *cobra.Command {
	return app.Group("swarm", "Load with the workers of a Locust master", newSwarmRun(a), newSwarmTune(a))
}

// aboutMaster says which master the commands of a swarm use.
const aboutMaster = `

The master is that of the stack NAME-load (loadtest deploy). The command forwards the
master's web page to this machine while it runs: it needs the AWS command line and the
plugin of Session Manager. --url names the web page of another master instead, or one that
loadtest ui forwards. The scenario is that of the workers.

A master on which a test runs is left alone. Ctrl-C stops the users, and shows what was
measured. The load costs money and capacity: the command asks first.`

// A herd is the master and the users of a command.
type herd struct {
	app     *app.App
	confirm *app.Confirmation
	flags   *pflag.FlagSet
	url     string
	order   swarm.Order
	workers int
	wait    time.Duration
	// searches says that the command runs the load some times, with fewer users than most.
	searches bool
}

// bind adds the flags to a command, whose arguments are classes of users.
func (h *herd) bind(a *app.App, cmd *cobra.Command) {
	h.app, h.flags = a, cmd.Flags()
	cmd.Args = func(_ *cobra.Command, args []string) error {
		h.order.Classes = args
		return nil
	}
	h.confirm = a.Confirmation(cmd)
	h.flags.StringVar(&h.url, "url", "", "`URL` of the web page of a master, instead of the stack's:\nhttp://localhost:8089 for instance")
	h.flags.IntVar(&h.workers, "workers", 1, "`number` of workers that must be connected first")
	h.flags.DurationVar(&h.wait, "wait", swarm.DefaultPatience, "how long to wait for workers, and for users beyond their ramp")
}

// validate checks the flags.
func (h *herd) validate() error {
	if _, given := h.app.Flags.Given("table"); given && h.url != "" {
		return errors.New("give --name or --url, not both")
	}
	if h.flags.Changed("url") {
		if err := app.CheckURL(h.url, "http://localhost:8089"); err != nil {
			return fmt.Errorf("invalid --url %q: %w", h.url, err)
		}
	}
	if err := positive(h.flags, "workers", "wait"); err != nil {
		return err
	}
	return h.confirm.Validate()
}

// options are those of a run.
func (h *herd) options(lasting time.Duration) swarm.Options {
	return swarm.Options{
		Page:  &swarm.Page{URL: h.url, Client: &http.Client{Timeout: lookTimeout}},
		Order: h.order, Duration: lasting, Workers: h.workers, Patience: h.wait, Now: func() time.Time { return h.app.Clock() },
	}
}

// on asks for a load, and calls with once the page of the master answers. lasting and most are the
// time and the most users of the load; most is 0 if nobody knows.
func (h *herd) on(ctx context.Context, most int, lasting time.Duration, with func() error) error {
	if h.url != "" {
		if err := h.confirm.Ask(ctx, h.sentence(most, lasting, "of the Locust master at "+h.url)+
			" What that costs depends on their scenario, and zae-limiter estimate says it. Run it?"); err != nil {
			return err
		}
		return with()
	}
	s, task, err := masterOf(ctx, h.app)
	if err != nil {
		return err
	}
	if err := tools(); err != nil {
		return err
	}
	question := ""
	if !h.confirm.Given() {
		o, err := loadstack.OptionsOf(h.app.Flags.Table, s.Parameters)
		if err != nil {
			return fmt.Errorf("read the options of stack %s: %w", s.Name, err)
		}
		if question, err = h.question(most, lasting, o); err != nil {
			return err
		}
	}
	if err := h.confirm.Ask(ctx, question); err != nil {
		return err
	}
	tunnel, err := openTunnel(ctx, h.app, task)
	if err != nil {
		return err
	}
	h.url = tunnel.page
	return errors.Join(with(), tunnel.close())
}

// sentence says what would run.
func (h *herd) sentence(most int, lasting time.Duration, where string) string {
	who := fmt.Sprintf("%d users", most)
	if most == 0 {
		who = "The users of shape " + h.order.Shape
	}
	if h.searches {
		return fmt.Sprintf("Up to %s would run for %v, and fewer some times more, on the workers %s.", who, lasting, where)
	}
	return fmt.Sprintf("%s would run for %v on the workers %s.", who, lasting, where)
}

// question asks for a load on the workers of a stack, and says what it costs.
func (h *herd) question(most int, lasting time.Duration, o loadstack.Options) (string, error) {
	spec, err := loadstack.New(o)
	if err != nil {
		return "", fmt.Errorf("read the options of the stack: %w", err)
	}
	o = spec.Options()
	ask := h.sentence(most, lasting, fmt.Sprintf("of stack %s, and load table %s", spec.Name(), h.app.Flags.Table))
	users := most
	if most == 0 {
		users = o.MaxWorkers * o.UsersPerWorker
	}
	workers := min(max((users+o.UsersPerWorker-1)/o.UsersPerWorker, o.MinWorkers), o.MaxWorkers)
	plan, err := planOfText(o.Scenario, string(o.File))
	if err != nil {
		return "", err
	}
	s, err := plan.WithSwarm(users, workers*max(plan.Limiters, 1), lasting, h.order.Classes)
	if err != nil {
		return "", named(err)
	}
	table, dollars, err := priceOf(s)
	if err != nil {
		return "", err
	}
	prices, err := estimate.BuiltIn(load.DefaultRegion)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d workers cost about $%.2f, and the table about $%.2f at the prices of %s: %.0f write units and %.0f read units. Run it?",
		ask, workers, workersPrice(o, workers, lasting, prices), dollars, load.DefaultRegion, table.Sum.Writes, table.Sum.Reads), nil
}

// workersPrice is what workers on Lambda cost for a time, in dollars.
func workersPrice(o loadstack.Options, workers int, lasting time.Duration, prices *estimate.Prices) float64 {
	const mbOfGB = 1024
	return float64(workers) * lasting.Seconds() * float64(o.WorkerMemoryMB) / mbOfGB * prices.FunctionTime.Dollars
}

// refused names the flag of a wrong option, as [named] does.
func refused(err error) error {
	if wrong, ok := errors.AsType[*store.ValidationError](err); ok && wrong.Field == "patience" {
		return fmt.Errorf("invalid --wait %q: %s", wrong.Value, wrong.Reason)
	}
	return named(err)
}
