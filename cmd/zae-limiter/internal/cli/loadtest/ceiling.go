package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	load "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/search"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// ceiling is the command ceiling.
type ceiling struct {
	app     *app.App
	source  source
	target  target
	search  search.CeilingOptions
	step    time.Duration
	warmUp  time.Duration
	clients int
	load    load.Options
	plain   *scenario.Scenario

	flags *pflag.FlagSet
}

const aboutCeiling = `Find the highest rate that keeps a service level: at most one operation of a hundred takes
longer than --p99, at most a share of --errors has no answer, at most a share of --throttled
of the item writes is throttled, and no answer is wrong. One class of the
scenario makes the load (--class); its arrival is replaced by a constant rate.

The rate is doubled, or halved, until one rate keeps the level and another does not. Then
the ceiling between the two is found by bisection. Each rate is measured until it is certain at
95 % confidence whether it keeps the level, up to --repeats times; a rate that stays
uncertain counts as too high. If the generator itself is too late at a rate, the ceiling is
the generator's, and the result says so.`

func newCeiling(a *app.App) *cobra.Command {
	o := &ceiling{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "ceiling [SCENARIO]",
		Short: "Find the highest rate that keeps a service level",
		Long:  aboutCeiling,
		Example: "  zae-limiter loadtest ceiling hot --p99 20ms --local :memory: --latency 5ms\n" +
			"  zae-limiter loadtest ceiling --file mine.yaml --p99 50ms --endpoint-url http://localhost:8000",
		Args: o.source.args,
	})
	o.source.bindOne(cmd)
	o.flags = cmd.Flags()
	o.flags.DurationVar(&o.search.Level.Slow, "p99", 0, "highest 99th percentile of the latency (required)")
	o.flags.Float64Var(&o.search.Level.Errors, "errors", 0.001, "highest `share` of operations without an answer; 0 allows none")
	o.flags.Float64Var(&o.search.Level.Throttled, "throttled", 0.01, "highest `share` of item writes that DynamoDB throttles; they are repeated")
	o.flags.Float64Var(&o.search.From, "from", 100, "first `rate`, in operations per second")
	o.flags.Float64Var(&o.search.To, "to", 100_000, "highest `rate`")
	o.flags.Float64Var(&o.search.Within, "within", 0.05, "how close the search ends, as a `share` of the rate")
	o.flags.IntVar(&o.search.Repeats, "repeats", 3, "`number` of measurements of a rate that is not certain")
	o.flags.DurationVar(&o.step, "step-duration", 10*time.Second, "length of each measurement")
	o.flags.DurationVar(&o.warmUp, "warm-up", time.Second, "how long the load runs before each measurement")
	o.flags.IntVar(&o.clients, "clients", 0, "most concurrent operations (default 256)")
	o.flags.DurationVar(&o.load.MaxLag, "max-lag", load.DefaultMaxLag, "how late the generator itself may be, at the 99th percentile")
	o.target.bind(a, cmd, "off")
	return a.Prints(cmd, &search.CeilingResult{})
}

// leastStep has enough samples for an interval.
const leastStep = 3 * time.Second

// Validate checks the command line and the scenario.
func (o *ceiling) Validate() error {
	if !o.flags.Changed("p99") {
		return app.Required("p99", "20ms")
	}
	if err := positive(o.flags, "p99", "from", "to", "within", "repeats", "step-duration", "clients", "max-lag"); err != nil {
		return err
	}
	if o.step < leastStep {
		return fmt.Errorf("invalid --step-duration %q: give at least %v: one second tells nothing about others", o.step, leastStep)
	}
	s, err := o.source.read()
	if err != nil {
		return err
	}
	o.plain = s
	switch {
	case len(s.Classes) > 1:
		return several(s)
	case o.load.MaxLag < 0:
		return fmt.Errorf("invalid --max-lag %q: give a duration above 0", o.load.MaxLag)
	}
	for flag, rate := range map[string]float64{"from": o.search.From, "to": o.search.To} {
		if err := o.check(flag, rate); err != nil {
			return err
		}
	}
	o.search.Run = func(context.Context, float64) (*result.Result, error) { return nil, errNotYet }
	if _, err := search.Ceiling(context.Background(), o.search); !errors.Is(err, errNotYet) {
		return named(err)
	}
	return o.target.validate()
}

