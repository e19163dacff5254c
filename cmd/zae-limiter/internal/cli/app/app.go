// Package app is what the commands share: the global flags, the connection, how
// results and errors are written, and how a command is taken from its arguments
// to an exit code.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// An App is one run of the program.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal says that Stdin can ask a person.
	Terminal bool
	// Getenv reads the environment; "" is not set.
	Getenv func(string) string
	// Connect makes a client. It sends nothing.
	Connect func(context.Context, Endpoint) (dynamo.API, error)
	// ConnectStreams makes a client of DynamoDB Streams. It sends nothing.
	ConnectStreams func(context.Context, Endpoint) (stream.API, error)
	// Tables lists some names of tables on a connection; nil lists none.
	Tables func(context.Context, dynamo.API) ([]string, error)
	// ConnectArchive makes a client of S3. It sends nothing.
	ConnectArchive func(context.Context, Endpoint) (archive.API, error)
	// ConnectHealth makes the clients that read the state of a stack's parts. It sends
	// nothing.
	ConnectHealth func(context.Context, Endpoint) (health.Clients, error)
	// ConnectStack makes the clients of what a stack needs. It sends nothing.
	ConnectStack func(context.Context, Endpoint) (stack.Clients, error)
	// Executable reads the running program.
	Executable func() ([]byte, error)
	// ConnectQueue makes a client of SQS for the queue of a URL. It sends nothing.
	ConnectQueue func(context.Context, Endpoint) (redrive.Queue, error)
	// Now is the local clock; nil is time.Now.
	Now func() time.Time

	// NeedsStream says that the command needs a table with a stream. Advice to create a
	// table then includes the stream.
	NeedsStream bool
	// FindsNamespace says that the command is about a namespace that exists. Advice is
	// then to look which ones do, instead of registering the name.
	FindsNamespace bool

	// CodeOf gives errors of the command exit codes of their own; 0 is the usual code, and nil
	// gives none.
	CodeOf func(error) int

	// Flags are the global flags.
	Flags Flags

	principal string         // value of the flag --principal
	engine    *dynamolite.DB // database of the flag --local, once opened

	results map[*cobra.Command][]reflect.Type // what each command prints
}

// A Runner is a command with its options filled in from the command line. If its options can be
// wrong, it is a [Validator], too.
type Runner interface {
	Run(ctx context.Context) error
}

// A Validator reports the first error in the command line. It does no I/O.
type Validator interface{ Validate() error }

// Command makes cmd a command that runs r. Unless cmd says otherwise, its arguments are those that
// cmd.Use names. They go to the targets, each a *string or, for the last, a *[]string.
func (a *App) Command(r Runner, cmd *cobra.Command, targets ...any) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = Arguments
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for i, target := range targets {
			switch to := target.(type) {
			case *string:
				*to = args[i]
			case *[]string:
				*to = args[i:]
			}
		}
		return a.Run(cmd.Context(), r)
	}
	return cmd
}

// Run validates the global flags and r, and runs r. It sends nothing before everything is
// valid; invalid flags give a [UsageError]. Run always closes what it opened.
func (a *App) Run(ctx context.Context, r Runner) error {
	if err := a.Flags.resolve(a.Getenv); err != nil {
		return &UsageError{err}
	}
	if err := audit.CheckPrincipal(a.principal); err != nil {
		return &UsageError{fmt.Errorf("--principal: %w", err)}
	}
	if v, ok := r.(Validator); ok {
		if err := v.Validate(); err != nil {
			return &UsageError{err}
		}
	}
	return errors.Join(r.Run(ctx), a.close())
}

// Clock is the local time.
func (a *App) Clock() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// Endpoint is the endpoint of the flags.
func (a *App) Endpoint() Endpoint { return a.EndpointAt(a.Flags.EndpointURL) }

// EndpointAt is the endpoint of the flags with another URL.
func (a *App) EndpointAt(url string) Endpoint {
	return Endpoint{Region: a.Flags.Region, URL: url, Timeout: a.Flags.Timeout}
}

// Patience is how long one call may take by the flag --timeout, 0 for the usual time.
func (a *App) Patience() time.Duration { return a.Flags.patience() }

// API connects to the endpoint of the flags, or opens their directory, which it creates if
// missing.
func (a *App) API(ctx context.Context) (dynamo.API, error) {
	if a.Flags.Local != "" {
		return a.local()
	}
	return a.Connect(ctx, a.Endpoint())
}

// ExistingAPI is [App.API] for a command that needs an existing table: it creates no
// directory.
func (a *App) ExistingAPI(ctx context.Context) (dynamo.API, error) {
	if err := a.exists(); err != nil {
		return nil, err
	}
	return a.API(ctx)
}

// Streams connects to the streams of api's tables; an API may serve streams itself.
func (a *App) Streams(ctx context.Context, api dynamo.API) (stream.API, error) {
	if s, ok := api.(stream.API); ok {
		return s, nil
	}
	return a.ConnectStreams(ctx, a.Endpoint())
}

// Store opens the table and namespace of the flags. It creates nothing.
func (a *App) Store(ctx context.Context) (*dynamo.Store, error) {
	o, err := a.options(ctx)
	if err != nil {
		return nil, err
	}
	return dynamo.Open(ctx, o)
}

// Namespaces are the namespaces of the flags' table.
func (a *App) Namespaces(ctx context.Context) (*admin.Namespaces, error) {
	o, err := a.options(ctx)
	if err != nil {
		return nil, err
	}
	return admin.NewNamespaces(o)
}

func (a *App) options(ctx context.Context) (dynamo.Options, error) {
	api, err := a.ExistingAPI(ctx)
	return dynamo.Options{
		API: api, Table: a.Flags.Table, Namespace: a.Flags.Namespace,
		Now: a.Now, Logger: a.Logger(), Principal: a.principal, Timeout: a.Patience(),
	}, err
}

// BindPrincipal adds the flag --principal to a command that makes changes.
func (a *App) BindPrincipal(cmd *cobra.Command) {
	cmd.Flags().Var(Named(&a.principal), "principal", "`name` of the author of the change, for its audit event (default the caller\nthat AWS STS reports for the credentials)")
}

// Principal is the author of a change, "" if the flag was not given.
func (a *App) Principal() string { return a.principal }

// Limiter returns a limiter on a store.
func (a *App) Limiter(store limiter.Store) (*limiter.Limiter, error) {
	return limiter.New(store, limiter.Options{Logger: a.Logger(), Timeout: a.Patience()})
}

// OpenLimiter opens the store, and returns a limiter on it.
func (a *App) OpenLimiter(ctx context.Context) (*limiter.Limiter, error) {
	store, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	return a.Limiter(store)
}

// Logger writes to standard error what cannot be returned, in the form that errors have.
func (a *App) Logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelWarn}
	if a.Flags.JSON() {
		return slog.New(slog.NewJSONHandler(a.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, o))
}
