package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/store"
)

// A statusSource is where reports come from.
type statusSource struct {
	app     *app.App
	api     dynamo.API
	stacks  *stack.Manager // nil for a local database
	clients health.Clients

	// The handles of the table of the last look.
	tableName  string
	table      *admin.Table
	namespaces *admin.Namespaces
}

// newStatusSource connects. It creates nothing.
func newStatusSource(ctx context.Context, a *app.App) (*statusSource, error) {
	s := &statusSource{app: a}
	var err error
	if s.api, err = a.ExistingAPI(ctx); err != nil || a.Flags.Local != "" {
		return s, err
	}
	if server := a.OtherTables(); server != "" {
		a.Notef("The environment leads to tables at %s only, so no stack is looked for.", server)
		return s, nil
	}
	if s.clients, err = a.ConnectHealth(ctx, a.Endpoint()); err != nil {
		return nil, err
	}
	s.stacks, _, err = a.Stacks(ctx)
	return s, err
}

// follow follows the operation that runs on the stack to its end. The look that comes after
// it shows whether it failed, and a stack that does not exist.
func (s *statusSource) follow(ctx context.Context) error {
	if s.stacks == nil {
		return nil
	}
	found, err := s.stacks.Find(ctx, s.app.Flags.Table)
	if err == nil && found.Running() {
		_, err = s.stacks.Follow(ctx, found.ID, Progress(s.app))
	}
	if errors.Is(err, stack.ErrFailed) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// look makes a report. It fails if the context ends.
func (s *statusSource) look(ctx context.Context) (*health.Report, error) {
	found := s.stack(ctx)
	table, site := s.app.Flags.Table, health.Site{}
	if found.Value != nil {
		table, site = found.Value.Table(), found.Value.Site()
	}
	if err := s.open(ctx, table); err != nil {
		return nil, err
	}
	r, err := health.Collect(ctx, health.Options{
		Table: s.table, Namespaces: s.namespaces, TableName: table, Site: site, Clients: s.clients, Now: s.app.Now, Timeout: s.app.Patience(),
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the status of %s: %w", table, ctx.Err())
	}
	r.Stack = found
	r.Judge()
	return r, nil
}

// stack finds the stack.
func (s *statusSource) stack(ctx context.Context) health.Part[health.Stack] {
	if s.stacks == nil {
		return health.Part[health.Stack]{}
	}
	return health.FindStack(ctx, s.stacks, s.app.Flags.Table, s.app.Patience())
}

// open makes the handles of a table.
func (s *statusSource) open(ctx context.Context, table string) (err error) {
	if s.tableName == table {
		return nil
	}
	if s.table, err = s.app.OtherTable(ctx, table); err != nil {
		return err
	}
	s.namespaces, err = admin.NewNamespaces(dynamo.Options{API: s.api, Table: table, Now: s.app.Now, Logger: s.app.Logger(), Timeout: s.app.Patience()})
	s.tableName = table
	return err
}
