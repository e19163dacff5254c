package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// action is the flag that selects events by action.
type action struct{ name string }

// bind adds the flag to a command.
func (a *action) bind(cmd *cobra.Command) {
	cmd.Flags().Var(app.Named(&a.name), "action", "only this `action`, limits_set for instance")
}

// actionForm is the form of all actions that this project and the Python package write.
var actionForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

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
	if !actionForm.MatchString(a.name) {
		return fmt.Errorf("invalid --action %q: give one of %s", a.name, strings.Join(audit.Actions(), ", "))
	}
	return nil
}

func (a *action) known() bool { return slices.Contains(audit.Actions(), a.name) }

// none says why there is no event: usually as the words say, but an action that this version does
// not know may be none at all.
func (a *action) none(to *app.App, empty bool, usually string) (note string) {
	if a.name != "" && !a.known() {
		usually = fmt.Sprintf("No event here has the action %s, and this version does not know it. It knows %s.", a.name, strings.Join(audit.Actions(), ", "))
	}
	return to.Explain(empty, "%s", usually)
}
