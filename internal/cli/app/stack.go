package app

import (
	"context"

	"github.com/zeroae/zae-limiter-go/deploy/stack"
)

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
	m, err := stack.New(stack.Options{Clients: clients, Type: kind, Now: a.Now})
	return m, clients, err
}
