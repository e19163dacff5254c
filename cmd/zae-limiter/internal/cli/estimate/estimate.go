// Package estimate has the command that prices a load.
package estimate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

type options struct {
	app    *app.App
	load   estimate.Load
	rate   rate
	prices string // file

	file, name string // of the scenario
	duration   time.Duration
	cold       bool
	plan       *scenario.Plan     // nil without a scenario
	estimate   *estimate.Estimate // nil with one

	flags *pflag.FlagSet
}

const about = `Work out what a load on a limiter costs: capacity units a second, and a month's bill on
demand and on provisioned capacity. The load is described by flags, or by a scenario of
loadtest: then the command also says what a run of the scenario costs.

A scenario is carried out in virtual time, with limiters on the embedded engine. Several
effects at once are right there. Flags describe one effect at a time.

Tests hold the units of a scenario within 2 % of what the engine bills, and those of flags
within 5 %. A scenario of many operations is carried out in less time, and multiplied: that is
less exact if its users pause for long.
Storage, function time and logs rest on assumptions that docs/cost.md names. Prices are a
dated table, without free tiers; --prices replaces it. Nothing is sent.`

// New is the command estimate.
func New(a *app.App) *cobra.Command {
	o := &options{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "estimate",
		Short: "Work out what a load costs",
		Long:  about,
		Example: "  zae-limiter estimate --rate 1000/s --limits 2 --cascade 0.5 --refused 0.1 \\\n" +
			"    --processes 20 --aggregator\n" +
			"  zae-limiter estimate --scenario llm-gateway --latency 3ms --aggregator\n" +
			"  zae-limiter estimate --file load.yaml --duration 10m",
	})
	o.bind(cmd.Flags())
	return a.Prints(cmd, output{}, &runOutput{})
}

func (o *options) bind(f *pflag.FlagSet) {
	l := &o.load
	o.flags = f
	f.Var(&o.rate, "rate", "requests of all processes together: 1000/s, 60000/min, 5000000/day\n(required without a scenario)")
	f.StringVar(&o.name, "scenario", "", "`name` of a scenario of the program")
	f.Var(app.Named(&o.file), "file", "`file` with a scenario; - reads standard input")
	f.DurationVar(&o.duration, "duration", 0, "run the scenario in this time, with the same shape (default its own)")
	f.BoolVar(&o.cold, "cold", false, "a run of the scenario does not make the buckets beforehand")
	f.IntVar(&l.Processes, "processes", 1, "`number` of processes that use each bucket")
	f.IntVar(&l.Buckets, "buckets", 1000, "`number` of buckets in use: entities times resources")
	f.Float64Var(&l.Hot, "hot", 0, "`share` of the requests to the busiest bucket (default 1/buckets)")
	f.Float64Var(&l.Cascade, "cascade", 0, "`share` of the requests that cascade to a parent")
	f.IntVar(&l.Parents, "parents", 0, "`number` of parents' buckets (default a tenth of the buckets)")
	f.Float64Var(&l.Refused, "refused", 0, "`share` of the requests that are refused")
	f.Float64Var(&l.RefusedOf, "refused-of", 0, "`share` that is refused of the requests to buckets that refuse any\n(default 0.5)")
	f.Float64Var(&l.Used, "used", 0, "`share` of its limits that any other bucket uses (default 0.1)")
	f.Float64Var(&l.Adjusted, "adjusted", 0, "`share` of the admitted requests whose commit adjusts")
	f.IntVar(&l.Limits, "limits", 2, "`number` of limits of a bucket")
	f.IntVar(&l.ItemBytes, "item-bytes", 0, "size of a bucket item in `bytes` (default by the number of limits,\nwith short names)")
	f.Float64Var(&l.NewBuckets, "new-buckets", 0, "`number` of buckets used for the first time, a second")
	f.DurationVar(&l.Latency, "latency", 5*time.Millisecond, "time that a request takes; callers of one process share writes, and\nusers of a scenario wait for its end")
	f.DurationVar(&l.ConfigTTL, "config-ttl", time.Minute, "the limiter's ConfigTTL")
	f.BoolVar(&l.Aggregator, "aggregator", false, "an aggregator reads the table's stream")
	f.DurationVar(&l.Retention, "usage-ttl", 90*24*time.Hour, "how long usage is kept")
	f.DurationVar(&l.Function.BatchWindow, "batch-window", 5*time.Second, "how long a call of the aggregator waits for its records")
	f.IntVar(&l.Function.BatchRecords, "batch-records", 100, "`number` of records of a call at most")
	f.IntVar(&l.Function.Memory, "function-memory", 256, "memory of the aggregator's function in `MB`")
	f.DurationVar(&l.Function.Duration, "function-duration", 100*time.Millisecond, "how long a call takes")
	f.Var(app.Named(&o.prices), "prices", "`file` with a table of prices, as cmd/zae-limiter/internal/estimate/prices.yaml (default the\nbuilt-in table, which has us-east-1)")
}

// rate is the value of a flag that takes requests a time.
type rate float64

// String is empty: there is no default.
func (*rate) String() string { return "" }

func (r *rate) Set(text string) error {
	number, unit, _ := strings.Cut(text, "/")
	per, ok := map[string]time.Duration{
		"": time.Second, "s": time.Second, "sec": time.Second, "min": time.Minute, "h": time.Hour, "hour": time.Hour, "day": 24 * time.Hour,
	}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok {
		return errors.New("give requests a second, minute, hour or day: 1000/s for instance")
	}
	*r = rate(n / per.Seconds())
	return nil
}

