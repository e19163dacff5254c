package estimate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// ofScenario are the flags that a scenario may have besides those that say which one it is.
// The scenario itself says the rest.
var ofScenario = []string{
	"latency", "config-ttl", "aggregator", "usage-ttl", "batch-window", "batch-records", "function-memory", "function-duration", "prices",
	"duration", "cold", "scenario", "file",
}

// maxScenario are the bytes of a scenario's file.
const maxScenario = 1 << 20

func (o *options) isScenario() bool { return o.name != "" || o.file != "" }

// validateKind checks that the flags describe one load.
func (o *options) validateKind() error {
	switch {
	case o.name != "" && o.file != "":
		return errors.New("--scenario and --file were given: give one of them")
	case !o.isScenario() && !o.flags.Changed("rate"):
		return errors.New("missing --rate, 1000/s for instance, --scenario or --file: say which load it is")
	case o.isScenario():
		return o.validateScenario()
	}
	for _, name := range []string{"duration", "cold"} {
		if o.flags.Changed(name) {
			return fmt.Errorf("--%s is of a scenario: give --scenario or --file", name)
		}
	}
	return nil
}

// validateScenario refuses the flags that describe a load without a scenario.
func (o *options) validateScenario() error {
	for _, name := range []string{
		"rate", "processes", "buckets", "hot", "cascade", "parents", "refused", "refused-of", "used", "adjusted", "limits", "item-bytes", "new-buckets",
	} {
		if o.flags.Changed(name) && !slices.Contains(ofScenario, name) {
			return fmt.Errorf("--%s was given with a scenario, which says it itself: leave it out, or change the scenario", name)
		}
	}
	if o.flags.Changed("duration") && o.duration <= 0 {
		return fmt.Errorf("invalid --duration %q: give more than nothing", o.duration)
	}
	return nil
}

// read reads the scenario.
func (o *options) read() error {
	s, err := o.scenario()
	if err != nil {
		return err
	}
	if o.duration > 0 {
		s = s.Scaled(o.duration)
	}
	o.plan, err = s.Plan()
	return err
}

func (o *options) scenario() (*scenario.Scenario, error) {
	if o.name != "" {
		return scenario.Builtin(o.name)
	}
	in, file := o.app.Stdin, "standard input"
	if o.file != "-" {
		f, err := os.Open(o.file)
		if err != nil {
			return nil, fmt.Errorf("open the scenario: %w", err)
		}
		defer func() { _ = f.Close() }()
		in, file = f, o.file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxScenario+1))
	if err != nil {
		return nil, fmt.Errorf("read the scenario: %w", err)
	}
	return scenario.Parse(file, text)
}

// runOutput is the price of a scenario in JSON.
type runOutput struct {
	*estimate.Run

	Accuracy  float64          `json:"accuracy"`   // share by which the units may be too low or too high
	Dollars   float64          `json:"dollars"`    // price of the run on demand, in US dollars
	LatencyMS float64          `json:"latency_ms"` // assumed latency of a request
	Region    string           `json:"region"`
	Prices    *estimate.Prices `json:"prices"`               // prices of the region
	Bill      *estimate.Bill   `json:"month_bill,omitempty"` // bill of a month of the measured load
}

// runScenario works out the price of the scenario and shows it.
func (o *options) runScenario(ctx context.Context, prices *estimate.Prices) error {
	l := &o.load
	r, err := app.Await(ctx, func() (*estimate.Run, error) {
		return estimate.Scenario(o.plan, estimate.ScenarioOptions{
			Latency: l.Latency, Cold: o.cold, ConfigTTL: l.ConfigTTL, Aggregator: l.Aggregator, Retention: l.Retention, Function: l.Function,
		})
	})
	if err != nil {
		return named(err)
	}
	out := &runOutput{Run: r, Accuracy: estimate.Accuracy, Dollars: r.Dollars(prices), LatencyMS: float64(l.Latency.Microseconds()) / 1000, Region: o.region(), Prices: prices}
	if r.Month != nil {
		bill := r.Month.Bill(prices)
		out.Bill = &bill
	}
	return o.app.Print(out, withAccuracy(out.Accuracy, out.text))
}

// text writes the price for people.
func (o *runOutput) text(w *strings.Builder) {
	app.Fields(w,
		"Scenario", o.Scenario,
		"Load", fmt.Sprintf("%s s, requests of %s ms", figure(o.Seconds), figure(o.LatencyMS)),
		"Operations", figure(o.Operations),
		"Refused", figure(o.Refused),
	)
	if o.Shards > 1 {
		app.Fields(w, "Shards of the busiest bucket", strconv.Itoa(o.Shards))
	}
	w.WriteByte('\n')
	var all []estimate.Part
	for _, c := range slices.Concat(o.SetUp, o.Load, []estimate.Cost{o.Sum}) {
		all = append(all, estimate.Part{Name: c.Name, Requests: c.Requests, Writes: c.Writes, Reads: c.Reads})
	}
	parts(w, "THE RUN", all)
	fmt.Fprintf(w, "The run costs $%s on demand.\n", cents(o.Dollars))
	if o.Simulated < 1 {
		const percent = 100
		fmt.Fprintf(w, "It was worked out in %s %% of the time, with the same shape, and multiplied.\n", figure(o.Simulated*percent))
	}
	if o.Month == nil {
		fmt.Fprintf(w, "Prices of %s, the oldest of %s, without free tiers.\n", o.Region, o.Prices.Oldest())
		return
	}
	w.WriteString("\nA month of the measured load, without set-up and new buckets:\n\n")
	(&output{o.Month, o.Accuracy, o.Region, o.Prices, *o.Bill}).text(w)
}

// cents are dollars with as many digits as a small sum needs.
func cents(v float64) string {
	const small, digits = 1, 2
	if v >= small || v == 0 {
		return dollars(v)
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}
