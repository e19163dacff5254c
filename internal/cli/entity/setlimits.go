package entity

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

type setLimitsOptions struct {
	app *app.App
	level
	limits app.LimitsFlag
}

func newSetLimits(a *app.App) *cobra.Command {
	o := &setLimitsOptions{app: a}
	cmd := newLimits(a, "set-limits", "Replace an entity's own limits for a resource", &o.level, o)
	cmd.Example = "  zae-limiter entity set-limits key-1 --resource gpt-4 --limit rpm:100/min:150 --limit tpm:10000"
	o.limits.Bind(cmd)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, app.Level{})
}

// Validate checks the level and that there are limits.
func (o *setLimitsOptions) Validate() error {
	if err := o.level.Validate(); err != nil {
		return err
	}
	return o.limits.Required()
}

// Run sets the limits.
func (o *setLimitsOptions) Run(ctx context.Context) error {
	return o.app.SetLimits(ctx, o.ConfigKey, o.limits.Limits)
}
