package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	load "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// runner is the command run.
type runner struct {
	app      *app.App
	source   source
	load     load.Options
	duration time.Duration
	warmUp   time.Duration
	rate     float64
	users    int
	clients  int
	limiters int
	seed     uint64
	sides    []string
	target   target

	flags *pflag.FlagSet
}

const aboutRun = `Drive a load, and measure how fast the limiter decides, what its decisions cost, and
whether they are right. The load is a scenario: one of the program (loadtest scenarios), or a
file (--file; docs/scenarios.md).

Latency counts from the instant at which an operation was due, so it includes the wait of
operations behind a stalled store. The time for which a lease is held is not part of it.
Of a limit, the entitlement is what the buckets could admit from their first use to their
last, or the demand if that is less. Afterwards the books of all answers are compared with
the counters in the table. Dollars are on-demand prices of us-east-1.

The command creates the table if it does not exist; a scenario with the side bare also
creates NAME-bare. It leaves its tables in place. At the end it deletes its namespaces,
and keeps only their audit events and some small records. Ctrl-C ends the load, and shows
what was measured. A load on DynamoDB itself, or on any other machine, costs money and
capacity: the command asks first.

The exit code is 1 if an answer was wrong, if the books and the table differ, or if the
generator itself was too late to measure (--max-lag).`

func newRun(a *app.App) *cobra.Command {
	o := &runner{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "run [SCENARIO]",
		Short: "Run a scenario",
		Long:  aboutRun,
		Example: "  zae-limiter loadtest run llm-gateway --local :memory: --latency 5ms --duration 30s\n" +
			"  zae-limiter loadtest run attack --local :memory: --latency 5ms\n" +
			"  zae-limiter loadtest run spread --endpoint-url http://localhost:8000 --rate 500 --output json\n" +
			"  zae-limiter loadtest run hot --local :memory: --latency 5ms --side limiter,bare",
		Args: o.source.args,
	})
	o.source.bindOne(cmd)
	o.flags = cmd.Flags()
	o.flags.DurationVar(&o.duration, "duration", 0, "length of the measurement; phases and stages change in proportion\n(default the scenario's)")
	o.flags.DurationVar(&o.warmUp, "warm-up", 0, "how long the load runs before the measurement (default the\nscenario's)")
	o.flags.Float64Var(&o.rate, "rate", 0, "constant `rate` of operations due per second, for a scenario with\none class")
	o.flags.IntVar(&o.users, "users", 0, "`number` of users instead, each of which sends its next operation\nwhen the last has ended")
	o.flags.IntVar(&o.clients, "clients", 0, "most concurrent operations of a --rate (default 256)")
	o.flags.IntVar(&o.limiters, "limiters", 0, "`number` of limiters that share the load, each with its own\nmemory, as in that many processes (default the scenario's)")
	o.flags.Uint64Var(&o.seed, "seed", 0, "`number` that determines the operations (default the scenario's)")
	o.flags.StringSliceVar(&o.sides, "side", nil, "`systems` that carry out the load, one after another: limiter,\nshared, sticky, bare (default the scenario's)")
	o.flags.DurationVar(&o.load.MaxLag, "max-lag", load.DefaultMaxLag, "how late the generator itself may be, at the 99th percentile")
	o.flags.BoolVar(&o.load.Keep, "keep", false, "leave the namespaces and their items in place")
	o.target.bind(a, cmd, "aws with\nthe side bare, else off")
	return a.Prints(cmd, &result.Result{})
}

// Validate checks the command line and the scenario.
func (o *runner) Validate() error {
	if err := positive(o.flags, "duration", "rate", "users", "clients", "limiters", "max-lag"); err != nil {
		return err
	}
	s, err := o.scenario()
	if err != nil {
		return named(err)
	}
	if o.load.MaxLag < 0 {
		return fmt.Errorf("invalid --max-lag %q: give a duration above 0", o.load.MaxLag)
	}
	o.load.Scenario = s
	if slices.Contains(s.Sides, scenario.Bare) { // which shows what these limits do to an item
		o.target.limited()
	}
	return o.target.validate()
}

