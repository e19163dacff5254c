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
	prune    bool
	detailed bool
}

func newPlan(a *app.App) *cobra.Command {
	o := &planOptions{file: file{app: a}}
	cmd := a.Command(o, &cobra.Command{
		Use: "plan", Short: "Show what an apply of a manifest would change",
		Long: "Show what an apply of a manifest would change. The command reads the levels as they\n" +
			"are now, and writes nothing.",
		Example: "  zae-limiter limits plan -f limits.yaml\n  zae-limiter limits plan -f limits.yaml --prune --detailed-exitcode",
	})
	o.bind(cmd)
	bindPrune(cmd, &o.prune)
	bindDetailed(a, cmd, &o.detailed)
	return a.Prints(cmd, manage.Plan{})
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
	v := manage.PlanOf(p, o.app.Clock())
	if err := o.app.Print(v, func(w *strings.Builder) { planText(w, &v) }); err != nil {
		return err
	}
	o.app.WarnUnconfigured(p.Unconfigured, mend)
	if o.detailed && p.HasChanges() {
		return app.ErrChanges
	}
	return nil
}