// check checks the scenario with the rate of a flag.
func (o *ceiling) check(flag string, rate float64) error {
	_, err := o.at(rate)
	if wrong, ok := errors.AsType[*store.ValidationError](err); ok && wrong.Field == "rate" {
		return fmt.Errorf("invalid --%s %q: %s", flag, wrong.Value, wrong.Reason)
	}
	return named(err)
}

// several says that a scenario has more classes than the command can load with.
func several(s *scenario.Scenario) error {
	var names []string
	for i := range s.Classes {
		names = append(names, s.Classes[i].Name)
	}
	return fmt.Errorf("missing --class: scenario %s has several: give one of %s", s.Name, strings.Join(names, ", "))
}

// errNotYet ends a search that only checks its options.
var errNotYet = errors.New("nothing is measured yet")

// at is the scenario with a rate.
func (o *ceiling) at(rate float64) (*scenario.Scenario, error) {
	s, err := o.plain.WithRate(rate, o.clients)
	if err != nil {
		return nil, err
	}
	s.Sides = s.Sides[:1]
	s = s.Scaled(o.step)
	s.WarmUp = o.warmUp
	return s, s.Validate()
}

// question asks for the search, and says what it costs at most. The rates up to the highest
// are doubled, so together they cost twice as much as that; each bisection costs at most as
// much again.
func (o *ceiling) question() (string, error) {
	if !o.target.asks() {
		return "", nil
	}
	first, err := o.at(o.search.From)
	if err != nil {
		return "", err
	}
	_, dollars, err := priceOf(first)
	if err != nil {
		return "", err
	}
	highest := dollars * o.search.To / o.search.From
	most := highest * (2 + math.Ceil(math.Log2(1/o.search.Within))) * float64(o.search.Repeats)
	return fmt.Sprintf("%s would run at up to %v operations per second on %s, table %s. A measurement of that rate costs about $%.2f at the prices of %s, the search at most about $%.2f. Run it?",
		o.plain.Name, o.search.To, o.target.name(), o.app.Flags.Table, highest, load.DefaultRegion, most), nil
}

// Run searches, and shows what it has found even if it was interrupted.
func (o *ceiling) Run(ctx context.Context) error {
	question, err := o.question()
	if err != nil {
		return err
	}
	if err := o.target.open(ctx, question, &o.load); err != nil {
		return err
	}
	o.load.Slow = o.search.Level.Slow
	o.search.Run = func(ctx context.Context, rate float64) (*result.Result, error) {
		s, err := o.at(rate)
		if err != nil {
			return nil, err
		}
		with := o.load
		with.Scenario = s
		return load.Run(ctx, with)
	}
	o.search.Tell = func(p search.Probe) { tell(o.app, fmt.Sprintf("%.0f/s: %s %s", p.Rate, p.Verdict, p.Reason)) }
	found, err := search.Ceiling(ctx, o.search)
	if found == nil || len(found.Probes) == 0 {
		return err
	}
	return errors.Join(err, o.app.Print(found, func(w *strings.Builder) { ceilingText(w, found) }))
}

// tell writes a line about the progress.
func tell(a *app.App, line string) { a.Notef("%s", strings.TrimSpace(line)) }

func ceilingText(w *strings.Builder, r *search.CeilingResult) {
	var rows [][]string
	for _, p := range r.Probes {
		rows = append(rows, []string{
			count(p.Rate), string(p.Verdict), strconv.Itoa(p.Runs), count(p.PerSecond), share(p.Slow), share(p.Errors), share(p.Throttled),
		})
	}
	app.Table(w, []string{"RATE", "VERDICT", "RUNS", "DONE/S", "SLOW", "ERRORS", "THROTTLED"}, rows)
	w.WriteByte('\n')
	kept, above := "none", "none"
	if r.Kept > 0 {
		kept = count(r.Kept) + " operations per second"
	}
	if r.Above > 0 {
		above = count(r.Above) + " operations per second"
	}
	app.Fields(w, "Highest rate kept", kept, "Lowest rate not kept", above, "Limited by", r.Limit)
}

// share formats a share with its interval.
func share(i search.Interval) string {
	return fmt.Sprintf("%s (%.2f to %.2f)", percent(i.Is), 100*i.Least, 100*i.Most)
}
