package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/deploy/stack"
)

// StackNames says how a stack is named, for the help of commands that BindStack binds.
const StackNames = "\n\n--name and --stack are other names of --table: the table has the name of its stack."

// BindStack gives the flag --table of a command its other names, --name and --stack: the
// table of a stack has the stack's name.
func (a *App) BindStack(cmd *cobra.Command) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "name" || name == "stack" {
			name = "table"
		}
		return pflag.NormalizedName(name)
	})
}

// CheckStack rejects flags that a command on a stack cannot use.
func (a *App) CheckStack() error {
	if a.Flags.Local != "" {
		return errors.New("a stack is at AWS, not in a directory: leave out --local")
	}
	return nil
}

// Stacks connects to the services that the stacks of limiters need.
func (a *App) Stacks(ctx context.Context) (*stack.Manager, stack.Clients, error) {
	return a.StacksOf(ctx, stack.TypeLimiter)
}

// StacksOf connects to the services that stacks of a type need.
func (a *App) StacksOf(ctx context.Context, kind string) (*stack.Manager, stack.Clients, error) {
	clients, err := a.ConnectStack(ctx, a.Endpoint())
	if err != nil {
		return nil, clients, err
	}
	m, err := stack.New(stack.Options{Clients: clients, Type: kind})
	return m, clients, err
}
