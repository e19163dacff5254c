package system

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

type setDefaultsOptions struct {
	app           *app.App
	limits        app.LimitsFlag
	onUnavailable limiter.OnUnavailable
}

func newSetDefaults(a *app.App) *cobra.Command {
	o := &setDefaultsOptions{app: a}
	cmd := newCommand(a, "set-defaults", "Replace the default limits of all resources, what to do in an outage, or both", o)
	cmd.Long = cmd.Short + ".\n\nA setting that is not given stays as it is."
	cmd.Example = "  zae-limiter system set-defaults --limit rpm:60 --on-unavailable allow"
	o.limits.Bind(cmd)
	a.BindPrincipal(cmd)
	app.BindOnUnavailable(cmd, &o.onUnavailable, "what an acquire does when DynamoDB cannot be reached:\nblock returns an error, allow admits without metering")
	return a.Prints(cmd, app.Level{})
}

// Validate checks that something is to be set.
func (o *setDefaultsOptions) Validate() error {
	if len(o.limits.Limits) == 0 && o.onUnavailable == "" {
		return errors.New("nothing to set: give --limit (rpm:100 for instance), --on-unavailable, or both")
	}
	return nil
}

// Run sets the given values.
func (o *setDefaultsOptions) Run(ctx context.Context) error {
	system := limiter.ConfigKey{}
	if o.onUnavailable == "" {
		return o.app.SetLimits(ctx, system, o.limits.Limits, false)
	}
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	limits := []limiter.Limit(o.limits.Limits)
	if len(limits) == 0 {
		// The store replaces both, so limits that stay are passed to it again.
		old, err := store.Limits(ctx, system)
		switch {
		case errors.Is(err, limiter.ErrNotFound):
		case err != nil:
			return err
		case !old.IsEvaluable():
			return fmt.Errorf("%w: the system's limits use %s: give --limit too, which replaces them", limiter.ErrUnsupported, old.Features.Unsupported())
		default:
			limits = old.Limits
		}
	}
	if err := store.SetSystem(ctx, limits, o.onUnavailable); err != nil {
		return err
	}
	return o.app.GetLimits(ctx, system)
}
