package backup

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

type listOptions struct{ app *app.App }

func newList(a *app.App) *cobra.Command {
	o := &listOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "list",
		Short: "List the on-demand backups of the table, the newest first",
	}), listView{})
}

// listView is the result in JSON.
type listView struct {
	Backups []view `json:"backups"`        // the backups, the newest first
	Note    string `json:"note,omitempty"` // why there are none
}

// Run lists the backups.
func (o *listOptions) Run(ctx context.Context) error {
	table, err := o.app.Table(ctx)
	if err != nil {
		return err
	}
	all, err := table.Backups(ctx)
	if err != nil {
		return err
	}
	views := make([]view, len(all))
	for i := range all {
		views[i] = viewOf(&all[i])
	}
	note := o.app.Explain(len(views) == 0, "table %s has no on-demand backup: make one with zae-limiter backup create", o.app.Flags.Table)
	return o.app.Print(listView{views, note}, func(w *strings.Builder) {
		rows := make([][]string, len(views))
		for i, v := range views {
			rows[i] = []string{v.Name, v.Status, v.Created.Format(time.RFC3339), limitarg.Grouped(v.Bytes), v.ARN}
		}
		app.Table(w, []string{"NAME", "STATUS", "CREATED", "BYTES", "ARN"}, rows)
	})
}
