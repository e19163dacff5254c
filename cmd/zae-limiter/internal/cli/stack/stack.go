// Package stack has the commands for the CloudFormation stack of a limiter.
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

// Commands are the commands on stacks. version is the program's.
func Commands(a *app.App, version string) []*cobra.Command {
	return []*cobra.Command{newDeploy(a, version), newUpgrade(a, version), newStatus(a), newList(a), newRollback(a), newDelete(a)}
}

// Progress writes each event of an operation while it runs.
func Progress(a *app.App) func(stack.Event) {
	return func(e stack.Event) { a.Notef("%s", eventLine(e)) }
}

// eventLine is an event on a line.
func eventLine(e stack.Event) string {
	line := e.Time.UTC().Format(time.TimeOnly) + "  " + e.Status + "  " + e.LogicalID
	if e.Took > 0 {
		line += " (" + e.Took.Round(time.Second).String() + ")"
	}
	if e.Reason != "" {
		line += "  " + e.Reason
	}
	return line
}

// changeRows are changes as rows of a table.
func changeRows(changes []stack.Change) [][]string {
	rows := make([][]string, len(changes))
	for i, c := range changes {
		var why []string
		for _, d := range c.Details {
			if d.Name != "" {
				why = append(why, d.Name)
			} else {
				why = append(why, d.Attribute)
			}
		}
		rows[i] = []string{c.Action, c.LogicalID, c.Type, c.Replacement, strings.Join(why, ", ")}
	}
	return rows
}

// approval shows plans and asks whether to execute them.
type approval struct {
	app     *app.App
	confirm *app.Confirmation
}

// approve shows a plan and asks. It asks once: the second part of a first deployment only
// adds the functions.
func (a approval) approve(ctx context.Context, p *stack.Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Changes of stack %s:\n", p.Stack)
	app.Table(&b, []string{"ACTION", "RESOURCE", "TYPE", "REPLACEMENT", "CHANGES"}, changeRows(p.Changes))
	if p.Later != "" {
		fmt.Fprintf(&b, "Later: %s.\n", p.Later)
	}
	a.confirm.Show(b.String())
	if p.Continues {
		return nil
	}
	verb := "Change"
	if p.Creates {
		verb = "Create"
	}
	return a.confirm.Ask(ctx, fmt.Sprintf("%s stack %q?", verb, p.Stack))
}

// changeView is a change in JSON.
type changeView struct {
	Action      string   `json:"action"` // what CloudFormation does to the resource
	LogicalID   string   `json:"logical_id"`
	PhysicalID  string   `json:"physical_id,omitempty"`
	Type        string   `json:"type"`                  // type of the resource, AWS::DynamoDB::Table for instance
	Replacement string   `json:"replacement,omitempty"` // whether a new resource replaces the old one
	Scope       []string `json:"scope,omitempty"`       // parts of the resource that change
}

func changeViews(changes []stack.Change) []changeView {
	views := make([]changeView, len(changes))
	for i, c := range changes {
		views[i] = changeView{c.Action, c.LogicalID, c.PhysicalID, c.Type, c.Replacement, c.Scope}
	}
	return views
}
