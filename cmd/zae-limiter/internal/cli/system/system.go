// Package system has the commands for the limits that hold where neither the
// entity nor the resource has any.
package system

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// New is the command system.
func New(a *app.App) *cobra.Command {
	return app.Group("system", "Set the default limits of all resources, and what to do in an outage",
		newSetDefaults(a), newGetDefaults(a), newDeleteDefaults(a))
}
