package namespace

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
	name    string
}

func newDelete(a *app.App) *cobra.Command {
	o := &deleteOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a namespace, leaving its items in the table",
		Long: "Delete a namespace's name. Its items stay in the table, under its ID, but cannot be found\n" +
			"by name. Registering the name again creates an empty namespace.\n\n" +
			"Until someone purges the ID, zae-limiter namespace recover brings back its entities and\n" +
			"limits. Its idle buckets, usage and audit events continue to expire. Programs that have\n" +
			"resolved the name continue to use the namespace until they end.",
	}, &o.name)
	o.confirm = a.Confirmation(cmd)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.DeletedNamespace{})
}

// Validate checks the name.
func (o *deleteOptions) Validate() error {
	if err := store.CheckNamespace(o.name); err != nil {
		return err
	}
	return o.confirm.Validate()
}

// Run deletes the namespace.
func (o *deleteOptions) Run(ctx context.Context) error {
	if err := o.confirm.Ask(ctx, fmt.Sprintf("Delete namespace %q of table %q?", o.name, o.app.Flags.Table)); err != nil {
		return err
	}
	namespaces, err := o.app.Namespaces(ctx)
	if err != nil {
		return err
	}
	o.app.FindsNamespace = true
	n, err := manage.DeleteNamespace(ctx, namespaces, o.name)
	if err != nil {
		return err
	}
	return o.app.Print(n, func(w *strings.Builder) {
		fmt.Fprintf(w, "namespace %s deleted\n", o.name)
		fmt.Fprintf(w, "until it is purged, zae-limiter namespace recover %s brings back what has not expired\n", n.ID)
	})
}
