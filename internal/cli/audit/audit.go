// Package audit has the commands for the trail of who changed what.
package audit

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

// New is the command audit.
func New(a *app.App) *cobra.Command {
	return app.Group("audit", "Read who changed what, and set for how long that is kept",
		newList(a), newSearch(a), newGetRetention(a), newSetRetention(a))
}
