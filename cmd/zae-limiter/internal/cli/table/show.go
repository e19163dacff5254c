package table

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type showOptions struct{ app *app.App }

func newShow(a *app.App) *cobra.Command {
	o := &showOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:     "show",
		Aliases: []string{"get"},
		Short:   "Show the table: keys, indexes, size, billing, stream, recovery, versions",
		Long: "Show the table: its keys, indexes and their projections, size, billing, expiry, stream,\n" +
			"point-in-time recovery, deletion protection and versions. AWS counts items and bytes about\n" +
			"every six hours.",
	}), &manage.TableView{})
}

// Run shows the table.
func (o *showOptions) Run(ctx context.Context) error {
	table, err := o.app.Table(ctx)
	if err != nil {
		return err
	}
	v, err := manage.ShowTable(ctx, table)
	if err != nil {
		return err
	}
	return o.app.Print(v, func(w *strings.Builder) { app.WriteTable(w, v) })
}
