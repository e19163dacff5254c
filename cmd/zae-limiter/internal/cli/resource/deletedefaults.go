package resource

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

type deleteDefaultsOptions struct {
	app     *app.App
	confirm *app.Confirmation
	level
}

func newDeleteDefaults(a *app.App) *cobra.Command {
	o := &deleteDefaultsOptions{app: a}
	cmd := newLevel(a, "delete-defaults", "Delete the default limits of a resource; the system's then apply", &o.level, o)
	o.confirm = a.Confirmation(cmd)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, app.DeletedLevel{})
}

// Validate checks the resource.
func (o *deleteDefaultsOptions) Validate() error {
	if err := o.level.Validate(); err != nil {
		return err
	}
	return o.confirm.Validate()
}

// Run deletes the limits.
func (o *deleteDefaultsOptions) Run(ctx context.Context) error {
	return o.app.DeleteLimits(ctx, o.confirm, o.ConfigKey, "resource "+o.Resource)
}
