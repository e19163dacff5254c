package namespace

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type recoverOptions struct {
	app    *app.App
	id, as string
}

func newRecover(a *app.App) *cobra.Command {
	o := &recoverOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "recover ID",
		Short: "Give an orphaned namespace its name again",
		Long: "Give an orphaned namespace its name again, or another one. Everything that has not expired\n" +
			"meanwhile is there again. zae-limiter namespace orphans lists the IDs.",
		Example: "  zae-limiter namespace recover uZ3kq0aXb_s --as team-a-old",
	}, &o.id)
	cmd.Flags().StringVar(&o.as, "as", "", "new `name`, if the old one was registered again (default the old one)")
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.Namespace{})
}

// Validate checks the ID and the new name.
func (o *recoverOptions) Validate() error {
	return manage.CheckRecovery(o.id, o.as)
}

// Run recovers the namespace.
func (o *recoverOptions) Run(ctx context.Context) error {
	namespaces, err := o.app.Namespaces(ctx)
	if err != nil {
		return err
	}
	n, err := manage.RecoverNamespace(ctx, namespaces, o.id, o.as)
	if err != nil {
		return err
	}
	return o.app.Print(n, func(w *strings.Builder) {
		fmt.Fprintf(w, "namespace %s leads to %s again\n", n.Name, n.ID)
	})
}
