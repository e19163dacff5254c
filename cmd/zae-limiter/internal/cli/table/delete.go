package table

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

type deleteOptions struct {
	app     *app.App
	confirm *app.NameConfirmation
}

func newDelete(a *app.App) *cobra.Command {
	o := &deleteOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "delete",
		Short: "Delete the table with everything in it",
		Long: "Delete the table with everything in it, and wait until it is gone. The command asks for the\n" +
			"table's name, or takes it from --confirm.\n\n" +
			"The command refuses a table that a CloudFormation stack owns: delete the stack instead. It\n" +
			"refuses a table whose deletion protection is on. Backups of the table stay.",
		Example: "  zae-limiter table delete --table limits-test --confirm limits-test",
	})
	o.confirm = a.NameConfirmation(cmd)
	return a.Prints(cmd, deletedView{})
}

// Validate checks the confirmation.
func (o *deleteOptions) Validate() error { return o.confirm.Validate(o.app.Flags.Table) }

// deletedView is the result in JSON.
type deletedView struct {
	Name string `json:"table_name"`
}

// Run deletes the table.
func (o *deleteOptions) Run(ctx context.Context) error {
	name := o.app.Flags.Table
	table, err := o.app.Table(ctx)
	if err != nil {
		return err
	}
	d, err := table.Describe(ctx)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Delete table %q, with about %s items?", name, limitarg.Grouped(d.Items))
	if err := o.confirm.Ask(ctx, question, name); err != nil {
		return err
	}
	if err := table.Delete(ctx); err != nil {
		return err
	}
	return o.app.Print(deletedView{name}, func(w *strings.Builder) { fmt.Fprintf(w, "table %s deleted\n", name) })
}
