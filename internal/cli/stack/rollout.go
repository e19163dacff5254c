package stack

import (
	"context"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

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
