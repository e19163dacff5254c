package backup

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type listOptions struct{ app *app.App }

func newList(a *app.App) *cobra.Command {
	o := &listOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "list",
		Short: "List the on-demand backups of the table, the newest first",
	}), manage.Backups{})
}

// Run lists the backups.
func (o *listOptions) Run(ctx context.Context) error {
	table, err := o.app.Table(ctx)
	if err != nil {
		return err
	}
	all, err := manage.ListBackups(ctx, table, o.app.Flags.Table)
	if err != nil {
		return err
	}
	o.app.Remark(all.Note)
	return o.app.Print(all, func(w *strings.Builder) {
		rows := make([][]string, len(all.Backups))
		for i, v := range all.Backups {
			rows[i] = []string{v.Name, v.Status, v.Created.Format(time.RFC3339), limitarg.Grouped(v.Bytes), v.ARN}
		}
		app.Table(w, []string{"NAME", "STATUS", "CREATED", "BYTES", "ARN"}, rows)
	})
}
