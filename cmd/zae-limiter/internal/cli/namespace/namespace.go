// Package namespace has the commands for the namespaces of a table.
package namespace

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

// New is the command namespace.
func New(a *app.App) *cobra.Command {
	cmd := app.Group("namespace", "Register, list, delete, recover and purge the namespaces of a table",
		newRegister(a), newList(a), newShow(a), newDelete(a), newOrphans(a), newRecover(a), newPurge(a))
	cmd.Long = cmd.Short + ".\n\nThese commands take namespaces as arguments and ignore --namespace."
	return cmd
}

// view is a namespace in JSON.
type view struct {
	Name    string    `json:"namespace"`
	ID      string    `json:"namespace_id"`
	Created time.Time `json:"created_at"`
}

func viewsOf(namespaces []admin.Namespace) []view {
	views := make([]view, len(namespaces))
	for i, n := range namespaces {
		views[i] = view(n)
	}
	return views
}

// listView are namespaces in JSON.
type listView struct {
	Namespaces []view `json:"namespaces"` // the namespaces by name
}

// printList writes namespaces.
func printList(a *app.App, namespaces []admin.Namespace) error {
	views := viewsOf(namespaces)
	return a.Print(listView{views}, func(w *strings.Builder) {
		rows := make([][]string, len(views))
		for i, v := range views {
			rows[i] = []string{v.Name, v.ID, v.Created.Format(time.RFC3339)}
		}
		app.Table(w, []string{"NAME", "ID", "CREATED"}, rows)
	})
}
