package entity

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/store"
)

// level is the level of configuration that a command is about.
type level struct{ limiter.ConfigKey }

func (l *level) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&l.Resource, "resource", "r", limiter.DefaultResource,
		"`resource` that the limits are for. By default they are for every\nresource for which the entity has no other limits, and hold\ninstead of the defaults of resources and of the system")
}

// Validate checks the names.
func (l *level) Validate() error {
	if err := store.CheckEntity(l.Entity); err != nil {
		return err
	}
	if err := store.CheckConfigResource(l.Resource); err != nil {
		return fmt.Errorf("--resource: %w", err)
	}
	return nil
}

// String names the level in questions and results.
func (l *level) String() string { return "entity " + l.Entity + " for " + l.Resource }

// newLimits is a command about a level. It sets the level's entity before it runs r.
func newLimits(a *app.App, verb, short string, l *level, r app.Runner) *cobra.Command {
	cmd := a.Command(r, &cobra.Command{
		Use:   verb + " ID",
		Short: short,
	}, &l.Entity)
	l.bind(cmd)
	return cmd
}
