package namespace

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// tellEvery is the time between two lines of progress.
const tellEvery = time.Second

type purgeOptions struct {
	app     *app.App
	confirm *app.Confirmation
	id      string
	force   bool

	told time.Duration // when progress was last written
}

func newPurge(a *app.App) *cobra.Command {
	o := &purgeOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "purge ID",
		Short: "Delete all items of an orphaned namespace, for ever",
		Long: "Delete all items of an orphaned namespace, for ever, and then its record. A purge that was\n" +
			"interrupted continues when the command is run again.\n\n" +
			"The command refuses a namespace that a name leads to, and one with a bucket that was\n" +
			"refilled within the last hour. Stop the clients of the namespace first: those that have\n" +
			"resolved its name before its deletion continue to write. Items that they write\n" +
			"after the last pass stay, until the command is run again with the same ID.\n\n" +
			"The command reads the whole table once, for items that no index has. The table keeps the\n" +
			"audit events about the namespace itself; those inside it are deleted, not archived.",
	}, &o.id)
	o.confirm = a.Confirmation(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "skip the check for recent refills, and its reads of all buckets")
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.PurgedNamespace{})
}

// Validate checks the ID, and that there is someone to ask.
func (o *purgeOptions) Validate() error {
	return cmp.Or(schema.CheckNamespaceID(o.id), o.confirm.Validate())
}

// Run purges the namespace.
func (o *purgeOptions) Run(ctx context.Context) error {
	namespaces, err := o.app.Namespaces(ctx)
	if err != nil {
		return err
	}
	found, err := namespaces.Orphan(ctx, o.id)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Delete all items of the namespace %s, once %q, of table %q, for ever?", o.id, found.Name, o.app.Flags.Table)
	if found.State == admin.OrphanPurged {
		question = fmt.Sprintf("Delete all items of table %q that clients wrote after the purge of the namespace %s, for ever?", o.app.Flags.Table, o.id)
	}
	if err := o.confirm.Ask(ctx, question); err != nil {
		return err
	}
	options := admin.PurgeOptions{Progress: o.tell}
	if o.force {
		options.Quiet = -1
	}
	done, err := manage.PurgeNamespace(ctx, namespaces, o.id, options)
	if err != nil {
		return err
	}
	return o.app.Print(done, func(w *strings.Builder) {
		fmt.Fprintf(w, "namespace %s (%s) purged: %s\n", done.ID, cmp.Or(done.Name, "purged before"), pace(done.Items, time.Duration(done.Seconds*float64(time.Second))))
	})
}

// tell writes a line of progress now and then, for people.
func (o *purgeOptions) tell(p admin.Purged) {
	if p.Elapsed-o.told < tellEvery {
		return
	}
	o.told = p.Elapsed
	o.app.Notef("pass %d: %s", p.Passes, pace(p.Items, p.Elapsed))
}

// pace is the number of items, and the rate if there is one.
func pace(items int64, elapsed time.Duration) string {
	if elapsed < tellEvery {
		return fmt.Sprintf("%d items deleted", items)
	}
	return fmt.Sprintf("%d items deleted in %s, %.0f a second", items, elapsed.Round(time.Second), float64(items)/elapsed.Seconds())
}
