package stack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

type listOptions struct{ app *app.App }

func newList(a *app.App) *cobra.Command {
	o := &listOptions{a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "list",
		Short: "List the CloudFormation stacks of limiters in the region",
	}), listView{})
}

// view is a stack in JSON.
type view struct {
	Table   string    `json:"table_name"`
	Stack   string    `json:"stack_name"`
	Status  string    `json:"status"`
	Version string    `json:"version,omitempty"` // of the program that deployed it
	Created time.Time `json:"created_at"`
}

// listView is the result in JSON.
type listView struct {
	Stacks  []view `json:"stacks"` // the stacks by name
	Problem string `json:"problem,omitempty"`
}

// Run lists.
func (o *listOptions) Run(ctx context.Context) error {
	m, _, err := o.app.Stacks(ctx)
	if err != nil {
		return err
	}
	l, err := m.List(ctx)
	if err != nil {
		return err
	}
	views := make([]view, len(l.Stacks))
	rows := make([][]string, len(l.Stacks))
	for i, s := range l.Stacks {
		views[i] = view{s.UserName(), s.Name, s.Status, s.Tags[stack.TagVersion], s.Created.UTC()}
		rows[i] = []string{s.UserName(), s.Status, s.Tags[stack.TagVersion], s.Created.UTC().Format(time.DateOnly)}
	}
	problem := ""
	if l.Problem != nil {
		problem = l.Problem.Error()
		o.app.Notef("Warning: stacks may be missing: %s", problem)
	}
	return o.app.Print(listView{views, problem}, func(w *strings.Builder) {
		if len(rows) == 0 {
			w.WriteString("there are no stacks; deploy one with zae-limiter deploy\n")
			return
		}
		app.Table(w, []string{"NAME", "STATUS", "VERSION", "CREATED"}, rows)
		fmt.Fprint(w, tally(l.Stacks))
	})
}

// tally counts stacks by their state.
func tally(all []*stack.Stack) string {
	broken, running := 0, 0
	for _, s := range all {
		if s.Running() {
			running++
		} else if !s.Healthy() {
			broken++
		}
	}
	text := fmt.Sprintf("Total: %d stacks", len(all))
	if len(all) == 1 {
		text = "Total: 1 stack"
	}
	if broken > 0 {
		text += fmt.Sprintf(", %d failed", broken)
	}
	if running > 0 {
		text += fmt.Sprintf(", %d in progress", running)
	}
	return text + "\n"
}
