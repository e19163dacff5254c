package system

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type setDefaultsOptions struct {
	app           *app.App
	limits        app.LimitsFlag
	onUnavailable limiter.OnUnavailable
}

func newSetDefaults(a *app.App) *cobra.Command {
	o := &setDefaultsOptions{app: a}
	cmd := a.Command(o, &cobra.Command{Use: "set-defaults", Short: "Replace the default limits of all resources, what to do in an outage, or both"})
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
	return o.app.SetLimits(ctx, dynamo.Level{Limits: o.limits.Limits, OnUnavailable: o.onUnavailable}, false)
}
