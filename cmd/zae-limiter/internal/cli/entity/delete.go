package entity

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

type deleteOptions struct {
	app     *app.App
	confirm *app.Confirmation
	id      string
}

func newDelete(a *app.App) *cobra.Command {
	o := &deleteOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "delete ID",
		Short: "Delete an entity with its limits, buckets and usage",
		Long: "Delete an entity with its limits, buckets and usage. Its audit events stay, and its\n" +
			"children still name it as their parent.",
	}, &o.id)
	o.confirm = a.Confirmation(cmd)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.DeletedEntity{})
}

// Validate checks the ID.
func (o *deleteOptions) Validate() error {
	if err := store.CheckEntity(o.id); err != nil {
		return err
	}
	return o.confirm.Validate()
}

// Run deletes the entity.
func (o *deleteOptions) Run(ctx context.Context) error {
	if err := o.confirm.Ask(ctx, fmt.Sprintf("Delete entity %q with its limits, buckets and usage?", o.id)); err != nil {
		return err
	}
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	v, err := manage.DeleteEntity(ctx, store, o.id)
	if err != nil {
		return err
	}
	return o.app.Print(v, func(w *strings.Builder) {
		fmt.Fprintf(w, "entity %s deleted, %d items\n", o.id, v.Items)
	})
}
