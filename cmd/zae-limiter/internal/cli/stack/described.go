package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

// A Described is a stack that options describe: that of a limiter, or the one for its load
// tests.
type Described interface {
	Name() string
	Template() []byte
	Parameters() []deploy.Parameter
	Tags() []deploy.Tag
}

// SpecOf is what a stack is to become.
func SpecOf(of Described, allow []string) stack.Spec {
	s := stack.Spec{
		Name: of.Name(), Template: string(of.Template()), AllowReplacement: allow,
		Parameters: map[string]string{}, Tags: map[string]string{},
	}
	for _, p := range of.Parameters() {
		s.Parameters[p.Key] = p.Value
	}
	for _, t := range of.Tags() {
		s.Tags[t.Key] = t.Value
	}
	return s
}

// A DryRunView is what a rollout would do, in JSON.
type DryRunView struct {
	Stack      string             `json:"stack_name"`
	Exists     bool               `json:"exists"`          // the stack exists
	Changes    []changeView       `json:"changes"`         // what would change
	Later      string             `json:"later,omitempty"` // what a second rollout would add
	Parameters []deploy.Parameter `json:"parameters"`
	Tags       []deploy.Tag       `json:"tags"`
	Template   string             `json:"template"`
}

// ShowPlan prints what would be deployed: template, parameters, and the first change set.
func ShowPlan(ctx context.Context, a *app.App, m *stack.Manager, run stack.Rollout, spec Described) error {
	p, err := m.Preview(ctx, run)
	if err != nil {
		return err
	}
	exists := p.StackID != ""
	return a.Print(DryRunView{spec.Name(), exists, changeViews(p.Changes), p.Later, spec.Parameters(), spec.Tags(), string(spec.Template())}, func(w *strings.Builder) {
		w.Write(spec.Template())
		w.WriteString("\n# Parameters\n")
		for _, p := range spec.Parameters() {
			fmt.Fprintf(w, "# %s=%s\n", p.Key, p.Value)
		}
		switch {
		case !exists:
			fmt.Fprintf(w, "# Stack %s does not exist: what is not imported is new. The list is from the template,\n# because CloudFormation lists changes only of a stack, and a dry run makes none.\n", spec.Name())
		case len(p.Changes) == 0:
			fmt.Fprintf(w, "# Stack %s: no changes.\n", spec.Name())
		}
		for _, row := range changeRows(p.Changes) {
			fmt.Fprintf(w, "# %s\n", strings.Join(slices.DeleteFunc(row, func(s string) bool { return s == "" }), "  "))
		}
		if p.Later != "" {
			fmt.Fprintf(w, "# Later: %s.\n", p.Later)
		}
	})
}
