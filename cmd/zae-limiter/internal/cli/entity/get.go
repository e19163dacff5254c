package entity

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

type getOptions struct {
	app *app.App
	id  string
}

func newGet(a *app.App) *cobra.Command {
	o := &getOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:     "get ID",
		Aliases: []string{"show"},
		Short:   "Show an entity",
	}, &o.id), manage.Entity{})
}

// Validate checks the ID.
func (o *getOptions) Validate() error { return store.CheckEntity(o.id) }

// Run shows the entity.
func (o *getOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	v, err := manage.GetEntity(ctx, store, o.id)
	if err != nil {
		return err
	}
	return o.app.Print(v, func(w *strings.Builder) { text(w, &v) })
}
