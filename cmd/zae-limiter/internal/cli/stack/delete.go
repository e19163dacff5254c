package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/store"
)

type deleteOptions struct {
	app     *app.App
	confirm *app.Confirmation
	data    string
	retain  []string
	noWait  bool
}

func newDelete(a *app.App) *cobra.Command {
	o := &deleteOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "delete",
		Short: "Delete the CloudFormation stack; table and archive stay",
		Long: "Delete a stack. The table and the archive stay, outside any stack, unless --delete-data repeats\n" +
			"the stack's name. If the stack does not exist, the command says so and succeeds.",
	})
	o.confirm = a.Confirmation(cmd)
	cmd.Flags().Var(app.Named(&o.data), "delete-data", "delete table and archive, too: `NAME` repeats the stack's name")
	cmd.Flags().Var(app.NamedList(&o.retain), "retain", "logical ID of a `resource` to leave; only for a stack whose deletion\nfailed; may be repeated")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return when CloudFormation has begun to delete")
	return a.Prints(cmd, deletedView{})
}

// Validate checks that the data to delete is named.
func (o *deleteOptions) Validate() error {
	if o.data != "" && o.data != o.app.Flags.Table {
		return fmt.Errorf("invalid --delete-data %q: give %s, the stack's name, to delete its table and archive", o.data, o.app.Flags.Table)
	}
	return o.confirm.Validate()
}

// Run deletes.
func (o *deleteOptions) Run(ctx context.Context) error {
	m, _, err := o.app.Stacks(ctx)
	if err != nil {
		return err
	}
	name := o.app.Flags.Table
	live, err := m.Find(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return o.print(stack.Remainder{}, "stack "+name+" does not exist")
	}
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Delete stack %q (%s) and keep its table and archive?", name, live.Status)
	if o.data != "" {
		question = fmt.Sprintf("Delete stack %q (%s) with its table, its archive and all data?", name, live.Status)
	}
	if err := o.confirm.Ask(ctx, question); err != nil {
		return err
	}
	left, err := m.Delete(ctx, stack.Deletion{
		Name: live.ID, Data: o.data != "", Retain: o.retain, Background: o.noWait, Progress: Progress(o.app),
	})
	switch {
	case err != nil:
		return err
	case o.noWait:
		return o.print(left, "stack "+name+" is being deleted")
	}
	return o.print(left, "stack "+name+" deleted")
}

// keptView is a resource that a deletion leaves, in JSON.
type keptView struct {
	LogicalID  string `json:"logical_id"`
	Type       string `json:"type"` // type of the resource, AWS::DynamoDB::Table for instance
	PhysicalID string `json:"physical_id"`
}

// deletedView is the result in JSON.
type deletedView struct {
	Stack string `json:"stack_name"`
	// Kept are the resources that stay, outside any stack.
	Kept []keptView `json:"kept"`
}

func (o *deleteOptions) print(left stack.Remainder, text string) error {
	kept := []keptView{}
	for _, r := range left.Kept {
		kept = append(kept, keptView{r.LogicalID, r.Type, r.PhysicalID})
	}
	return o.app.Print(deletedView{o.app.Flags.Table, kept}, func(w *strings.Builder) {
		fmt.Fprintln(w, text)
		archive := ""
		for _, r := range kept {
			fmt.Fprintf(w, "kept %s %s\n", r.Type, r.PhysicalID)
			if r.LogicalID == stack.ArchiveID {
				archive = " --adopt-archive " + r.PhysicalID
			}
		}
		if len(kept) > 0 {
			fmt.Fprintf(w, "to give them a stack again: zae-limiter deploy -n %s --adopt-table%s\n", o.app.Flags.Table, archive)
		}
	})
}
