package stack

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

type rollbackOptions struct {
	app     *app.App
	confirm *app.Confirmation
	skip    []string
	noWait  bool
}

func newRollback(a *app.App) *cobra.Command {
	o := &rollbackOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "rollback",
		Short: "Cancel a running update of the stack, or continue a rollback that failed",
		Long: "Return a stack to the state before its last update. The command cancels an update that runs.\n" +
			"It continues a rollback that failed, once its cause is corrected. With --skip, a resource\n" +
			"stays as it is, and differs from the stack until the next deploy.",
	})
	o.confirm = a.Confirmation(cmd)
	cmd.Flags().Var(app.NamedList(&o.skip), "skip", "logical ID of a `resource` that failed to return, to leave as it is;\nmay be repeated")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return when CloudFormation has begun")
	return a.Prints(cmd, rollbackView{})
}

// Validate checks the flags.
func (o *rollbackOptions) Validate() error {
	return o.confirm.Validate()
}

// rollbackView is the result in JSON.
type rollbackView struct {
	Stack  string `json:"stack_name"`
	ID     string `json:"stack_id"`
	Status string `json:"status"`
}

// Run rolls back.
func (o *rollbackOptions) Run(ctx context.Context) error {
	m, _, err := o.app.Stacks(ctx)
	if err != nil {
		return err
	}
	live, err := m.Find(ctx, o.app.Flags.Table)
	if err != nil {
		return err
	}
	if err := o.confirm.Ask(ctx, fmt.Sprintf("Return stack %q (%s) to the state before its last update?", live.Name, live.Status)); err != nil {
		return err
	}
	s, err := m.Rollback(ctx, stack.Rollback{Name: live.ID, Skip: o.skip, Background: o.noWait, Progress: Progress(o.app)})
	if err != nil {
		return err
	}
	return o.app.Print(rollbackView{s.Name, s.ID, s.Status}, func(w *strings.Builder) {
		if s.Running() {
			fmt.Fprintf(w, "stack %s is %s; follow it with zae-limiter status --watch -n %s\n", s.Name, s.Status, s.Name)
			return
		}
		fmt.Fprintf(w, "stack %s is as before its last update\n", s.Name)
	})
}
