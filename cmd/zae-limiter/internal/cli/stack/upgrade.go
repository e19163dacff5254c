package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

type upgradeOptions struct {
	app        *app.App
	version    string
	confirm    *app.Confirmation
	rollout    rolloutFlags
	lambdaOnly bool
	force      bool
}

func newUpgrade(a *app.App, version string) *cobra.Command {
	o := &upgradeOptions{app: a, version: version}
	cmd := a.Command(o, &cobra.Command{
		Use:   "upgrade",
		Short: "Bring the stack to the template and code of this version",
		Long: "Bring an existing stack to the template and the code of this version. All its options stay.\n\n" +
			"A stack of the Python package is adopted: its table keeps its indexes and its items.",
	})
	o.confirm = a.Confirmation(cmd)
	o.rollout.bind(cmd)
	cmd.Flags().BoolVar(&o.lambdaOnly, "lambda-only", false, "change only the code of the functions, not the template")
	cmd.Flags().BoolVar(&o.force, "force", false, "deploy although the deployed aggregator is newer")
	return a.Prints(cmd, RolloutView{}, DryRunView{})
}

// Validate checks the flags.
func (o *upgradeOptions) Validate() error {
	return errors.Join(o.rollout.code.Validate(), o.confirm.Validate())
}

// Run upgrades.
func (o *upgradeOptions) Run(ctx context.Context) error {
	m, _, err := o.app.Stacks(ctx)
	if err != nil {
		return err
	}
	live, err := m.Find(ctx, o.app.Flags.Table)
	if err != nil {
		return err
	}
	if live.Status == string(types.StackStatusReviewInProgress) {
		return live.Problem() // it has no options to keep
	}
	if _, ours := live.Parameters[stack.ParameterCodeKey]; o.lambdaOnly && !ours {
		return fmt.Errorf("stack %s has the template of another program, which takes no code: upgrade it without --lambda-only", live.Name)
	}
	shape, err := m.Shape(ctx, live)
	if err != nil {
		return err
	}
	options, err := optionsOf(live, shape)
	if err != nil {
		return err
	}
	if err := checkOptions(live, &options, &options); err != nil {
		return err
	}
	options.Version = o.version
	code, err := o.rollout.codeFor(o.app, &options, o.lambdaOnly)
	if err != nil {
		return err
	}
	spec, err := stackarg.Spec(options)
	if err != nil {
		return err
	}
	run := stack.Rollout{
		Spec: SpecOf(spec, o.rollout.allow), Code: code, Background: o.rollout.noWait, Downgrade: o.force, By: "cli:" + o.version,
	}
	if o.lambdaOnly {
		run.Spec = stack.Spec{Name: spec.Name(), Tags: run.Tags}
	}
	out, err := Rollout(ctx, o.app, m, o.confirm, run)
	if err != nil {
		return err
	}
	return PrintOutcome(o.app, out, nextOf(o.app.Flags.Table))
}
