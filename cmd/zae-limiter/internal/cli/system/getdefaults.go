package system

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

type getDefaultsOptions struct{ app *app.App }

func newGetDefaults(a *app.App) *cobra.Command {
	return a.Prints(a.Command(&getDefaultsOptions{a}, &cobra.Command{Use: "get-defaults", Short: "Show the default limits of all resources, and what to do in an outage"}), app.Level{})
}

// Run shows the level.
func (o *getDefaultsOptions) Run(ctx context.Context) error {
	return o.app.GetLimits(ctx, limiter.ConfigKey{})
}
