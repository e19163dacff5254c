package limits

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type planOptions struct {
	file
	past     *past
	prune    bool
	detailed bool
}

// A planView is a plan in JSON, with what its limits would have done.
type planView struct {
	manage.Plan

	Past *pastView `json:"past,omitempty"` // what the limits would have done; absent without --past
}

func newPlan(a *app.App) *cobra.Command {
	o := &planOptions{file: file{app: a}}
	cmd := a.Command(o, &cobra.Command{
		Use: "plan", Short: "Show what an apply of a manifest would change",
		Long: "Show what an apply of a manifest would change. The command reads the levels as they\n" +
			"are now, and writes nothing.\n\n" +
			"With --past, tell whom the limits would have refused: those of the manifest, and those of\n" +
			"the levels that it leaves alone. A log is decided as replay decides it, with the same\n" +
			"formats and flags. Of the table's usage, which has sums by the hour, the answer is a bound:\n" +
			"what was refused for certain, what maybe, and who never. The command says what reading the\n" +
			"usage costs before it begins: about half a read unit for each bucket, and half for every 20\n" +
			"to find them, twice.",
		Example: "  zae-limiter limits plan -f limits.yaml\n  zae-limiter limits plan -f limits.yaml --prune --detailed-exitcode\n" +
			"  zae-limiter limits plan -f limits.yaml --past usage\n" +
			"  zae-limiter limits plan -f limits.yaml --past requests.jsonl --cost rpm=1",
	})
	o.bind(cmd)
	bindPrune(cmd, &o.prune)
	bindDetailed(a, cmd, &o.detailed)
	o.past = newPast(a, cmd)
	return a.Prints(cmd, planView{})
}

// mend says what to do about limits that do not hold.
func mend(limiter.UnconfiguredWarning) string {
	return "; declare them at that level, too, if they are to hold"
}

func bindPrune(cmd *cobra.Command, prune *bool) {
	cmd.Flags().BoolVar(prune, "prune", false, "delete the levels that the manifest owns and no longer declares;\notherwise they stay, and the manifest still owns them")
}

func bindDetailed(a *app.App, cmd *cobra.Command, detailed *bool) {
	cmd.Flags().BoolVar(detailed, "detailed-exitcode", false, "exit with 0 if there are no changes, 2 if there are, and 1 on\nany error")
	cmd.PreRun = func(*cobra.Command, []string) {
		if *detailed { // 2 means changes, and not wrong usage
			a.CodeOf = func(error) int { return app.ExitError }
		}
	}
}

// Validate checks the flags.
func (o *planOptions) Validate() error {
	if err := o.file.Validate(); err != nil {
		return err
	}
	return o.past.Validate()
}

// Run shows the plan.
func (o *planOptions) Run(ctx context.Context) error {
	of, m, err := o.open(ctx)
	if err != nil {
		return err
	}
	p, err := m.Plan(ctx, of, o.prune)
	if err != nil {
		return err
	}
	v := planView{Plan: manage.PlanOf(p, o.app.Clock())}
	if v.Past, err = o.past.look(ctx, m, of, p); err != nil {
		return err
	}
	err = o.app.Print(v, func(w *strings.Builder) {
		if planText(w, &v.Plan); v.Past != nil {
			v.Past.text(w)
		}
	})
	if err != nil {
		return err
	}
	o.app.WarnUnconfigured(p.Unconfigured, mend)
	if o.detailed && p.HasChanges() {
		return app.ErrChanges
	}
	return nil
}
