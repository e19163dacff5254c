package entity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// An amendCommand changes the balances of an entity's bucket.
type amendCommand struct {
	app              *app.App
	entity, resource string
	cause            dynamo.Cause
	dryRun           bool
}

// keyed tells of the key in help.
const keyed = "The change and its audit event are one transaction over all shards of the bucket. With\n" +
	"--idempotency-key, it happens once: for three days, another call with the key changes\n" +
	"nothing, and shows what the first one did. Without a key, an error that says \"unavailable\"\n" +
	"leaves open whether the change was made; zae-limiter audit list shows it."

// command adds the flags that both commands have.
func (c *amendCommand) command(r app.Runner, cmd *cobra.Command) *cobra.Command {
	cmd = c.app.Command(r, cmd, &c.entity)
	f := cmd.Flags()
	f.StringVarP(&c.resource, "resource", "r", "", "`name` of the resource")
	app.BindCause(cmd, &c.cause)
	f.BoolVar(&c.dryRun, "dry-run", false, "show what would change, and change nothing")
	c.app.BindPrincipal(cmd)
	return c.app.Prints(cmd, manage.Amendment{})
}

// Validate checks the names and the cause.
func (c *amendCommand) Validate() error {
	if err := store.CheckEntity(c.entity); err != nil {
		return err
	}
	if c.resource == "" {
		return app.Required("resource", "gpt-4")
	}
	if err := store.CheckResource(c.resource); err != nil {
		return fmt.Errorf("--resource: %w", err)
	}
	return c.cause.Check()
}

// print shows a result.
func (c *amendCommand) print(v manage.Amendment, verb string) error {
	return c.app.Print(v, func(w *strings.Builder) {
		switch {
		case v.Repeated:
			fmt.Fprintf(w, "%s before with this key; nothing was changed now\n", verb)
		case v.DryRun:
			fmt.Fprintf(w, "dry run, nothing was changed: without --dry-run, it would be %s\n", verb)
		default:
			w.WriteString(verb + "\n")
		}
		rows := make([][]string, 0, len(v.Amounts))
		for _, name := range slices.Sorted(maps.Keys(v.Amounts)) {
			rows = append(rows, []string{name, signed(v.Amounts[name])})
		}
		app.Table(w, []string{"LIMIT", "TOKENS"}, rows)
	})
}

// signed writes a change of a balance.
func signed(tokens int64) string {
	if tokens > 0 {
		return "+" + limitarg.Grouped(tokens)
	}
	return limitarg.Grouped(tokens)
}

type resetOptions struct {
	amendCommand
	limits []string
}

func newReset(a *app.App) *cobra.Command {
	o := &resetOptions{amendCommand: amendCommand{app: a}}
	cmd := o.command(o, &cobra.Command{
		Use:   "reset ID",
		Short: "Make the limits of an entity's bucket full",
		Long: "Make the limits of an entity's bucket full, whatever they owe. A quota loses what it was\n" +
			"topped up by; its period ends as before. Usage still counts what was used.\n\n" + keyed,
		Example: "  zae-limiter entity reset key-2 --resource gpt-4 --reason 'wrong model'\n" +
			"  zae-limiter entity reset key-2 --resource gpt-4 --limit rpd --idempotency-key ticket-4711",
	})
	cmd.Flags().VarP(app.NamedList(&o.limits), "limit", "l", "`name` of a limit to fill; may be repeated (default all)")
	return cmd
}

// Validate checks the command, and that each limit is named once.
func (o *resetOptions) Validate() error {
	for i, name := range o.limits {
		if err := store.CheckLimitName(name); err != nil {
			return fmt.Errorf("--limit: %w", err)
		}
		if slices.Contains(o.limits[:i], name) {
			return fmt.Errorf("--limit: %s was given before: name each limit once", name)
		}
	}
	return o.amendCommand.Validate()
}

// Run resets the bucket.
func (o *resetOptions) Run(ctx context.Context) error {
	s, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	done, err := manage.Reset(ctx, s, dynamo.Reset{Entity: o.entity, Resource: o.resource, Limits: o.limits, Cause: o.cause, DryRun: o.dryRun})
	if err != nil {
		return err
	}
	return o.print(done, "reset")
}

type topUpOptions struct {
	amendCommand
	amounts limitarg.Amounts
}

func newTopUp(a *app.App) *cobra.Command {
	o := &topUpOptions{amendCommand: amendCommand{app: a}}
	cmd := o.command(o, &cobra.Command{
		Use:   "top-up ID",
		Short: "Add tokens to limits of an entity's bucket",
		Long: "Add tokens to limits of an entity's bucket. A quota may hold as much more until its period\n" +
			"ends. A rate gets what it lacks of being full, at most.\n\n" + keyed,
		Example: "  zae-limiter entity top-up key-2 --resource gpt-4 --limit rpd=500 --idempotency-key order-7\n" +
			"  zae-limiter entity top-up key-2 --resource gpt-4 --limit rpd=500 --dry-run",
	})
	cmd.Flags().VarP(&o.amounts, "limit", "l", "tokens to add to each limit, separated by commas")
	return cmd
}

// Validate checks the command, and that something is to be added.
func (o *topUpOptions) Validate() error {
	if err := o.amendCommand.Validate(); err != nil {
		return err
	}
	if len(o.amounts) == 0 {
		return app.Required("limit", "rpd=500")
	}
	for name, tokens := range o.amounts {
		if tokens == 0 {
			return fmt.Errorf("--limit: 0 tokens of %s: give at least 1", name)
		}
	}
	return nil
}

// Run tops the bucket up.
func (o *topUpOptions) Run(ctx context.Context) error {
	s, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	done, err := manage.TopUp(ctx, s, dynamo.TopUp{Entity: o.entity, Resource: o.resource, Amounts: o.amounts, Cause: o.cause, DryRun: o.dryRun})
	if err != nil {
		return err
	}
	return o.print(done, "topped up")
}
