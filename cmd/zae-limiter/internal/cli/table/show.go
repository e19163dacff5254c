package table

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
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
	}), &app.TableView{})
}

// Run shows the table.
func (o *showOptions) Run(ctx context.Context) error {
	table, err := o.app.Table(ctx)
	if err != nil {
		return err
	}
	d, err := table.Describe(ctx)
	if err != nil {
		return err
	}
	v := app.TableViewOf(d)
	return o.app.Print(v, v.Text)
}
