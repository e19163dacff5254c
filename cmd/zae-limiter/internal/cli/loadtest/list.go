package loadtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

// lister is the command list.
type lister struct{ app *app.App }

// NewList is the command loadtest list.
func NewList(a *app.App) *cobra.Command {
	o := &lister{a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use: "list", Short: "List the stacks for load tests in the region",
		Long: "List the stacks for load tests in the region. `loadtest scenarios` lists scenarios.",
	}), stackList{})
}

// A stackView is a stack for load tests in JSON.
type stackView struct {
	Limiter    string    `json:"table_name"`
	Stack      string    `json:"stack_name"`
	Status     string    `json:"status"`
	On         bool      `json:"on"` // the master runs
	Scenario   string    `json:"scenario,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	MaxWorkers string    `json:"max_workers,omitempty"` // the most workers
	Created    time.Time `json:"created_at"`
	Problem    string    `json:"problem,omitempty"`
}

// stackList is the result in JSON.
type stackList struct {
	Stacks  []stackView `json:"stacks"` // the stacks by name
	Problem string      `json:"problem,omitempty"`
}

// Run lists.
func (o *lister) Run(ctx context.Context) error {
	m, _, err := o.app.StacksOf(ctx, stack.TypeLoadTest)
	if err != nil {
		return err
	}
	l, err := m.List(ctx)
	if err != nil {
		return err
	}
	views, rows := make([]stackView, len(l.Stacks)), make([][]string, len(l.Stacks))
	for i, s := range l.Stacks {
		v := stackView{
			Limiter: s.UserName(), Stack: s.Name, Status: s.Status, On: s.Parameters["MasterCount"] == "1", Scenario: s.Parameters["Scenario"],
			Namespace: s.Parameters["Namespace"], MaxWorkers: s.Parameters["MaxWorkers"], Created: s.Created.UTC(),
		}
		if problem := s.Problem(); problem != nil {
			v.Problem = problem.Error()
		}
		views[i] = v
		rows[i] = []string{v.Limiter, v.Status, map[bool]string{true: "on", false: "off"}[v.On], v.Scenario, v.Namespace, v.MaxWorkers, v.Created.Format(time.DateOnly)}
	}
	problem := ""
	if l.Problem != nil {
		problem = l.Problem.Error()
		o.app.Notef("Warning: stacks may be missing: %s", problem)
	}
	return o.app.Print(stackList{views, problem}, func(w *strings.Builder) {
		if len(rows) == 0 {
			w.WriteString("there are no stacks for load tests; deploy one with zae-limiter loadtest deploy\n")
			return
		}
		app.Table(w, []string{"LIMITER", "STATUS", "MASTER", "SCENARIO", "NAMESPACE", "WORKERS", "CREATED"}, rows)
		for _, v := range views {
			if v.Problem != "" {
				fmt.Fprintf(w, "%s\n", v.Problem)
			}
		}
	})
}