// Type is the value's name in help.
func (*rate) Type() string { return "requests/time" }

// Validate checks the command line.
func (o *options) Validate() error {
	if err := o.validateKind(); err != nil {
		return err
	}
	o.load.Rate = float64(o.rate)
	for _, name := range []string{
		"processes", "buckets", "hot", "parents", "refused-of", "used", "limits", "item-bytes", "latency", "config-ttl", "usage-ttl",
		"batch-window", "batch-records", "function-memory", "function-duration",
	} {
		if f := o.flags.Lookup(name); f.Changed && strings.Trim(f.Value.String(), "0s") == "" {
			return fmt.Errorf("invalid --%s %q: give more than nothing", name, f.Value)
		}
	}
	if o.isScenario() {
		return o.read()
	}
	var err error
	o.estimate, err = estimate.New(o.load)
	return named(err)
}

// named gives an error of package estimate the name of the flag.
func named(err error) error {
	wrong, ok := errors.AsType[*store.ValidationError](err)
	if !ok {
		return err
	}
	flag := strings.ReplaceAll(strings.ToLower(wrong.Field), " ", "-")
	switch flag {
	case "retention":
		flag = "usage-ttl"
	case "memory", "duration":
		flag = "function-" + flag
	}
	return fmt.Errorf("invalid --%s %q: %s", flag, wrong.Value, wrong.Reason)
}

// region is the region whose prices count.
func (o *options) region() string {
	return cmp.Or(o.app.Flags.Region, "us-east-1")
}

// output is the estimate in JSON.
type output struct {
	*estimate.Estimate

	Accuracy float64 `json:"accuracy"` // share by which the units may be too low or too high

	Region string           `json:"region"`
	Prices *estimate.Prices `json:"prices"`     // prices of the region
	Month  estimate.Bill    `json:"month_bill"` // bill of a month
}

// Run works out the estimate and shows it.
func (o *options) Run(ctx context.Context) error {
	prices, err := o.table()
	if err != nil {
		return err
	}
	if o.plan != nil {
		return o.runScenario(ctx, prices)
	}
	out := output{o.estimate, estimate.RatesAccuracy, o.region(), prices, o.estimate.Bill(prices)}
	return o.app.Print(out, withAccuracy(out.Accuracy, out.text))
}

// withAccuracy writes an estimate, and how far its units may be off.
func withAccuracy(share float64, text func(*strings.Builder)) func(*strings.Builder) {
	const percent = 100
	return func(w *strings.Builder) {
		text(w)
		fmt.Fprintf(w, "The units may be up to %.0f %% too low or too high.\n", share*percent)
	}
}

func (o *options) table() (*estimate.Prices, error) {
	if o.prices == "" {
		return estimate.BuiltIn(o.region())
	}
	text, err := os.ReadFile(o.prices)
	if err != nil {
		return nil, app.Unread("the prices", err)
	}
	return estimate.ParsePrices(o.prices, text, o.region())
}

// text writes the estimate for people.
func (o *output) text(w *strings.Builder) {
	parts(w, "A SECOND", append(slices.Clone(o.Parts), o.Sum))
	if o.Invocations > 0 {
		app.Fields(w, "Stream records a second", figure(o.Records), "Function calls a second", figure(o.Invocations))
	}
	if o.Shards > 1 {
		app.Fields(w, "Shards of the busiest bucket", strconv.Itoa(o.Shards))
	}
	var rows [][]string
	for _, l := range o.Month.Lines {
		rows = append(rows, []string{l.Name, dollars(l.Dollars), fmt.Sprintf("%.1f %%", l.Dollars/o.Month.OnDemand*100)})
	}
	rows = append(rows,
		[]string{"on demand", dollars(o.Month.OnDemand), "100.0 %"},
		[]string{fmt.Sprintf("provisioned, %.0f %% used", estimate.Utilization*100), dollars(o.Month.Provisioned), fmt.Sprintf("%.1f %%", o.Month.Provisioned/o.Month.OnDemand*100)})
	app.Table(w, []string{"A MONTH", "DOLLARS", "SHARE"}, rows)
	fmt.Fprintf(w, "\nProvisioned capacity costs less above %.0f %% use on average.\n", o.Month.BreakEven*100)
	fmt.Fprintf(w, "Prices of %s, the oldest of %s, without free tiers.\n", o.Region, o.Prices.Oldest())
	for _, a := range o.Month.Advice {
		w.WriteString("- " + a + "\n")
	}
}

// parts writes a table of parts.
func parts(w *strings.Builder, title string, all []estimate.Part) {
	var rows [][]string
	for _, p := range all {
		rows = append(rows, []string{p.Name, figure(p.Requests), figure(p.Writes), figure(p.Reads)})
	}
	app.Table(w, []string{title, "REQUESTS", "WRITE UNITS", "READ UNITS"}, rows)
	w.WriteByte('\n')
}

// figure writes a figure with three digits at least.
func figure(v float64) string {
	const many, digits = 1000, 3
	if v >= many {
		return limitarg.GroupedDecimal(strconv.FormatFloat(v, 'f', 0, 64))
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

func dollars(v float64) string {
	return limitarg.GroupedDecimal(strconv.FormatFloat(v, 'f', 2, 64))
}
