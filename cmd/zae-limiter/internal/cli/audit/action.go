package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// action is the flag that selects events by action.
type action struct{ name string }

// bind adds the flag to a command.
func (a *action) bind(cmd *cobra.Command) {
	cmd.Flags().Var(app.Named(&a.name), "action", "only this `action`, limits_set for instance")
}

// validate refuses what can only be a mistake: what has not the form of an action, or is
// almost a known one. Another word stays searchable, because a peer of another version may
// write it.
func (a *action) validate() error {
	if a.name == "" || a.known() {
		return nil
	}
	if near := app.Alike(a.name, audit.Actions()); len(near) > 0 {
		return fmt.Errorf("unknown --action %q: did you mean %s?", a.name, strings.Join(near, " or "))
	}
	return app.OfFlag(manage.CheckAction(a.name))
}

func (a *action) known() bool { return slices.Contains(audit.Actions(), a.name) }
