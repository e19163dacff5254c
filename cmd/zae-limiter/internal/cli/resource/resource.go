// Package resource has the commands for the limits that hold for a resource,
// unless an entity has its own.
package resource

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// New is the command resource.
func New(a *app.App) *cobra.Command {
	cmd := app.Group("resource", "Set the default limits of resources",
		a.SetsLimits(limiter.LevelResource, &cobra.Command{
			Use: "set-defaults", Short: "Replace the default limits of a resource",
			Example: "  zae-limiter resource set-defaults gpt-4 --limit rpm:100 --limit tpm:10000:15000\n" +
				"  zae-limiter resource set-defaults gpt-4 --limit 'budget:5000000@month from day 15@Europe/Berlin'",
		}, "Levels are not merged: these limits hold instead of those of the system. Requests of\n"+
			"entities without limits of their own fail if they name another limit. With\n"+
			"--keep-defaults, the other limits of the system are set, too."),
		a.GetsLimits(limiter.LevelResource, &cobra.Command{Use: "get-defaults", Short: "Show the default limits of a resource"}),
		a.DeletesLimits(limiter.LevelResource, &cobra.Command{
			Use: "delete-defaults", Short: "Delete the default limits of a resource; the system's then apply",
		}),
		newList(a), a.SetsCascade(limiter.LevelResource), a.SetsSlots(limiter.LevelResource))
	cmd.AddCommand(a.Raises(limiter.LevelResource))
	cmd.AddCommand(a.Switches(limiter.LevelResource)...)
	return cmd
}
