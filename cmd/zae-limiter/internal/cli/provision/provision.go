// Package provision has the command that serves the custom resource of limits. AWS Lambda
// runs it; people do not.
package provision

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/function"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest/customresource"
)

type options struct {
	app   *app.App
	level string
}

// New is the command provision. Help does not list it.
func New(a *app.App) *cobra.Command {
	o := &options{app: a, level: "info"}
	cmd := a.Command(o, &cobra.Command{
		Use: "provision", Short: "Serve the custom resource of limits on AWS Lambda", Hidden: true,
	})
	cmd.Flags().Var(app.Choice(&o.level, "debug", "info", "warn", "error"), "log-level", "lowest level to log, as JSON lines on standard error")
	return cmd
}

// Validate checks that AWS Lambda runs the program.
func (o *options) Validate() error {
	if o.app.Getenv(function.EnvRuntime) == "" {
		return app.Usagef("provision runs only as a function of AWS Lambda: on a command line, use zae-limiter limits apply")
	}
	return nil
}

// Run serves events until the context ends, as AWS Lambda ends the program.
func (o *options) Run(ctx context.Context) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return err
	}
	api, err := o.app.API(ctx)
	if err != nil {
		return err
	}
	h, err := customresource.New(customresource.Options{
		API: api, Table: o.app.Flags.Table, Now: o.app.Now, Principal: o.app.Principal(),
		Logger: slog.New(slog.NewJSONHandler(o.app.Stderr, &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		return err
	}
	return function.Serve(ctx, h.Handle)
}
