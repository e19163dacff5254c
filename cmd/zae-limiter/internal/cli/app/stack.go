package app

import (
	"context"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

// Stacks connects to the services that the stacks of limiters need.
func (a *App) Stacks(ctx context.Context) (*stack.Manager, stack.Clients, error) {
	return a.StacksOf(ctx, stack.TypeLimiter)
}

// StacksOf connects to the services that stacks of a type need. It refuses to ask AWS for stacks
// while the environment leads to tables on another server.
func (a *App) StacksOf(ctx context.Context, kind string) (*stack.Manager, stack.Clients, error) {
	if server := a.OtherTables(); server != "" {
		return nil, stack.Clients{}, Usagef("$%s is %s, and stacks would be looked for at AWS: give --endpoint-url %s for stacks and tables, or unset the variable",
			envDynamoDB, server, server)
	}
	clients, err := a.ConnectStack(ctx, a.Endpoint())
	if err != nil {
		return nil, clients, err
	}
	m, err := stack.New(stack.Options{Clients: clients, Type: kind, Now: a.Now})
	return m, clients, err
}

const (
	envDynamoDB       = "AWS_ENDPOINT_URL_DYNAMODB"
	envCloudFormation = "AWS_ENDPOINT_URL_CLOUDFORMATION"
	envServices       = "AWS_ENDPOINT_URL"
)

// OtherTables is the URL of a server that is not AWS's and that the environment names for tables
// only, "" if there is none. Stacks would then be looked for at AWS.
func (a *App) OtherTables() string {
	server := a.Getenv(envDynamoDB)
	if a.Flags.EndpointURL != "" || a.Getenv(envServices) != "" || a.Getenv(envCloudFormation) != "" || isOfAWS(hostOf(server)) {
		return ""
	}
	return server
}

// isOfAWS reports whether a host is one of AWS's.
func isOfAWS(host string) bool { return strings.Contains(host, ".amazonaws.com") }
