package limits

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
)

type schemaOptions struct{ app *app.App }

func newSchema(a *app.App) *cobra.Command {
	cmd := a.Command(&schemaOptions{a}, &cobra.Command{
		Use: "schema", Short: "Write the JSON Schema of a manifest, for editors",
		Long:    "Write the JSON Schema of a manifest, for editors. It needs no table.",
		Example: "  zae-limiter limits schema > manifest.schema.json",
	})
	return a.Prints(cmd, json.RawMessage{})
}

// Run writes the schema.
func (o *schemaOptions) Run(context.Context) error {
	return o.app.Print(json.RawMessage(manifest.Schema), func(w *strings.Builder) { w.Write(manifest.Schema) })
}
