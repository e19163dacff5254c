// Package provision has the command that serves the custom resource of limits.
package provision

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/cli/function"
	"github.com/zeroae/zae-limiter-go/manifest/customresource"
)

type options struct {
	app   *app.App
	level string
}

const about = `Apply the limits of custom resources in CloudFormation templates, on AWS Lambda. The stack's
provisioner runs this command; there is no other use of it. To write such a template, use
zae-limiter limits cfn-template. To apply a file from the command line, use
zae-limiter limits apply.

The function serves all namespaces of the table, and no other table.`

// New is the command provision.
func New(a *app.App) *cobra.Command {
	o := &options{app: a, level: "info"}
	cmd := &cobra.Command{
		Use:     "provision",
		Short:   "Serve the custom resource of limits, on AWS Lambda",
		Long:    about,
		Example: "  zae-limiter provision --table limits",
		Args:    app.Args(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.Run(cmd.Context(), o) },
	}
	cmd.Flags().Var(app.Choice(&o.level, "debug", "info", "warn", "error"), "log-level", "lowest level to log, as JSON lines on standard error")
	return cmd
}

// Validate checks that AWS Lambda runs the program.
func (o *options) Validate() error {
	if o.app.Getenv(function.Env) == "" {
		return fmt.Errorf("zae-limiter provision runs on AWS Lambda only, which sets $%s: use zae-limiter limits apply", function.Env)
	}
	return nil
}

// Run serves AWS Lambda until the context ends.
func (o *options) Run(ctx context.Context) error {
	api, err := o.app.ExistingAPI(ctx)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return err
	}
	h, err := customresource.New(customresource.Options{
		API: api, Table: o.app.Flags.Table, Now: o.app.Now, Principal: o.app.Principal(),
		Logger: slog.New(slog.NewJSONHandler(o.app.Stderr, &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		return err
	}
	function.Serve(ctx, h.Handle)
	return nil
}
