package namespace

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

type orphansOptions struct{ app *app.App }

func newOrphans(a *app.App) *cobra.Command {
	o := &orphansOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "orphans",
		Short: "List the namespaces without a name, which can be recovered or purged",
		Long: "List the namespaces whose items are in the table although no name leads to them:\n" +
			"  deleted   it can be recovered or purged\n" +
			"  stranded  the Python package did not finish its deletion; it can be recovered or purged\n" +
			"  purging   a purge has begun, and can only be completed",
	}), manage.Orphans{})
}

// Run lists the orphans.
func (o *orphansOptions) Run(ctx context.Context) error {
	namespaces, err := o.app.Namespaces(ctx)
	if err != nil {
		return err
	}
	all, err := manage.ListOrphans(ctx, namespaces, o.app.Flags.Table)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	o.app.Remark(all.Note)
	return errors.Join(err, o.app.Print(all, func(w *strings.Builder) {
		rows := make([][]string, len(all.Orphans))
		for i, v := range all.Orphans {
			deleted := ""
			if v.Deleted != nil {
				deleted = v.Deleted.Format(time.RFC3339)
			}
			rows[i] = []string{v.ID, v.Name, string(v.State), deleted}
		}
		app.Table(w, []string{"ID", "NAME", "STATE", "DELETED"}, rows)
	}))
}
