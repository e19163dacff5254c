// Package namespace has the commands for the namespaces of a table.
package namespace

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// New is the command namespace.
func New(a *app.App) *cobra.Command {
	cmd := app.Group("namespace", "Register, list, delete, recover and purge the namespaces of a table",
		newRegister(a), newList(a), newShow(a), newDelete(a), newOrphans(a), newRecover(a), newPurge(a))
	cmd.Long = cmd.Short + ".\n\nThese commands take namespaces as arguments and ignore --namespace."
	return cmd
}

// printList writes namespaces.
func printList(a *app.App, all manage.Namespaces) error {
	return a.Print(all, func(w *strings.Builder) {
		rows := make([][]string, len(all.Namespaces))
		for i, v := range all.Namespaces {
			rows[i] = []string{v.Name, v.ID, v.Created.Format(time.RFC3339)}
		}
		app.Table(w, []string{"NAME", "ID", "CREATED"}, rows)
	})
}
