package backup

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

type createOptions struct {
	app  *app.App
	name string
}

func newCreate(a *app.App) *cobra.Command {
	o := &createOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:     "create NAME",
		Short:   "Make an on-demand backup of the table, and wait until it is available",
		Example: "  zae-limiter backup create before-upgrade --table limits",
	}, &o.name), manage.Backup{})
}

// Validate checks the name.
func (o *createOptions) Validate() error { return admin.CheckBackupName(o.name) }

// Run makes the backup.
func (o *createOptions) Run(ctx context.Context) error {
	table, err := o.app.Table(ctx)
	if err != nil {
		return err
	}
	b, err := manage.CreateBackup(ctx, table, o.name)
	if err != nil {
		return err
	}
	return o.app.Print(b, func(w *strings.Builder) {
		fmt.Fprintf(w, "backup %s is %s: %s\n", b.Name, b.Status, b.ARN)
	})
}
