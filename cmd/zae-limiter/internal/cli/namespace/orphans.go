package namespace

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
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
	}), orphansView{})
}

// orphan is an orphaned namespace in JSON.
type orphan struct {
	Name    string            `json:"namespace"`
	ID      string            `json:"namespace_id"`
	State   admin.OrphanState `json:"state"`
	Deleted *time.Time        `json:"deleted_at,omitempty"`
}

// orphanOf leaves out an unknown time.
func orphanOf(o *admin.Orphan) orphan {
	v := orphan{Name: o.Name, ID: o.ID, State: o.State}
	if !o.Deleted.IsZero() {
		v.Deleted = &o.Deleted
	}
	return v
}

// orphansView is the result in JSON.
type orphansView struct {
	Orphans []orphan `json:"orphans"`        // the namespaces without a name
	Note    string   `json:"note,omitempty"` // why there are none
}

// Run lists the orphans.
func (o *orphansOptions) Run(ctx context.Context) error {
	namespaces, err := o.app.Namespaces(ctx)
	if err != nil {
		return err
	}
	all, err := namespaces.Orphans(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	views := make([]orphan, len(all))
	for i := range all {
		views[i] = orphanOf(&all[i])
	}
	note := o.app.Explain(len(views) == 0 && err == nil, "every namespace of table %s has its name", o.app.Flags.Table)
	return errors.Join(err, o.app.Print(orphansView{views, note}, func(w *strings.Builder) {
		rows := make([][]string, len(views))
		for i, v := range views {
			deleted := ""
			if v.Deleted != nil {
				deleted = v.Deleted.Format(time.RFC3339)
			}
			rows[i] = []string{v.ID, v.Name, string(v.State), deleted}
		}
		app.Table(w, []string{"ID", "NAME", "STATE", "DELETED"}, rows)
	}))
}
