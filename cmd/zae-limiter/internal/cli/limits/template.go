package limits

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest/customresource"
)

type templateOptions struct{ file }

func newTemplate(a *app.App) *cobra.Command {
	o := &templateOptions{file{app: a}}
	cmd := a.Command(o, &cobra.Command{
		Use: "cfn-template", Short: "Write a CloudFormation template that applies a manifest",
		Long: "Write a CloudFormation template with a custom resource that applies a manifest to the\n" +
			"table. The function that applies it belongs to the stack with the name of the table.",
		Example: "  zae-limiter limits cfn-template -f limits.yaml -n my-table > limits-stack.yaml",
	})
	o.bind(cmd)
	return a.Prints(cmd, &customresource.Template{})
}

// Run writes the template.
func (o *templateOptions) Run(context.Context) error {
	of, err := o.read()
	if err != nil {
		return err
	}
	t := customresource.NewTemplate(of, o.app.Flags.Table)
	text, err := t.YAML()
	if err != nil {
		return err
	}
	return o.app.Print(t, func(w *strings.Builder) { w.Write(text) })
}
