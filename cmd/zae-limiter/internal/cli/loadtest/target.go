package loadtest

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	load "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A target is the DynamoDB that a load is put on.
type target struct {
	app     *app.App
	flags   *pflag.FlagSet
	engine  app.EngineFlags
	confirm *app.Confirmation
}

// bind adds the flags to a command. limits is the default of --partition-limits in help.
func (t *target) bind(a *app.App, cmd *cobra.Command, limits string) {
	t.app, t.flags = a, cmd.Flags()
	t.confirm = a.Confirmation(cmd)
	t.engine.Bind(t.flags, limits, "off")
}

// limited gives an engine in this process the partition limits of DynamoDB, unless the command
// line says otherwise.
func (t *target) limited() {
	if !t.flags.Changed("partition-limits") {
		t.engine.Limits = dynamolite.AWSLimits()
	}
}

// validate checks the flags. A load on another machine must be confirmed.
func (t *target) validate() error {
	f := &t.app.Flags
	for _, name := range []string{"partition-limits", "latency"} {
		if t.flags.Changed(name) && f.Local == "" {
			return fmt.Errorf("--%s has no meaning without --local: it configures an engine in this process", name)
		}
	}
	if !t.isNear() && !t.confirm.Given() && (!t.app.Terminal || f.JSON()) {
		return fmt.Errorf("this would put a load on %s: give --local %s for an engine in this process, "+
			"--endpoint-url for one on this machine, or --yes", t.name(), app.Memory)
	}
	return nil
}

// open asks if the load goes to another machine, and connects.
func (t *target) open(ctx context.Context, question string, o *load.Options) (err error) {
	if !t.isNear() {
		if err := t.confirm.Ask(ctx, question); err != nil {
			return err
		}
	}
	t.collectLess()
	o.API, err = t.api(ctx)
	o.Table, o.Logger, o.Target = t.app.Flags.Table, t.app.Logger(), t.name()
	o.Keep = o.Keep || t.app.Flags.Local == app.Memory // the database ends with the program
	return err
}

// collectLess lets the heap grow to five times what lives, unless $GOGC says otherwise. An
// engine in this process makes more than half of the garbage of a run and keeps little: at Go's
// default the collector runs 50 times a second, and delays the generator and the limiter. A
// service that asks DynamoDB has no such neighbour.
func (t *target) collectLess() {
	const percent = 400
	if t.app.Flags.Local != "" && t.app.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// asks reports whether the command asks before it puts a load on the target.
func (t *target) asks() bool { return !t.isNear() && !t.confirm.Given() }

// priceOf is the estimate of a run, and its price in dollars in the default region. It takes a
// second at most, because somebody waits for a question.
func priceOf(s *scenario.Scenario) (*estimate.Run, float64, error) {
	plan, err := s.Plan()
	if err != nil {
		return nil, 0, err
	}
	const operations = 5000
	run, err := estimate.Scenario(plan, estimate.ScenarioOptions{MaxOperations: operations})
	if err != nil {
		return nil, 0, err
	}
	prices, err := estimate.BuiltIn(load.DefaultRegion)
	if err != nil {
		return nil, 0, err
	}
	return run, run.Dollars(prices), nil
}

// positive refuses flags that were given as 0.
func positive(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if flag := flags.Lookup(name); flag.Changed && strings.Trim(flag.Value.String(), "0s") == "" {
			return fmt.Errorf("invalid --%s %q: give more than nothing", name, flag.Value)
		}
	}
	return nil
}

// isNear reports whether the load stays on this machine.
func (t *target) isNear() bool {
	return t.app.Flags.Local != "" || app.IsLoopback(t.endpoint())
}

// endpoint is the URL that the connection will use, as far as the command line and the
// environment tell. "" is AWS, or the endpoint in an SDK file.
func (t *target) endpoint() string {
	if t.app.Flags.EndpointURL != "" {
		return t.app.Flags.EndpointURL
	}
	if strings.EqualFold(t.app.Getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), "true") {
		return ""
	}
	for _, name := range []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"} {
		if url := t.app.Getenv(name); url != "" {
			return url
		}
	}
	return ""
}

// name is where the load goes, for people.
func (t *target) name() string {
	switch {
	case t.app.Flags.Local == app.Memory:
		return "the engine in this process"
	case t.app.Flags.Local != "":
		return "the engine in this process, on disk"
	}
	if url := t.endpoint(); url != "" {
		return url
	}
	return "DynamoDB at AWS"
}

func (t *target) api(ctx context.Context) (dynamo.API, error) {
	if t.app.Flags.Local != "" {
		return t.app.Engine(dynamolite.Options{Limits: t.engine.Limits, Latency: t.engine.Latency})
	}
	return t.app.API(ctx)
}
