package namespace

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

type showOptions struct {
	app  *app.App
	name string
}

func newShow(a *app.App) *cobra.Command {
	o := &showOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:     "show NAME",
		Aliases: []string{"get"},
		Short:   "Show a namespace",
	}, &o.name), manage.Namespace{})
}

// Validate checks the name.
func (o *showOptions) Validate() error { return store.CheckNamespace(o.name) }

// Run shows the namespace.
func (o *showOptions) Run(ctx context.Context) error {
	namespaces, err := o.app.Namespaces(ctx)
	if err != nil {
		return err
	}
	o.app.FindsNamespace = true
	n, err := manage.GetNamespace(ctx, namespaces, o.name)
	if err != nil {
		return err
	}
	return o.app.Print(n, func(w *strings.Builder) {
		app.Fields(w, "Name", n.Name, "ID", n.ID, "Created", n.Created.Format(time.RFC3339))
	})
}
