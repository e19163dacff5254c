package stack

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

type deployOptions struct {
	app     *app.App
	version string
	confirm *app.Confirmation
	flags   stackarg.Flags[deploy.Options]
	arch    func() bool // the flag --arch was given
	rollout rolloutFlags
	adopt   bool   // the table that exists
	archive string // to adopt
	dryRun  bool
}

func newDeploy(a *app.App, version string) *cobra.Command {
	o := &deployOptions{app: a, version: version}
	cmd := a.Command(o, &cobra.Command{
		Use:   "deploy",
		Short: "Create or update the stack: table, aggregator, alarms, policies",
		Long: "Create or update the CloudFormation stack of a limiter: table, aggregator, alarms, policies.\n\n" +
			"An update changes only what flags name, and takes the template of this version. The command\n" +
			"shows each change set and asks before it executes it. It refuses a change that removes or\n" +
			"replaces the table or the archive. Repeat it after an interruption: it continues.\n\n" +
			"A stack of the Python package is adopted in one change set, if it has an archive: the code\n" +
			"goes there, and the functions change in place.\n\n" +
			"With --adopt-table, a table of the stack's name that belongs to no stack gets one: delete\n" +
			"kept it, or backup restore made it. Its items stay, and nothing of it changes. The command\n" +
			"refuses a table that differs from what the stack declares, and says in what. Give the\n" +
			"options of the former stack again.",
		Example: "  zae-limiter deploy --name limits --region eu-central-1\n" +
			"  zae-limiter deploy --name limits --adopt-table",
	})
	o.confirm = a.Confirmation(cmd)
	o.flags.Bind(cmd.Flags(), deploy.OptionTable)
	o.arch = func() bool { return cmd.Flags().Changed("arch") }
	o.rollout.bind(cmd)
	cmd.Flags().BoolVar(&o.adopt, "adopt-table", false, "make the stack around the table of its name, which exists\noutside any stack")
	cmd.Flags().Var(app.Named(&o.archive), "adopt-archive", "name of the archive `bucket` that a deleted stack kept, to adopt\nwith the table (default a new one)")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print template, parameters and the changes of the first change\nset, and what comes later; change nothing")
	return a.Prints(cmd, RolloutView{}, DryRunView{})
}

// Validate checks the flags as they are for a new stack.
func (o *deployOptions) Validate() error {
	if err := errors.Join(o.flags.Validate(), o.rollout.code.Validate()); err != nil {
		return err
	}
	given := deploy.Defaults()
	given.Name = o.app.Flags.Table
	o.flags.Apply(&given)
	if o.archive != "" && (!o.adopt || !given.Archive || !given.Aggregator) {
		return errors.New("--adopt-archive needs --adopt-table, and a stack with an aggregator and an archive")
	}
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
	run := stack.Rollout{Spec: SpecOf(spec, o.rollout.allow), Code: code, Background: o.rollout.noWait, By: "cli:" + o.version}
	if o.adopt {
		run.Adopt = &stack.Adoption{Archive: o.archive}
	}
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

// options are those of the stack or of the adopted table as it is, with the given flags over
// them.
func (o *deployOptions) options(ctx context.Context, m *stack.Manager, live *stack.Stack) (deploy.Options, error) {
	options := deploy.Defaults()
	options.Name = o.app.Flags.Table
	if adopted := live == nil || len(live.Parameters) == 0; live != nil || o.adopt {
		of := live
		if of == nil {
			of = &stack.Stack{Name: o.app.Flags.Table}
		}
		shape, err := m.Shape(ctx, of)
		if err != nil {
			return options, err
		}
		if options, err = optionsOf(of, shape); err != nil {
			return options, err
		}
		if o.adopt && adopted {
			keep(&options, shape)
		}
	}
	before := options
	o.flags.Apply(&options)
	options.Version = o.version
	return options, checkOptions(live, &before, &options)
}

// keep makes a stack declare a table as it is.
func keep(o *deploy.Options, table stack.Shape) {
	o.LocalIndexes, o.DeletionProtection, o.KMSKeyARN = table.LocalIndexes, table.DeletionProtection, table.KeyARN
	o.Capacity.Provisioned = table.Provisioned
	if table.GSI2All {
		o.GSI2Projection = deploy.ProjectAll
	}
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
