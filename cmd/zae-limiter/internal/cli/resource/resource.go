// Package resource has the commands for the limits that hold for a resource,
// unless an entity has its own.
package resource

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/store"
)

// New is the command resource.
func New(a *app.App) *cobra.Command {
	return app.Group("resource", "Set the default limits of resources",
		newSetDefaults(a), newGetDefaults(a), newDeleteDefaults(a), newList(a))
}

// level is the level of configuration that a command is about.
type level struct{ limiter.ConfigKey }

// Validate checks the name.
func (l *level) Validate() error { return store.CheckResource(l.Resource) }

func newLevel(a *app.App, verb, short string, l *level, r app.Runner) *cobra.Command {
	return a.Command(r, &cobra.Command{
		Use:   verb + " RESOURCE",
		Short: short,
	}, &l.Resource)
}
