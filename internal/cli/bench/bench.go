// Package bench has the command that measures a limiter.
package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/cli/connect"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/store"
)

type options struct {
	app    *app.App
	load   loadtest.Options
	limits app.LimitsFlag
	engine app.EngineFlags
	yes    bool

	flags *pflag.FlagSet
}

const about = `Measure how fast a limiter decides, what its decisions cost, and whether they are right.

Scenarios:
  warm     acquire from known buckets, one client
  cascade  acquire from entities and their parents, one client
  refused  acquire from exhausted buckets, one client
  hot      64 clients, one entity
  spread   64 clients, 1,000 entities
  llm      64 clients, 64 entities, 8 models: reserve requests and tokens, settle
           to the tokens used
  attack   GHSA-76rv-2r9v-c5m6: one entity at 5,000 requests per second beside 20
           neighbours at 10 each. Three systems run, each with the neighbours alone
           and then with all: bare items, one for each entity; the limiter; and one
           limiter that the entity shares with its neighbours, as in one process

Latency counts from the instant an operation was due, so it includes the wait of
operations behind a stalled store. Dollars are on-demand prices of us-east-1 (0.625
per million WCU, 0.125 per million RCU). The entitlement is what the buckets could
admit from their first use to their last, or the demand if that is less.

The command creates the table if it does not exist; for attack it also creates
NAME-bare. It leaves its tables in place and deletes its namespace at the end, keeping
only that namespace's audit events and two small records. A load on DynamoDB itself, or
on any other machine, costs money and capacity: it needs --yes.`

// New is the command bench.
func New(a *app.App) *cobra.Command {
	o := &options{app: a}
	cmd := &cobra.Command{
		Use:   "bench SCENARIO",
		Short: "Measure a limiter: speed, cost and correctness",
		Long:  about,
		Example: "  zae-limiter bench hot --local :memory: --latency 5ms --raw\n" +
			"  zae-limiter bench attack --local :memory:\n" +
			"  zae-limiter bench spread --endpoint-url http://localhost:8000 --rate 500 --output json",
		Args: app.Args("SCENARIO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.load.Scenario = loadtest.Scenario(args[0])
			return a.Run(cmd.Context(), o)
		},
	}
	o.flags = cmd.Flags()
	o.flags.DurationVar(&o.load.Duration, "duration", 10*time.Second, "length of the measurement; for attack, of each of six phases")
	o.flags.DurationVar(&o.load.WarmUp, "warm-up", time.Second, "how long the load runs before the measurement")
	o.flags.Int64Var(&o.load.Rate, "rate", 0, "`operations` due per second; for attack, the attacker's\n(default: each client sends its next request when it has its\nanswer; attack 5000)")
	o.flags.IntVar(&o.load.Clients, "clients", 0, "`number` of concurrent operations (default 1 or 64, as listed\nabove; attack 256)")
	o.flags.IntVar(&o.load.Limiters, "limiters", 1, "`number` of limiters that the clients share, each with its\nown memory, as in that many processes")
	o.flags.IntVar(&o.load.Entities, "entities", 0, "`number` of entities, for attack of neighbours (default as\nlisted above; warm, cascade and refused 256)")
	o.flags.Uint64Var(&o.load.Seed, "seed", 1, "`number` that seeds the random choice of requests")
	o.flags.BoolVar(&o.load.Raw, "raw", false, "repeat the load as bare conditional UpdateItems, to compare")
	o.flags.BoolVar(&o.yes, "yes", false, "allow the load on another machine")
	o.limits.Bind(cmd)
	o.engine.Bind(o.flags, "off; attack aws", "off; attack 5ms")
	return cmd
}

// attackLatency is the latency of an embedded engine. Without latency, no request is in
// flight long enough for others to wait.
const attackLatency = 5 * time.Millisecond

