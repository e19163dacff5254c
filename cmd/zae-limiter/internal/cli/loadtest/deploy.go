package loadtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	stacks "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/store"
)

// deployer is the command deploy.
type deployer struct {
	app     *app.App
	confirm *app.Confirmation
	flags   stackFlags
	code    stackarg.CodeFlags
	noWait  bool
	setUp   bool
	dryRun  bool
}

const aboutDeploy = `Create or update the CloudFormation stack NAME-load, in which load tests of the limiter
NAME run: a Locust master with its web page, workers on Lambda that are this program, and
an orchestrator that starts workers as users are asked for.

The limiter's stack must exist. The workers have access to one namespace of its table
(--namespace, default loadtest) and to nothing else. The command registers it, and after the
deployment writes the scenario's limits and entities there, if they are not there yet. Nothing
outside the stack can connect to it: loadtest ui forwards the web page.

An update changes only what flags name, and brings template and code of this version. The
command shows the change set and asks before it executes it. The stack costs money while it
exists: docs/locust.md has the sums. --off stops what is billed by time, except
interface endpoints. loadtest delete removes the stack.`

// NewDeploy is the command loadtest deploy.
func NewDeploy(a *app.App) *cobra.Command {
	o := &deployer{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "deploy",
		Short: "Create or update the stack in which load tests run on AWS",
		Long:  aboutDeploy,
		Example: "  zae-limiter loadtest deploy --name limits --vpc-id vpc-0123abcd --subnet-ids subnet-0123abcd,subnet-4567abcd\n" +
			"  zae-limiter loadtest deploy --name limits --scenario llm-gateway --max-workers 20",
	})
	a.BindPrincipal(cmd)
	o.confirm = a.Confirmation(cmd)
	o.flags.bind(cmd)
	o.code.Bind(cmd)
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return when the operation has started")
	cmd.Flags().BoolVar(&o.setUp, "setup", true, "write limits and entities of the scenario at the end, if they\nare not there yet")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print template, parameters and changes; change nothing")
	return a.Prints(cmd, stack.RolloutView{}, stack.DryRunView{})
}

// Validate checks the flags.
func (o *deployer) Validate() error {
	if err := o.code.Validate(); err != nil {
		return err
	}
	if err := o.flags.validate(); err != nil {
		return err
	}
	if o.dryRun {
		return nil
	}
	return o.confirm.Validate()
}

// Run deploys.
func (o *deployer) Run(ctx context.Context) error {
	limiter, clients, err := o.limiter(ctx)
	if err != nil {
		return err
	}
	m, _, err := o.app.StacksOf(ctx, stacks.TypeLoadTest)
	if err != nil {
		return err
	}
	live, err := m.Find(ctx, loadstack.NameOf(limiter.Name))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	options, err := o.options(limiter, live)
	if err != nil {
		return err
	}
	plan, err := planOfText(options.Scenario, string(options.File))
	if err != nil {
		return fmt.Errorf("read the scenario of stack %s: %w", loadstack.NameOf(limiter.Name), err)
	}
	code, err := o.code.Artefact(o.app)
	if err != nil {
		return err
	}
	options.Architecture, options.CodeKey, options.NamespaceID = code.Architecture(), code.Key(), unregistered
	if _, err := specOf(options); err != nil { // before anything is written
		return err
	}
	if err := o.namespace(ctx, clients, &options); err != nil {
		return err
	}
	spec, err := specOf(options)
	if err != nil {
		return err
	}
	run := stacks.Rollout{
		Spec: stack.SpecOf(spec, nil), Background: o.noWait, By: "cli:" + version(),
		Code: &stacks.Code{Bucket: options.CodeBucket, Key: code.Key(), Zip: code.Zip()},
	}
	if o.dryRun {
		return stack.ShowPlan(ctx, o.app, m, run, spec)
	}
	o.app.Notef("Note: %d concurrent calls of the account are reserved for %d workers and their replacements.", spec.Concurrency(), spec.Options().MaxWorkers)
	out, err := stack.Rollout(ctx, o.app, m, o.confirm, run)
	if err != nil {
		return err
	}
	if o.setUp {
		if err := setUp(ctx, o.database(clients, spec.Options()), plan); err != nil {
			return fmt.Errorf("set up the scenario, after the deployment: %w", err)
		}
		o.app.Notef("Note: the %d entities of the scenario are set up in namespace %s.", len(plan.Entities), spec.Options().Namespace)
	}
	return stack.PrintOutcome(o.app, out, stack.Next{Follow: "zae-limiter loadtest list", Again: "zae-limiter loadtest deploy"})
}

