// Package table has the commands for the table itself.
package table

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// New is the command table.
func New(a *app.App) *cobra.Command {
	return app.Group("table", "Create, show and delete the table, and enable its stream",
		newCreate(a), newShow(a), newDelete(a), newEnableStream(a))
}
