package entity

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

type getLimitsOptions struct {
	app *app.App
	level
}

func newGetLimits(a *app.App) *cobra.Command {
	o := &getLimitsOptions{app: a}
	return a.Prints(newLimits(a, "get-limits", "Show an entity's own limits for a resource", &o.level, o), app.Level{})
}

// Run shows the limits.
func (o *getLimitsOptions) Run(ctx context.Context) error {
	return o.app.GetLimits(ctx, o.ConfigKey)
}
