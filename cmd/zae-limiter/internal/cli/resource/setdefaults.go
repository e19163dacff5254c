package resource

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type setDefaultsOptions struct {
	app *app.App
	level
	limits app.LimitsFlag
	keep   bool
}

func newSetDefaults(a *app.App) *cobra.Command {
	o := &setDefaultsOptions{app: a}
	cmd := newLevel(a, "set-defaults", "Replace the default limits of a resource", &o.level, o)
	cmd.Example = "  zae-limiter resource set-defaults gpt-4 --limit rpm:100 --limit tpm:10000:15000"
	cmd.Long = cmd.Short + ".\n\n" +
		"Levels are not merged: these limits hold instead of those of the system. Requests of\n" +
		"entities without limits of their own fail if they name another limit. With\n" +
		"--keep-defaults, the other limits of the system are set, too."
	o.limits.Bind(cmd)
	app.BindKeepDefaults(cmd, &o.keep)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, app.Level{})
}

// Validate checks the resource and that there are limits.
func (o *setDefaultsOptions) Validate() error {
	if err := o.level.Validate(); err != nil {
		return err
	}
	return o.limits.Required()
}

// Run sets the limits.
func (o *setDefaultsOptions) Run(ctx context.Context) error {
	return o.app.SetLimits(ctx, dynamo.Level{Key: o.ConfigKey, Limits: o.limits.Limits}, o.keep)
}
