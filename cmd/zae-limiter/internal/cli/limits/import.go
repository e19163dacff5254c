package limits

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type importOptions struct {
	file
	takeOver bool
}

func newImport(a *app.App) *cobra.Command {
	o := &importOptions{file: file{app: a}}
	cmd := a.Command(o, &cobra.Command{
		Use: "import", Short: "Make a manifest the owner of the levels that it declares and that exist",
		Long: "Make a manifest the owner of the levels that it declares and that exist. It changes no\n" +
			"limits; limits plan then shows what an apply would change.",
		Example: "  zae-limiter limits import -f limits.yaml",
	})
	o.bind(cmd)
	cmd.Flags().BoolVar(&o.takeOver, "take-over", false, "take levels from other manifests, too")
	return a.Prints(cmd, manage.Applied{})
}

// Run imports.
func (o *importOptions) Run(ctx context.Context) error {
	of, m, err := o.open(ctx)
	if err != nil {
		return err
	}
	r, err := m.Import(ctx, of, o.takeOver)
	if err != nil {
		return err
	}
	v := manage.AppliedOf(r, o.app.Clock())
	return errors.Join(o.app.Print(v, func(w *strings.Builder) {
		fmt.Fprintf(w, "imported: %d\n", v.Counts.Adopt)
		failures(w, &v)
	}), errIncomplete(len(v.Failures), len(r.Outcomes)))
}
