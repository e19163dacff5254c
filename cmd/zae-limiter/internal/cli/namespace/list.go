package namespace

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type listOptions struct{ app *app.App }

func newList(a *app.App) *cobra.Command {
	o := &listOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "list",
		Short: "List the namespaces",
	}), manage.Namespaces{})
}

// Run lists the namespaces.
func (o *listOptions) Run(ctx context.Context) error {
	namespaces, err := o.app.Namespaces(ctx)
	if err != nil {
		return err
	}
	all, err := manage.ListNamespaces(ctx, namespaces)
	if err != nil {
		return err
	}
	return printList(o.app, all)
}
