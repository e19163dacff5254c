package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	load "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/search"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// tuner is the command tune.
type tuner struct {
	app    *app.App
	source source
	target target
	search search.TuneOptions
	load   load.Options
	plain  *scenario.Scenario

	flags *pflag.FlagSet
}

const aboutTune = `Find how many users one process carries. The efficiency of a number of users is the median
latency of one user alone, divided by that of the many. The search finds the highest number
whose efficiency is at least --threshold. One class of the scenario makes the load
(--class); its arrival is replaced by users, who think as the scenario says.

Run it on a machine like those of the workers. The result says how many of them a load of
100, 500 and 1,000 users needs.`

func newTune(a *app.App) *cobra.Command {
	o := &tuner{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:     "tune [SCENARIO]",
		Short:   "Find how many users one process carries",
		Long:    aboutTune,
		Example: "  zae-limiter loadtest tune spread --endpoint-url http://localhost:8000 --max-users 100",
		Args:    o.source.args,
	})
	o.source.bindOne(cmd)
	o.flags = cmd.Flags()
	bindTune(o.flags, &o.search)
	o.target.bind(a, cmd, "off")
	return a.Prints(cmd, &search.TuneResult{})
}

// bindTune adds the flags of a search.
func bindTune(flags *pflag.FlagSet, o *search.TuneOptions) {
	flags.IntVar(&o.MaxUsers, "max-users", 40, "highest `number` of users tried")
	flags.Float64Var(&o.Efficiency, "threshold", 0.8, "lowest `efficiency` accepted, up to 1")
	flags.DurationVar(&o.Step, "step-duration", 30*time.Second, "how long each number of users is measured")
	flags.DurationVar(&o.Baseline, "baseline-duration", time.Minute, "how long one user alone is measured; longer, up to 10 min, if\nthat gives fewer than 100 operations")
}

// checkTune checks the flags of a search.
func checkTune(flags *pflag.FlagSet, o *search.TuneOptions) error {
	if err := positive(flags, "max-users", "threshold", "step-duration", "baseline-duration"); err != nil {
		return err
	}
	dry := *o
	dry.Run = func(context.Context, int, time.Duration) (search.Step, error) { return search.Step{}, errNotYet }
	if _, err := search.Tune(context.Background(), dry); !errors.Is(err, errNotYet) {
		return named(err)
	}
	return nil
}

// Validate checks the command line and the scenario.
func (o *tuner) Validate() error {
	if err := checkTune(o.flags, &o.search); err != nil {
		return err
	}
	s, err := o.source.read()
	if err != nil {
		return err
	}
	o.plain = s
	if len(s.Classes) > 1 {
		return several(s)
	}
	if _, err := o.with(o.search.MaxUsers, o.search.Step); err != nil {
		wrong, ok := errors.AsType[*store.ValidationError](err)
		if ok && wrong.Field == "users" {
			wrong.Field = "max users"
		}
		return named(err)
	}
	return o.target.validate()
}

// with is the scenario with a number of users.
func (o *tuner) with(users int, lasting time.Duration) (*scenario.Scenario, error) {
	s, err := o.plain.WithUsers(users)
	if err != nil {
		return nil, err
	}
	s.Sides, s.Limiters = s.Sides[:1], 1
	s = s.Scaled(lasting)
	return s, s.Validate()
}

// question asks for the search, and says what its largest measurement costs.
func (o *tuner) question() (string, error) {
	if !o.target.asks() {
		return "", nil
	}
	largest, err := o.with(o.search.MaxUsers, o.search.Step)
	if err != nil {
		return "", err
	}
	_, dollars, err := priceOf(largest)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s would run with up to %d users on %s, table %s. A measurement of so many costs about $%.2f at the prices of %s; the search needs some, of fewer users each. Run it?",
		o.plain.Name, o.search.MaxUsers, o.target.name(), o.app.Flags.Table, dollars, load.DefaultRegion), nil
}

// Run searches, and shows what it has found even if it was interrupted.
func (o *tuner) Run(ctx context.Context) error {
	question, err := o.question()
	if err != nil {
		return err
	}
	if err := o.target.open(ctx, question, &o.load); err != nil {
		return err
	}
	o.search.Run = func(ctx context.Context, users int, lasting time.Duration) (search.Step, error) {
		s, err := o.with(users, lasting)
		if err != nil {
			return search.Step{}, err
		}
		with := o.load
		with.Scenario = s
		r, err := load.Run(ctx, with)
		if err != nil {
			return search.Step{}, err
		}
		return search.StepOf(users, r), nil
	}
	o.search.Tell = tellStep(o.app, "p50")
	found, err := search.Tune(ctx, o.search)
	if found == nil || len(found.Steps) == 0 {
		return err
	}
	return errors.Join(err, o.app.Print(found, func(w *strings.Builder) { tuneText(w, "process", found) }))
}

// tellStep tells each step of a search, with the latency that its efficiency compares.
func tellStep(a *app.App, latency string) func(search.Step) {
	return func(s search.Step) {
		tell(a, fmt.Sprintf("%d users: %.0f/s, %s %s, efficiency %.2f", s.Users, s.PerSecond, latency, took(float64(s.Latency)), s.Efficiency))
	}
}

// tuneText shows a search for the users of a process or a worker.
func tuneText(w *strings.Builder, of string, r *search.TuneResult) {
	var rows [][]string
	for i, s := range r.Steps {
		mark := ""
		switch {
		case i == 0:
			mark = "(baseline)"
		case s.Users == r.Users:
			mark = "<- highest"
		}
		rows = append(rows, []string{
			limitarg.Grouped(s.Users), count(s.PerSecond), took(float64(s.P50)), took(float64(s.P95)), took(float64(s.P99)),
			limitarg.Grouped(s.Operations), fmt.Sprintf("%.2f", s.Efficiency), mark,
		})
	}
	app.Table(w, []string{"USERS", "DONE/S", "P50", "P95", "P99", "OPERATIONS", "EFFICIENCY", "NOTE"}, rows)
	w.WriteByte('\n')
	pairs := []string{"Users of a " + of, limitarg.Grouped(r.Users), "Operations of a " + of, count(r.PerSecond) + " per second"}
	for _, users := range []int{100, 500, 1000} {
		if r.Users > 0 {
			pairs = append(pairs, fmt.Sprintf("%s for %d users", many[of], users), count(math.Ceil(float64(users)/float64(r.Users))))
		}
	}
	app.Fields(w, pairs...)
}

// many is the plural at the begin of a line.
var many = map[string]string{"process": "Processes", "worker": "Workers"}