// scenario reads the scenario, and changes it as the flags say.
func (o *runner) scenario() (*scenario.Scenario, error) {
	s, err := o.source.read()
	if err != nil {
		return nil, err
	}
	switch {
	case o.flags.Changed("rate") && o.flags.Changed("users"):
		return nil, errors.New("give --rate or --users, not both")
	case o.flags.Changed("clients") && !o.flags.Changed("rate"):
		return nil, errors.New("--clients has no meaning without --rate")
	case o.flags.Changed("rate"):
		s, err = s.WithRate(o.rate, o.clients)
	case o.flags.Changed("users"):
		s, err = s.WithUsers(o.users)
	}
	if err != nil {
		return nil, err
	}
	if o.flags.Changed("duration") {
		if o.duration < 0 {
			return nil, &store.ValidationError{Field: "duration", Value: o.duration.String(), Reason: "give from 1ms to 24h"}
		}
		s = s.Scaled(o.duration)
	}
	if o.flags.Changed("warm-up") {
		s.WarmUp = o.warmUp
	}
	if o.flags.Changed("limiters") {
		s.Limiters = o.limiters
	}
	if o.flags.Changed("seed") {
		s.Seed = o.seed
	}
	if o.flags.Changed("side") {
		s.Sides = nil
		for _, side := range o.sides {
			s.Sides = append(s.Sides, scenario.Side(side))
		}
	}
	return s, s.Validate()
}

// named gives a wrong option its name on the command line.
func named(err error) error {
	wrong, ok := errors.AsType[*store.ValidationError](err)
	if !ok {
		return err
	}
	flag := strings.ReplaceAll(wrong.Field, " ", "-")
	if flag == "efficiency" {
		flag = "threshold"
	}
	return fmt.Errorf("invalid --%s %q: %s", flag, wrong.Value, wrong.Reason)
}

// Run measures, and shows its measurements even if it was interrupted.
func (o *runner) Run(ctx context.Context) error {
	question, err := o.question()
	if err != nil {
		return err
	}
	if err := o.target.open(ctx, question, &o.load); err != nil {
		return err
	}
	view := viewOf(o.app, o.load.Scenario)
	o.load.Observe = view.show
	r, err := load.Run(ctx, o.load)
	view.clear()
	if r == nil {
		return err
	}
	return errors.Join(err, o.app.Print(r, func(w *strings.Builder) { text(w, r) }), verdict(r))
}

// question asks for the run, and says what it will cost.
func (o *runner) question() (string, error) {
	if !o.target.asks() {
		return "", nil
	}
	price, dollars, err := priceOf(o.load.Scenario)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s would put a load on %s, table %s, for %v. It costs about $%.2f at the prices of %s: %.0f write units and %.0f read units. Run it?",
		o.load.Scenario.Name, o.target.name(), o.app.Flags.Table, o.load.Scenario.Duration(), dollars, load.DefaultRegion,
		price.Sum.Writes, price.Sum.Reads), nil
}

// verdict says what is wrong with a result, nil if nothing is.
func verdict(r *result.Result) error {
	var errs []error
	for i := range r.Sides {
		s := &r.Sides[i]
		if s.Wrong != nil && s.Wrong.Answers() > 0 {
			errs = append(errs, fmt.Errorf("side %s: %d tokens were admitted beyond the limits, and %d requests were refused although the bucket covered them",
				s.Name, s.Wrong.Beyond, s.Wrong.Refusals))
		}
		if s.Balance != nil && s.Balance.Wrong > 0 {
			errs = append(errs, fmt.Errorf("side %s: %d counters of the table differ from the books, first %s", s.Name, s.Balance.Wrong, s.Balance.FirstWrong))
		}
	}
	if r.Unreliable != "" {
		errs = append(errs, errors.New("the figures are not reliable: "+r.Unreliable))
	}
	return errors.Join(errs...)
}
