// Package stack has the commands for the CloudFormation stack of a limiter.
package stack

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

// Commands are the commands on stacks. version is the program's.
func Commands(a *app.App, version string) []*cobra.Command {
	return []*cobra.Command{newDeploy(a, version), newUpgrade(a, version), newStatus(a), newList(a), newRollback(a), newDelete(a)}
}

// printer writes plans and events while a command runs. It writes to standard error, and
// nothing with JSON output, where an error is one object.
type printer struct{ app *app.App }

func (p printer) printf(format string, args ...any) {
	if !p.app.Flags.JSON() {
		_, _ = fmt.Fprintf(p.app.Stderr, format, args...) // a lost line of progress ends nothing
	}
}

// event writes one event.
func (p printer) event(e stack.Event) { p.printf("%s\n", eventLine(e)) }

// Progress writes each event of an operation on standard error.
func Progress(a *app.App) func(stack.Event) { return printer{a}.event }

// Notef writes a line on standard error, and nothing with JSON output.
func Notef(a *app.App, format string, args ...any) { printer{a}.printf(format, args...) }

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

// writeChanges writes changes as a table.
func writeChanges(w io.Writer, changes []stack.Change) {
	var b strings.Builder
	app.Table(&b, []string{"ACTION", "RESOURCE", "TYPE", "REPLACEMENT", "CHANGES"}, changeRows(changes))
	_, _ = io.WriteString(w, b.String()) // the question that follows fails, too
}

// approval shows plans and asks whether to execute them.
type approval struct {
	app     *app.App
	confirm *app.Confirmation
}

// approve shows a plan and asks. It asks once: the second part of a first deployment only
// adds the functions.
func (a approval) approve(ctx context.Context, p *stack.Plan) error {
	if !a.app.Flags.JSON() {
		_, _ = fmt.Fprintf(a.app.Stderr, "Changes of stack %s:\n", p.Stack)
		writeChanges(a.app.Stderr, p.Changes)
		if p.Later != "" {
			_, _ = fmt.Fprintf(a.app.Stderr, "Later: %s.\n", p.Later)
		}
	}
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
	Action      string   `json:"action"`
	Resource    string   `json:"resource"`
	Physical    string   `json:"physical_id,omitempty"`
	Type        string   `json:"type"`
	Replacement string   `json:"replacement,omitempty"`
	Scope       []string `json:"scope,omitempty"`
}

func changeViews(changes []stack.Change) []changeView {
	views := make([]changeView, len(changes))
	for i, c := range changes {
		views[i] = changeView{c.Action, c.LogicalID, c.PhysicalID, c.Type, c.Replacement, c.Scope}
	}
	return views
}