// limiter finds the stack of the limiter under test.
func (o *deployer) limiter(ctx context.Context) (*stacks.Stack, stacks.Clients, error) {
	m, clients, err := o.app.Stacks(ctx)
	if err != nil {
		return nil, clients, err
	}
	name := o.app.Flags.Table
	s, err := m.Find(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, clients, fmt.Errorf("find the limiter to test: %w", &store.NotFoundError{Kind: "stack", Name: name, Hint: "deploy it first, with zae-limiter deploy -n " + name})
	case err != nil:
		return nil, clients, err
	case s.Outputs["TableArn"] == "":
		return nil, clients, &store.ValidationError{Field: "--name", Value: name, Reason: "this stack has no output TableArn, so it is not of a limiter, or its deployment has not ended: give the name of a limiter's stack"}
	}
	return s, clients, nil
}

// options are those of the stack as it is, with the given flags over them, and what the
// limiter's stack has.
func (o *deployer) options(limiter, live *stacks.Stack) (loadstack.Options, error) {
	options, isNew := loadstack.Defaults(), live == nil || len(live.Parameters) == 0
	options.Limiter = limiter.Name
	if !isNew {
		var err error
		if options, err = loadstack.OptionsOf(limiter.Name, live.Parameters); err != nil {
			return options, fmt.Errorf("read the options of stack %s: %w", live.Name, err)
		}
	}
	if err := o.flags.applyTo(&options, isNew || options.Scenario == "" && len(options.File) == 0); err != nil {
		return options, err
	}
	if isNew && !o.flags.set.Changed("max-workers") {
		options.MaxWorkers = max(options.MaxWorkers, options.MinWorkers)
	}
	if _, given := o.app.Flags.Given("namespace"); given || o.app.Flags.Namespace != dynamo.DefaultNamespace {
		options.Namespace = o.app.Flags.Namespace
	}
	options.Adopt(limiter.Outputs)
	return options, nil
}

// database is the table of the limiter, and the namespace of the load.
func (o *deployer) database(clients stacks.Clients, options loadstack.Options) dynamo.Options {
	return dynamo.Options{
		API: clients.Database, Table: options.Limiter, Namespace: options.Namespace,
		Now: o.app.Now, Logger: o.app.Logger(), Principal: o.app.Principal(),
	}
}

// unregistered stands for the ID of a namespace that is not registered yet.
const unregistered = "not-registered-yet"

// namespace registers the namespace of the load, and sets its ID. A dry run registers none.
func (o *deployer) namespace(ctx context.Context, clients stacks.Clients, options *loadstack.Options) error {
	all, err := admin.NewNamespaces(o.database(clients, *options))
	if err != nil {
		return err
	}
	ns, err := all.Get(ctx, options.Namespace)
	switch {
	case errors.Is(err, store.ErrNotFound) && o.dryRun:
		return nil
	case errors.Is(err, store.ErrNotFound):
		if ns, err = all.Register(ctx, options.Namespace); err != nil {
			return err
		}
		o.app.Notef("Note: namespace %s is registered.", ns.Name)
	case err != nil:
		return err
	}
	options.NamespaceID = ns.ID
	return nil
}
