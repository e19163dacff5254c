package limits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
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
	return a.Prints(cmd, manage.Applied{})
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
	v := manage.PlanOf(p, o.app.Clock())
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
	applied := manage.AppliedOf(r, o.app.Clock())
	return errors.Join(o.app.Print(applied, func(w *strings.Builder) { appliedText(w, &applied) }), err, errIncomplete(len(r.Failures()), len(r.Outcomes)))
}

// show writes the plan, unless the result is to be JSON.
func (o *applyOptions) show(v *manage.Plan) error {
	if o.app.Flags.JSON() {
		return nil
	}
	var b strings.Builder
	planText(&b, v)
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

func appliedText(w *strings.Builder, v *manage.Applied) {
	fmt.Fprintf(w, "applied: %d created, %d updated, %d deleted", v.Counts.Create, v.Counts.Update, v.Counts.Delete)
	if v.Counts.Adopt > 0 {
		fmt.Fprintf(w, ", %d adopted", v.Counts.Adopt)
	}
	w.WriteByte('\n')
	failures(w, v)
}

func failures(w *strings.Builder, v *manage.Applied) {
	for _, f := range v.Failures {
		fmt.Fprintf(w, "failed: %s %s: %s\n", f.Action, f.Row(), f.Message)
	}
}
