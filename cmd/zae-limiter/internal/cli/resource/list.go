package resource

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type listOptions struct{ app *app.App }

func newList(a *app.App) *cobra.Command {
	o := &listOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "list",
		Short: "List the resources that have default limits",
	}), manage.Resources{})
}

// Run lists the resources.
func (o *listOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	v, err := manage.ListResources(ctx, store)
	if err != nil {
		return err
	}
	rows := make([][]string, len(v.Resources))
	for i, name := range v.Resources {
		rows[i] = []string{name}
	}
	o.app.Remark(v.Note)
	return o.app.Print(v, func(w *strings.Builder) {
		app.Table(w, []string{"RESOURCE"}, rows)
	})
}
