package limits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
)

type applyOptions struct {
	file
	confirm *app.Confirmation
	prune   bool
}

func newApply(a *app.App) *cobra.Command {
	o := &applyOptions{file: file{app: a}}
	cmd := a.Command(o, &cobra.Command{
		Use: "apply", Short: "Make the limits of a namespace as a manifest declares them",
		Long: "Make the limits of a namespace as a manifest declares them. The command shows the plan,\n" +
			"and asks before it changes anything. After an interruption, the next apply completes it.",
		Example: "  zae-limiter limits apply -f limits.yaml\n  zae-limiter limits apply -f limits.yaml --prune --yes",
	})
	o.bind(cmd)
	bindPrune(cmd, &o.prune)
	o.confirm = a.Confirmation(cmd)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, resultView{})
}

// Validate checks the flags.
func (o *applyOptions) Validate() error {
	if err := o.file.Validate(); err != nil {
		return err
	}
	if err := o.confirm.Validate(); err != nil {
		return err
	}
	if o.path == "-" && !o.confirm.Given() {
		return errors.New("--file - takes standard input, which then cannot answer the question: give --yes")
	}
	return nil
}

// Run plans, asks and applies.
func (o *applyOptions) Run(ctx context.Context) error {
	of, m, err := o.open(ctx)
	if err != nil {
		return err
	}
	p, err := m.Plan(ctx, of, o.prune)
	if err != nil {
		return err
	}
	v := viewOf(p, o.app.Clock())
	if err := o.show(&v); err != nil {
		return err
	}
	o.app.WarnUnconfigured(p.Unconfigured, mend)
	if v.Counts.Create+v.Counts.Update+v.Counts.Delete > 0 {
		if err := o.confirm.Ask(ctx, "Apply these changes?"); err != nil {
			return err
		}
	}
	r, err := m.Apply(ctx, of, manifest.ApplyOptions{Prune: o.prune, Expected: p, Progress: o.progress})
	if r == nil {
		return err
	}
	applied := resultOf(r, o.app.Clock())
	applied.Unconfigured = app.UnconfiguredOf(r.Unconfigured)
	return errors.Join(o.app.Print(applied, func(w *strings.Builder) { applied.text(w) }), err, errIncomplete(len(r.Failures()), len(r.Outcomes)))
}

// show writes the plan, unless the result is to be JSON.
func (o *applyOptions) show(v *planView) error {
	if o.app.Flags.JSON() {
		return nil
	}
	var b strings.Builder
	v.text(&b)
	if _, err := io.WriteString(o.app.Stdout, b.String()); err != nil {
		return fmt.Errorf("show the plan: %w", err)
	}
	return nil
}

// progress tells a person how far a long apply has come.
func (o *applyOptions) progress(done, all int) {
	if o.app.Terminal && done < all {
		o.app.Notef("%d of %d levels", done, all)
	}
}

// resultView is the result of an apply or an import in JSON.
type resultView struct {
	Manifest  string       `json:"manifest"` // name of the manifest
	Namespace string       `json:"namespace"`
	Counts    counts       `json:"counts"`   // of what was done
	Failures  []changeView `json:"failures"` // the changes that failed

	Unconfigured []app.Unconfigured `json:"unconfigured,omitempty"` // limits that do not hold since the apply, because another level holds
}

func resultOf(r *manifest.Result, now time.Time) resultView {
	v := resultView{Manifest: r.Name, Namespace: r.Namespace, Counts: countsOf(r.Count), Failures: []changeView{}}
	for _, o := range r.Failures() {
		c := changeOf(&o.Change, now)
		c.Message = o.Err.Error()
		v.Failures = append(v.Failures, c)
	}
	return v
}

func (v *resultView) text(w *strings.Builder) {
	fmt.Fprintf(w, "applied: %d created, %d updated, %d deleted", v.Counts.Create, v.Counts.Update, v.Counts.Delete)
	if v.Counts.Adopt > 0 {
		fmt.Fprintf(w, ", %d adopted", v.Counts.Adopt)
	}
	w.WriteByte('\n')
	v.failures(w)
}

func (v *resultView) failures(w *strings.Builder) {
	for _, f := range v.Failures {
		fmt.Fprintf(w, "failed: %s %s: %s\n", f.Action, f.levelRow, f.Message)
	}
}
