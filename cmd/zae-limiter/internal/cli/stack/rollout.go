package stack

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

// rolloutFlags are the flags that deploy and upgrade share.
type rolloutFlags struct {
	code   stackarg.CodeFlags
	allow  []string
	noWait bool
}

func (f *rolloutFlags) bind(cmd *cobra.Command) {
	f.code.Bind(cmd)
	cmd.Flags().Var(app.NamedList(&f.allow), "allow-replacement", "logical ID of a `resource` with data that the change may remove or\nreplace; may be repeated")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "return when the first operation has started")
}

// Rollout deploys, with the plans and the progress on standard error.
func Rollout(ctx context.Context, a *app.App, m *stack.Manager, confirm *app.Confirmation, r stack.Rollout) (stack.Outcome, error) {
	r.Approve = approval{a, confirm}.approve
	r.Progress = Progress(a)
	return m.Deploy(ctx, r)
}

// Next are the commands that continue after a deployment.
type Next struct {
	Follow string // shows what becomes of an operation that runs
	Again  string // does what is left undone
}

// nextOf are the commands on the stack of a limiter.
func nextOf(name string) Next {
	return Next{"zae-limiter status --watch -n " + name, "zae-limiter deploy"}
}

// A RolloutView is what a rollout did, in JSON.
type RolloutView struct {
	Stack     string            `json:"stack_name"`
	ID        string            `json:"stack_id"`
	Status    string            `json:"status"`
	Changes   []changeView      `json:"changes"`                      // what was changed
	Repaired  []string          `json:"repaired_functions,omitempty"` // functions that somebody changed by hand, and that are as the stack says again
	Remaining []string          `json:"remaining,omitempty"`          // what --no-wait left undone; the same command again does it
	Outputs   map[string]string `json:"outputs"`
}

// PrintOutcome writes what a deployment did.
func PrintOutcome(a *app.App, out stack.Outcome, next Next) error {
	return a.Print(RolloutView{out.Stack.Name, out.Stack.ID, out.Stack.Status, changeViews(out.Changes), out.Repaired, out.Remaining, out.Stack.Outputs}, func(w *strings.Builder) {
		for _, function := range out.Repaired {
			fmt.Fprintf(w, "function %s was changed by hand, and is as the stack says again\n", function)
		}
		switch {
		case len(out.Changes) == 0:
			fmt.Fprintf(w, "stack %s is up to date\n", out.Stack.Name)
		case len(out.Remaining) == 0 && !out.Stack.Running():
			fmt.Fprintf(w, "stack %s is deployed, with %d changes\n", out.Stack.Name, len(out.Changes))
		default:
			fmt.Fprintf(w, "stack %s is %s; follow it with %s\n", out.Stack.Name, out.Stack.Status, next.Follow)
			if len(out.Remaining) > 0 {
				fmt.Fprintf(w, "To do the rest, run %s again: %s\n", next.Again, strings.Join(out.Remaining, ", "))
			}
		}
	})
}
