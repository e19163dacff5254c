package limits

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

type exportOptions struct {
	app  *app.App
	name string
}

func newExport(a *app.App) *cobra.Command {
	o := &exportOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use: "export", Short: "Write the limits of a namespace as a manifest",
		Long: "Write the limits of a namespace as a manifest, in YAML, or in JSON with --output json. A\n" +
			"plan of the result has no changes.",
		Example: "  zae-limiter limits export -N prod > limits.yaml",
	})
	cmd.Flags().StringVar(&o.name, "manifest", manifest.DefaultName, "`name` of the manifest")
	return a.Prints(cmd, &manifest.Manifest{})
}

// Validate checks the name.
func (o *exportOptions) Validate() error {
	if err := store.CheckManifest(o.name); err != nil {
		return fmt.Errorf("--manifest: %w", err)
	}
	return nil
}

// Run exports. What cannot be declared goes to the log, and is missing in the manifest.
func (o *exportOptions) Run(ctx context.Context) error {
	s, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	m, err := manifest.New(s)
	if err != nil {
		return err
	}
	of, skipped, err := m.Export(ctx, o.name)
	if err != nil {
		return err
	}
	for _, level := range skipped {
		o.app.Logger().WarnContext(ctx, "level not exported as it is", "level", manage.LevelName(level.Key), "reason", level.Reason)
	}
	text, err := of.YAML()
	if err != nil {
		return err
	}
	return o.app.Print(of, func(w *strings.Builder) { w.Write(text) })
}
