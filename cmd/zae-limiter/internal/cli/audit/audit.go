// Package audit has the commands for the audit trail.
package audit

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// New is the command audit.
func New(a *app.App) *cobra.Command {
	return app.Group("audit", "Read the audit trail, and set how long it is kept",
		newList(a), newGetRetention(a), newSetRetention(a))
}
