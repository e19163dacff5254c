package entity

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

type deleteLimitsOptions struct {
	app     *app.App
	confirm *app.Confirmation
	level
}

func newDeleteLimits(a *app.App) *cobra.Command {
	o := &deleteLimitsOptions{app: a}
	cmd := newLimits(a, "delete-limits", "Delete an entity's own limits for a resource; the next level then applies", &o.level, o)
	o.confirm = a.Confirmation(cmd)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, app.DeletedLevel{})
}

// Validate checks the level.
func (o *deleteLimitsOptions) Validate() error {
	if err := o.level.Validate(); err != nil {
		return err
	}
	return o.confirm.Validate()
}

// Run deletes the limits.
func (o *deleteLimitsOptions) Run(ctx context.Context) error {
	return o.app.DeleteLimits(ctx, o.confirm, o.ConfigKey, o.String())
}
