package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

// rolloutFlags are the flags that deploy and upgrade share.
type rolloutFlags struct {
	zip, binary string
	allow       []string
	noWait      bool
}

func (f *rolloutFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.binary, "binary", "", "`file` of the program that the functions run, built for Linux\n(default the running program)")
	cmd.Flags().StringVar(&f.zip, "lambda-zip", "", "`file` with the code of the functions, as lambda-export writes it,\ninstead of --binary")
	cmd.Flags().StringArrayVar(&f.allow, "allow-replacement", nil, "logical ID of a `resource` with data that the change may remove or\nreplace; may be repeated")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "return when the first operation has started")
}

func (f *rolloutFlags) validate() error {
	if f.zip != "" && f.binary != "" {
		return errors.New("--binary and --lambda-zip contradict each other: give one of them")
	}
	return nil
}

// rollout deploys, with the plans and the progress on standard error.
func rollout(ctx context.Context, a *app.App, m *stack.Manager, confirm *app.Confirmation, r stack.Rollout) (stack.Outcome, error) {
	r.Approve = approval{a, confirm}.approve
	r.Progress = printer{a}.event
	return m.Deploy(ctx, r)
}

// printOutcome writes what a deployment did.
func printOutcome(a *app.App, out stack.Outcome) error {
	return a.Print(struct {
		Stack     string            `json:"stack"`
		ID        string            `json:"id"`
		Status    string            `json:"status"`
		Changes   []changeView      `json:"changes"`
		Remaining []string          `json:"remaining,omitempty"`
		Outputs   map[string]string `json:"outputs"`
	}{out.Stack.Name, out.Stack.ID, out.Stack.Status, changeViews(out.Changes), out.Remaining, out.Stack.Outputs}, func(w *strings.Builder) {
		switch {
		case len(out.Changes) == 0:
			fmt.Fprintf(w, "stack %s is up to date\n", out.Stack.Name)
		case len(out.Remaining) == 0:
			fmt.Fprintf(w, "stack %s is deployed, with %d changes\n", out.Stack.Name, len(out.Changes))
		default:
			fmt.Fprintf(w, "stack %s is %s; follow it with zae-limiter status --watch -n %s\n", out.Stack.Name, out.Stack.Status, out.Stack.Name)
			fmt.Fprintf(w, "To do the rest, run zae-limiter deploy again: %s\n", strings.Join(out.Remaining, ", "))
		}
	})
}
