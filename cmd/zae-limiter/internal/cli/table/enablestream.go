package table

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type enableStreamOptions struct{ app *app.App }

func newEnableStream(a *app.App) *cobra.Command {
	o := &enableStreamOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "enable-stream",
		Short: "Give the table the stream that zae-limiter aggregate follows",
		Long: "Give the table a stream of old and new images, which zae-limiter aggregate follows, and wait\n" +
			"until it is ready. The command refuses to replace a stream of another view.\n\n" +
			"If a CloudFormation stack owns the table, enable the stream in its template as well.",
	}), manage.EnabledStream{})
}

// Run enables the stream.
func (o *enableStreamOptions) Run(ctx context.Context) error {
	table, err := o.app.Table(ctx)
	if err != nil {
		return err
	}
	v, err := manage.EnableStream(ctx, table)
	if err != nil {
		return err
	}
	return o.app.Print(v, func(w *strings.Builder) {
		if v.Enabled {
			fmt.Fprintf(w, "stream enabled: %s\n", v.Stream)
		} else {
			fmt.Fprintf(w, "the table has it already: %s\n", v.Stream)
		}
	})
}
