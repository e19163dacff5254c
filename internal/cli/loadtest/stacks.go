package loadtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	stackcli "github.com/zeroae/zae-limiter-go/internal/cli/stack"
)

// stackLister is the command stacks.
type stackLister struct{ app *app.App }

// NewStacks is the command loadtest stacks.
func NewStacks(a *app.App) *cobra.Command {
	o := &stackLister{a}
	return &cobra.Command{
		Use: "stacks", Short: "List the stacks for load tests in the region", Args: app.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.Run(cmd.Context(), o) },
	}
}

// Validate accepts every command line that parses.
func (o *stackLister) Validate() error { return nil }

// A stackView is a stack for load tests in JSON.
type stackView struct {
	Limiter    string    `json:"limiter"`
	Stack      string    `json:"stack"`
	Status     string    `json:"status"`
	On         bool      `json:"on"`
	Scenario   string    `json:"scenario,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	MaxWorkers string    `json:"max_workers,omitempty"`
	Created    time.Time `json:"created_at"`
	Problem    string    `json:"problem,omitempty"`
}

// Run lists.
func (o *stackLister) Run(ctx context.Context) error {
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
		stackcli.Notef(o.app, "Warning: stacks may be missing: %s\n", problem)
	}
	return o.app.Print(struct {
		Stacks  []stackView `json:"stacks"`
		Problem string      `json:"problem,omitempty"`
	}{views, problem}, func(w *strings.Builder) {
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
