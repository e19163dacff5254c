package entity

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type setLimitsOptions struct {
	app *app.App
	level
	limits app.LimitsFlag
	keep   bool
}

func newSetLimits(a *app.App) *cobra.Command {
	o := &setLimitsOptions{app: a}
	cmd := newLimits(a, "set-limits", "Replace an entity's own limits for a resource", &o.level, o)
	cmd.Long = cmd.Short + ".\n\n" +
		"Levels are not merged: these limits hold instead of those of the resource and of the\n" +
		"system. Requests that name another limit fail. With --keep-defaults, the other limits\n" +
		"that the next level has are set, too."
	cmd.Example = "  zae-limiter entity set-limits key-1 --resource gpt-4 --limit rpm:100/min:150 --limit tpm:10000\n" +
		"  zae-limiter entity set-limits key-1 --limit tpm:50000 --keep-defaults"
	o.limits.Bind(cmd)
	app.BindKeepDefaults(cmd, &o.keep)
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
	return o.app.SetLimits(ctx, dynamo.Level{Key: o.ConfigKey, Limits: o.limits.Limits}, o.keep)
}
