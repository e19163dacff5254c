package backup

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type deleteOptions struct {
	app     *app.App
	confirm *app.Confirmation
	arn     string
}

func newDelete(a *app.App) *cobra.Command {
	o := &deleteOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "delete ARN",
		Short: "Delete an on-demand backup of the table",
	}, &o.arn)
	o.confirm = a.Confirmation(cmd)
	return a.Prints(cmd, manage.DeletedBackup{})
}

// Validate checks the ARN, and that there is someone to ask.
func (o *deleteOptions) Validate() error { return cmp.Or(checkARN("ARN", o.arn), o.confirm.Validate()) }

// Run deletes the backup.
func (o *deleteOptions) Run(ctx context.Context) error {
	if err := o.confirm.Ask(ctx, fmt.Sprintf("Delete backup %s of table %q?", o.arn, o.app.Flags.Table)); err != nil {
		return err
	}
	table, err := o.app.Table(ctx)
	if err != nil {
		return err
	}
	deleted, err := manage.DeleteBackup(ctx, table, o.arn)
	if err != nil {
		return err
	}
	return o.app.Print(deleted, func(w *strings.Builder) { fmt.Fprintf(w, "backup %s deleted\n", o.arn) })
}