// Validate checks the command line.
func (o *options) Validate() error {
	f := &o.app.Flags
	if _, ok := f.Given("namespace"); ok {
		return errors.New("--namespace has no meaning here: bench makes one of its own")
	}
	for _, name := range []string{"duration", "clients", "limiters", "entities"} {
		if flag := o.flags.Lookup(name); flag.Changed && strings.Trim(flag.Value.String(), "0s") == "" {
			return fmt.Errorf("invalid --%s %q: give more than nothing", name, flag.Value)
		}
	}
	local := f.Local != ""
	for _, name := range []string{"partition-limits", "latency"} {
		if o.flags.Changed(name) && !local {
			return fmt.Errorf("--%s has no meaning without --local: it configures an engine in this process", name)
		}
	}
	if o.load.Scenario == loadtest.Attack {
		if !o.flags.Changed("partition-limits") {
			o.engine.Limits = dynamolite.AWSLimits()
		}
		if !o.flags.Changed("latency") {
			o.engine.Latency = dynamolite.Latency{P50: attackLatency}
		}
	}
	o.load.Table, o.load.Limits = f.Table, o.limits.Limits
	if err := o.load.Validate(); err != nil {
		return named(err)
	}
	if !local && !o.yes && !connect.IsLoopback(o.endpoint()) {
		return fmt.Errorf("this would put a load on %s: give --local %s for an engine in this process, "+
			"--endpoint-url for one on this machine, or --yes", o.target(), app.Memory)
	}
	return nil
}

// named gives a wrong option its name on the command line.
func named(err error) error {
	wrong, ok := errors.AsType[*store.ValidationError](err)
	switch {
	case !ok || wrong.Field == "scenario":
		return err
	case wrong.Field == "limit":
		return fmt.Errorf("invalid --limit: %s", wrong.Reason)
	}
	return fmt.Errorf("invalid --%s %q: %s", wrong.Field, wrong.Value, wrong.Reason)
}

// endpoint is the URL that the connection will use, as far as the command line and the
// environment tell. "" is AWS, or the endpoint in an SDK file.
func (o *options) endpoint() string {
	if o.app.Flags.EndpointURL != "" {
		return o.app.Flags.EndpointURL
	}
	if strings.EqualFold(o.app.Getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), "true") {
		return ""
	}
	for _, name := range []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"} {
		if url := o.app.Getenv(name); url != "" {
			return url
		}
	}
	return ""
}

// target is the endpoint in a message.
func (o *options) target() string {
	if url := o.endpoint(); url != "" {
		return url
	}
	return "DynamoDB at AWS"
}

// Run measures, and shows its measurements even if it was interrupted.
func (o *options) Run(ctx context.Context) error {
	api, err := o.api(ctx)
	if err != nil {
		return err
	}
	o.load.API, o.load.Logger = api, o.app.Logger()
	o.load.Keep = o.app.Flags.Local == app.Memory // the database ends with the program
	bar := app.NewBar(o.app.Stderr, "measuring")
	if bar != nil {
		o.load.Progress = func(done, planned time.Duration) { bar.Show(done.Milliseconds(), planned.Milliseconds()) }
	}
	result, err := loadtest.Run(ctx, o.load)
	bar.Clear()
	if result == nil {
		return err
	}
	return errors.Join(err, o.app.Print(result, func(w *strings.Builder) { text(w, result) }))
}

func (o *options) api(ctx context.Context) (dynamo.API, error) {
	if o.app.Flags.Local != "" {
		return o.app.Engine(dynamolite.Options{Limits: o.engine.Limits, Latency: o.engine.Latency})
	}
	return o.app.API(ctx)
}

func text(w *strings.Builder, r *loadtest.Result) {
	header, rows := r.Table()
	app.Table(w, header, rows)
	w.WriteByte('\n')
	pace := "closed loop"
	if r.Rate > 0 {
		pace = fmt.Sprintf("%d operations due per second", r.Rate)
	}
	app.Fields(w,
		"Load", fmt.Sprintf("%s, %d clients, %d limiters, %d entities, seed %d", pace, r.Clients, r.Limiters, r.Entities, r.Seed),
		"Spent", fmt.Sprintf("%.0f round trips, %.0f WCU, %.1f RCU: $%.4f", r.Spent.RoundTrips, r.Spent.WCU, r.Spent.RCU, r.Spent.Dollars()))
	for _, e := range r.FirstErrors() {
		w.WriteString("First error of " + e + "\n")
	}
	if r.Interrupted {
		w.WriteString("Interrupted: these are the measurements so far.\n")
	}
}
