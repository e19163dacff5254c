package stack

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/deploy"
	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/store"
)

type deployOptions struct {
	app     *app.App
	version string
	confirm *app.Confirmation
	flags   stackarg.Flags
	arch    func() bool // the flag --arch was given
	rollout rolloutFlags
	dryRun  bool
}

func newDeploy(a *app.App, version string) *cobra.Command {
	o := &deployOptions{app: a, version: version}
	cmd := &cobra.Command{
		Use:   "deploy",
		Short: "Create or update the stack: table, aggregator, alarms, policies",
		Long: "Create or update the CloudFormation stack of a limiter: table, aggregator, alarms, policies.\n\n" +
			"An update changes only what flags name, and takes the template of this version. The command\n" +
			"shows each change set and asks before it executes it. It refuses a change that removes or\n" +
			"replaces the table or the archive. Repeat it after an interruption: it continues.\n\n" +
			"A stack of the Python package is adopted in one change set, if it has an archive: the code\n" +
			"goes there, and the functions change in place.",
		Example: "  zae-limiter deploy --name limits --region eu-central-1",
		Args:    app.Args(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.Run(cmd.Context(), o) },
	}
	o.confirm = a.Confirmation(cmd)
	o.flags.Bind(cmd)
	o.arch = func() bool { return cmd.Flags().Changed("arch") }
	o.rollout.bind(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print template, parameters and the changes of the first change\nset, and what comes later; change nothing")
	return a.Prints(cmd, RolloutView{}, DryRunView{})
}

// Validate checks the flags as they are for a new stack.
func (o *deployOptions) Validate() error {
	if err := errors.Join(o.flags.Validate(), o.rollout.code.Validate()); err != nil {
		return err
	}
	given := deploy.Options{Name: o.app.Flags.Table}
	o.flags.Apply(&given)
	if _, err := stackarg.Spec(given); err != nil {
		return err
	}
	if o.dryRun {
		return nil
	}
	return o.confirm.Validate()
}

// Run deploys.
func (o *deployOptions) Run(ctx context.Context) error {
	m, clients, err := o.app.Stacks(ctx)
	if err != nil {
		return err
	}
	live, err := m.Find(ctx, o.app.Flags.Table)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	options, err := o.options(ctx, m, live)
	if err != nil {
		return err
	}
	code, err := o.rollout.codeFor(o.app, &options, o.arch())
	if err != nil {
		return err
	}
	spec, err := stackarg.Spec(options)
	if err != nil {
		return err
	}
	for _, note := range spec.Notes() {
		o.app.Notef("Note: %s", note)
	}
	run := stack.Rollout{Spec: SpecOf(spec, o.rollout.allow), Code: code, NoWait: o.rollout.noWait, By: "cli:" + o.version}
	if o.dryRun {
		return ShowPlan(ctx, o.app, m, run, spec)
	}
	out, err := Rollout(ctx, o.app, m, o.confirm, run)
	if err != nil {
		return err
	}
	if err := o.retain(ctx, clients, options.AuditRetentionDays, &out); err != nil {
		return err
	}
	return PrintOutcome(o.app, out, nextOf(o.app.Flags.Table))
}

// options are those of the stack as it is, with the given flags over them.
func (o *deployOptions) options(ctx context.Context, m *stack.Manager, live *stack.Stack) (deploy.Options, error) {
	options := deploy.Options{Name: o.app.Flags.Table}
	if live != nil {
		shape, err := m.Shape(ctx, live)
		if err != nil {
			return options, err
		}
		if options, err = optionsOf(live, shape); err != nil {
			return options, err
		}
	}
	before := options
	o.flags.Apply(&options)
	options.Version = o.version
	return options, checkOptions(live, &before, &options)
}

// retain sets how long audit events stay in the table, if a flag says so.
func (o *deployOptions) retain(ctx context.Context, clients stack.Clients, days int, out *stack.Outcome) error {
	switch {
	case days == 0:
		return nil
	case len(out.Remaining) > 0:
		out.Remaining = append(out.Remaining, "set the retention of audit events")
		return nil
	}
	s, err := dynamo.Open(ctx, dynamo.Options{API: clients.Database, Table: o.app.Flags.Table, Now: o.app.Now, Principal: o.app.Principal()})
	if err != nil {
		return err
	}
	return s.SetAuditRetention(ctx, days)
}
