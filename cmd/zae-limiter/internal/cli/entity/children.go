package entity

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

type childrenOptions struct {
	app *app.App
	id  string
}

func newChildren(a *app.App) *cobra.Command {
	o := &childrenOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "children ID",
		Short: "List the children of an entity",
	}, &o.id), manage.Children{})
}

// Validate checks the ID.
func (o *childrenOptions) Validate() error { return store.CheckEntity(o.id) }

// Run lists the children.
func (o *childrenOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	v, err := manage.ListChildren(ctx, store, o.id)
	if err != nil {
		return err
	}
	rows := make([][]string, len(v.Children))
	for i, e := range v.Children {
		rows[i] = []string{e.ID, e.Name, yesNo(e.Cascade)}
	}
	o.app.Remark(v.Note)
	return o.app.Print(v, func(w *strings.Builder) {
		app.Table(w, []string{"ID", "NAME", "CASCADE"}, rows)
	})
}
