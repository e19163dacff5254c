package entity

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
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
	}, &o.id), childrenView{})
}

// Validate checks the ID.
func (o *childrenOptions) Validate() error { return store.CheckEntity(o.id) }

// childrenView is the result in JSON.
type childrenView struct {
	Children []view `json:"children"`       // the entities whose parent it is
	Note     string `json:"note,omitempty"` // why there are none
}

// Run lists the children.
func (o *childrenOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	children, err := store.Children(ctx, o.id)
	if err != nil {
		return err
	}
	views := make([]view, len(children))
	rows := make([][]string, len(children))
	for i, e := range children {
		views[i] = viewOf(e)
		rows[i] = []string{e.ID, e.Name, yesNo(e.Cascade)}
	}
	note := o.app.Explain(len(views) == 0, "no entity of namespace %s has the parent %s", o.app.Flags.Namespace, o.id)
	return o.app.Print(childrenView{views, note}, func(w *strings.Builder) {
		app.Table(w, []string{"ID", "NAME", "CASCADE"}, rows)
	})
}
