package namespace

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type registerOptions struct {
	app   *app.App
	names []string
}

func newRegister(a *app.App) *cobra.Command {
	o := &registerOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "register NAME...",
		Short: "Register namespaces; existing ones stay as they are",
	}, &o.names)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.Namespaces{})
}

// Validate checks the names.
func (o *registerOptions) Validate() error {
	return manage.CheckNamespaces(o.names)
}

// Run registers the namespaces.
func (o *registerOptions) Run(ctx context.Context) error {
	namespaces, err := o.app.Namespaces(ctx)
	if err != nil {
		return err
	}
	registered, err := manage.RegisterNamespaces(ctx, namespaces, o.names)
	if err != nil {
		return err
	}
	return printList(o.app, registered)
}
