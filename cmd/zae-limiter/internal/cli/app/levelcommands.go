package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// A levelCommand is a command about the limits of an entity, of a resource, or of the system.
type levelCommand struct {
	app *App
	of  limiter.Level
	key limiter.ConfigKey
}

// command adds to a command the argument and the flag that name the level, and the run of r.
// Arguments that the use names already come after that one; more are their targets.
func (l *levelCommand) command(r Runner, cmd *cobra.Command, more ...any) *cobra.Command {
	name, others, _ := strings.Cut(cmd.Use, " ")
	names := func(argument string, target *string) *cobra.Command {
		cmd.Use = strings.TrimSpace(name + " " + argument + " " + others)
		return l.app.Command(r, cmd, append([]any{target}, more...)...)
	}
	switch l.of {
	case limiter.LevelEntity:
		cmd.Flags().StringVarP(&l.key.Resource, "resource", "r", limiter.DefaultResource,
			"`resource` that the limits are for. By default they are for every\nresource for which the entity has no other limits, and hold\ninstead of the defaults of resources and of the system")
		return names("ID", &l.key.Entity)
	case limiter.LevelResource:
		return names("RESOURCE", &l.key.Resource)
	default:
		return l.app.Command(r, cmd, more...)
	}
}

// Validate checks the names.
func (l *levelCommand) Validate() error {
	switch l.of {
	case limiter.LevelEntity:
		if err := store.CheckEntity(l.key.Entity); err != nil {
			return err
		}
		if err := store.CheckConfigResource(l.key.Resource); err != nil {
			return fmt.Errorf("--resource: %w", err)
		}
		return nil
	case limiter.LevelResource:
		return store.CheckResource(l.key.Resource)
	default:
		return nil
	}
}

// A setLimits command replaces the limits of a level, and more of the system.
type setLimits struct {
	levelCommand
	limits        LimitsFlag
	keep, dryRun  bool
	onUnavailable limiter.OnUnavailable
}

// SetsLimits is a command that replaces the limits of a level of a kind: those of entities,
// resources or the system. The rest of what it does is told by more.
func (a *App) SetsLimits(of limiter.Level, cmd *cobra.Command, more string) *cobra.Command {
	o := &setLimits{levelCommand: levelCommand{app: a, of: of}}
	cmd.Long = cmd.Short + ".\n\n" + more
	o.limits.Bind(o.command(o, cmd))
	if of == limiter.LevelSystem {
		BindOnUnavailable(cmd, &o.onUnavailable, "what an acquire does when DynamoDB cannot be reached:\nblock returns an error, allow admits without metering, share\nadmits a part of each limit in each process")
	} else {
		cmd.Flags().BoolVar(&o.keep, "keep-defaults", false, "also set the limits of the next level that --limit does not name;\nwithout them here, they hold no longer")
	}
	bindDryRun(cmd, &o.dryRun)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.Level{})
}

// Validate checks the level and that something is to be set.
func (o *setLimits) Validate() error {
	if err := o.levelCommand.Validate(); err != nil {
		return err
	}
	switch {
	case len(o.limits.Limits) > 0 || o.onUnavailable != "":
		return nil
	case o.of == limiter.LevelSystem:
		return errors.New("nothing to set: give --limit (rpm:100 for instance), --on-unavailable, or both")
	default:
		return Required("limit", "rpm:100")
	}
}

// Run sets the given values.
func (o *setLimits) Run(ctx context.Context) error {
	return o.app.setLimits(ctx, manage.Setting{
		Level: dynamo.Level{Key: o.key, Limits: o.limits.Limits, OnUnavailable: o.onUnavailable}, Keep: o.keep, DryRun: o.dryRun,
	})
}

type getLimits struct{ levelCommand }

// GetsLimits is a command that shows the limits of a level of a kind.
func (a *App) GetsLimits(of limiter.Level, cmd *cobra.Command) *cobra.Command {
	o := &getLimits{levelCommand{app: a, of: of}}
	return a.Prints(o.command(o, cmd), manage.Level{})
}

// Run shows the limits.
func (o *getLimits) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	level, err := manage.GetLimits(ctx, store, o.key)
	if err != nil {
		return err
	}
	return o.app.PrintLevel(level)
}

type deleteLimits struct {
	levelCommand
	confirm *Confirmation
	dryRun  bool
}

// DeletesLimits is a command that deletes the limits of a level of a kind.
func (a *App) DeletesLimits(of limiter.Level, cmd *cobra.Command) *cobra.Command {
	o := &deleteLimits{levelCommand: levelCommand{app: a, of: of}}
	o.confirm = a.Confirmation(o.command(o, cmd))
	bindDryRun(cmd, &o.dryRun)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.DeletedLevel{})
}

// Validate checks the level and that there is someone to ask.
func (o *deleteLimits) Validate() error {
	if err := o.levelCommand.Validate(); err != nil {
		return err
	}
	if o.dryRun {
		return nil
	}
	return o.confirm.Validate()
}

// bindDryRun adds the flag that shows a change instead of making it.
func bindDryRun(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "dry-run", false, "show what would change, and change nothing")
}

// Run deletes the limits.
func (o *deleteLimits) Run(ctx context.Context) error {
	return o.app.deleteLimits(ctx, o.confirm, manage.Deletion{Key: o.key, DryRun: o.dryRun})
}
