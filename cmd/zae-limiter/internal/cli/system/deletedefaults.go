package system

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

type deleteDefaultsOptions struct {
	app     *app.App
	confirm *app.Confirmation
}

func newDeleteDefaults(a *app.App) *cobra.Command {
	o := &deleteDefaultsOptions{app: a}
	cmd := a.Command(o, &cobra.Command{Use: "delete-defaults", Short: "Delete the default limits of all resources, and what to do in an outage"})
	o.confirm = a.Confirmation(cmd)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, app.DeletedLevel{})
}

// Validate checks that there is someone to ask.
func (o *deleteDefaultsOptions) Validate() error { return o.confirm.Validate() }

// Run deletes the level.
func (o *deleteDefaultsOptions) Run(ctx context.Context) error {
	return o.app.DeleteLimits(ctx, o.confirm, limiter.ConfigKey{}, "the system")
}
