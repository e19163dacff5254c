package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/compare"
)

// comparer is the command compare.
type comparer struct {
	app       *app.App
	files     []string
	threshold app.Share
}

const aboutCompare = `Compare two results of one scenario: A is the older, B the newer. Each figure has the
ratio of B to A, and a p-value: the probability that equal runs differ as much by
chance. It comes from the Mann-Whitney test of golang.org/x/perf, as in benchstat, of
batches of seconds.

  worse      a regression: the ratio is beyond the threshold, to the worse side, and p is
             below 0.01
  better     the same, to the better side
  same       the ratio is within the threshold
  unclear    the ratio is beyond the threshold, but p is not below 0.01: longer runs tell
             chance from change
  differs    beyond the threshold, and p is below 0.01; for refusals and the generator's
             lag no side is better
  too short  the phase has less than 8 samples, of a second each, or its samples lack the
             class
  too few    there are too few operations for this figure

Wrong answers that appear are a regression, too. docs/load-testing.md has the method.

The exit code is 0 without a regression. It is 1 with one, if no figure is judged, and if
the results cannot be compared. Nothing is sent.`

// NewCompare is the command loadtest compare.
func NewCompare(a *app.App) *cobra.Command {
	o := &comparer{app: a, threshold: compare.DefaultThreshold}
	cmd := a.Command(o, &cobra.Command{
		Use:   "compare A.json B.json",
		Short: "Compare two results, and tell change from chance",
		Long:  aboutCompare,
		Example: "  zae-limiter loadtest compare main.json branch.json\n" +
			"  zae-limiter loadtest compare main.json branch.json --threshold 10% --output json",
	}, &o.files)
	cmd.Flags().Var(&o.threshold, "threshold", "how far from 1 a ratio must be to be a change: 5% or 0.05")
	return a.Prints(cmd, &compare.Comparison{})
}

// Validate checks the threshold and the names.
func (o *comparer) Validate() error {
	switch {
	case o.threshold == 0:
		return errors.New("invalid --threshold 0: give more than nothing, 5% for instance")
	case o.files[0] == standardInput && o.files[1] == standardInput:
		return errors.New("standard input (-) is given twice: name it once")
	}
	return nil
}

// Run compares, and ends with an error if there is a regression or no judgement.
func (o *comparer) Run(context.Context) error {
	a, err := readResult(o.app, o.files[0])
	if err != nil {
		return err
	}
	b, err := readResult(o.app, o.files[1])
	if err != nil {
		return err
	}
	c, err := compare.Compare(a, b, compare.Options{Threshold: float64(o.threshold)})
	if err != nil {
		return err
	}
	if err := o.app.Print(c, func(w *strings.Builder) { o.text(w, c) }); err != nil {
		return err
	}
	if c.Verdict != compare.NoRegression {
		return app.ErrShown
	}
	return nil
}

// text writes the comparison for people.
func (o *comparer) text(w *strings.Builder, c *compare.Comparison) {
	of := func(name string, r compare.Run) string {
		version := r.Version
		if version != "" {
			version += ", "
		}
		return fmt.Sprintf("%s (%sstarted %s)", name, version, r.Started.UTC().Format(time.RFC3339))
	}
	app.Fields(w, "Scenario", c.Scenario, "A", of(o.files[0], c.A), "B", of(o.files[1], c.B))
	w.WriteByte('\n')
	header, rows := c.Table()
	app.Table(w, header, rows)
	w.WriteByte('\n')
	for _, warning := range c.Warnings {
		w.WriteString("Warning: " + warning + "\n")
	}
	unclear := 0
	for i := range c.Rows {
		if c.Rows[i].Change == compare.Unclear {
			unclear++
		}
	}
	if unclear > 0 {
		fmt.Fprintf(w, "Unclear: %d of %d figures. Longer runs tell chance from change.\n", unclear, len(c.Rows))
	}
	for _, regression := range c.Regressions {
		w.WriteString("Regression: " + regression + "\n")
	}
	switch c.Verdict {
	case compare.NoRegression:
		fmt.Fprintf(w, "No regression beyond %s.\n", &o.threshold)
	case compare.Undecided:
		w.WriteString("Undecided: no figure can be judged.\n")
	case compare.Regression: // its sentences are above
	}
}
