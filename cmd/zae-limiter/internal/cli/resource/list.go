package resource

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

type listOptions struct{ app *app.App }

func newList(a *app.App) *cobra.Command {
	o := &listOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "list",
		Short: "List the resources that have default limits",
	}), listView{})
}

// listView is the result in JSON.
type listView struct {
	Resources []string `json:"resources"`      // names of the resources
	Note      string   `json:"note,omitempty"` // why there are none
}

// Run lists the resources.
func (o *listOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	names, err := store.ResourcesWithDefaults(ctx)
	if err != nil {
		return err
	}
	rows := make([][]string, len(names))
	for i, name := range names {
		rows[i] = []string{name}
	}
	note := o.app.Explain(len(names) == 0, "no resource of namespace %s has default limits: set some with zae-limiter resource set-defaults", o.app.Flags.Namespace)
	return o.app.Print(listView{append([]string{}, names...), note}, func(w *strings.Builder) {
		app.Table(w, []string{"RESOURCE"}, rows)
	})
}
