package resource

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

type getDefaultsOptions struct {
	app *app.App
	level
}

func newGetDefaults(a *app.App) *cobra.Command {
	o := &getDefaultsOptions{app: a}
	return a.Prints(newLevel(a, "get-defaults", "Show the default limits of a resource", &o.level, o), app.Level{})
}

// Run shows the limits.
func (o *getDefaultsOptions) Run(ctx context.Context) error {
	return o.app.GetLimits(ctx, o.ConfigKey)
}
