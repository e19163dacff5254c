// Package system has the commands for the limits that hold where neither the
// entity nor the resource has any.
package system

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// New is the command system.
func New(a *app.App) *cobra.Command {
	return app.Group("system", "Set the default limits of all resources, and what to do in an outage",
		a.SetsLimits(limiter.LevelSystem, &cobra.Command{
			Use: "set-defaults", Short: "Replace the default limits of all resources, what to do in an outage, or both",
			Example: "  zae-limiter system set-defaults --limit rpm:60 --on-unavailable allow",
		}, "A setting that is not given stays as it is."),
		a.GetsLimits(limiter.LevelSystem, &cobra.Command{
			Use: "get-defaults", Short: "Show the default limits of all resources, and what to do in an outage",
		}),
		a.DeletesLimits(limiter.LevelSystem, &cobra.Command{
			Use: "delete-defaults", Short: "Delete the default limits of all resources, and what to do in an outage",
		}),
		a.SetsSlots(limiter.LevelSystem))
}
