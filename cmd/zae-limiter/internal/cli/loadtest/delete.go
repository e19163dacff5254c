package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	stackcli "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/store"
)

// deleter is the command delete.
type deleter struct {
	app     *app.App
	confirm *app.Confirmation
	retain  []string
	noWait  bool
}

// NewDelete is the command loadtest delete.
func NewDelete(a *app.App) *cobra.Command {
	o := &deleter{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "delete",
		Short: "Delete the stack in which load tests run on AWS",
		Long: "Delete the stack NAME-load, in which load tests of the limiter NAME run. The limiter, its table\n" +
			"and the namespace of the load stay: zae-limiter namespace delete removes the namespace. If the\n" +
			"stack does not exist, the command says so and succeeds. Lambda needs up to half an hour to give\n" +
			"back the network interfaces of functions, and the security groups wait for that.",
	})
	o.confirm = a.Confirmation(cmd)
	cmd.Flags().StringArrayVar(&o.retain, "retain", nil, "logical ID of a `resource` to leave; only for a stack whose deletion\nfailed; may be repeated")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return when CloudFormation has begun to delete")
	return a.Prints(cmd, deletedView{})
}

// Validate checks that somebody can be asked.
func (o *deleter) Validate() error { return o.confirm.Validate() }

// Run deletes.
func (o *deleter) Run(ctx context.Context) error {
	m, _, err := o.app.StacksOf(ctx, stack.TypeLoadTest)
	if err != nil {
		return err
	}
	name := loadstack.NameOf(o.app.Flags.Table)
	live, err := m.Find(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return o.print(name, "does not exist")
	}
	if err != nil {
		return err
	}
	if err := o.confirm.Ask(ctx, fmt.Sprintf("Delete stack %q (%s)?", name, live.Status)); err != nil {
		return err
	}
	if _, err := m.Delete(ctx, stack.Deletion{Name: live.ID, Retain: o.retain, Background: o.noWait, Progress: stackcli.Progress(o.app)}); err != nil {
		return err
	}
	if o.noWait {
		return o.print(name, "is being deleted")
	}
	return o.print(name, "deleted")
}

// deletedView is the result in JSON.
type deletedView struct {
	Stack string `json:"stack_name"`
	State string `json:"state"` // what became of it
}

func (o *deleter) print(name, what string) error {
	return o.app.Print(deletedView{name, what}, func(w *strings.Builder) {
		fmt.Fprintf(w, "stack %s %s\n", name, what)
	})
}
