package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

type getRetentionOptions struct{ app *app.App }

func newGetRetention(a *app.App) *cobra.Command {
	o := &getRetentionOptions{a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "get-retention",
		Short: "Show how many days the namespace keeps events",
	}), retentionView{})
}

// Run shows the retention.
func (o *getRetentionOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	days, err := store.AuditRetention(ctx)
	if err != nil {
		return err
	}
	return printRetention(o.app, days)
}

type setRetentionOptions struct {
	app  *app.App
	arg  string
	days int
}

func newSetRetention(a *app.App) *cobra.Command {
	o := &setRetentionOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "set-retention DAYS",
		Short: "Set how many days the namespace keeps events",
		Long: "Set how many days the namespace keeps events; the default is 90. The setting applies to\n" +
			"new events; existing events keep their expiry. DynamoDB deletes expired events if time\n" +
			"to live is enabled on the table's attribute ttl.",
	}, &o.arg)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, retentionView{})
}

// Validate checks that DAYS is a number; the store checks its bounds.
func (o *setRetentionOptions) Validate() error {
	var err error
	if o.days, err = strconv.Atoi(o.arg); err != nil || o.days < 1 {
		return fmt.Errorf("invalid DAYS %q: give a whole number, 1 or more", o.arg)
	}
	return nil
}

// Run sets the retention.
func (o *setRetentionOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	if err := store.SetAuditRetention(ctx, o.days); err != nil {
		return err
	}
	return printRetention(o.app, o.days)
}

// retentionView is how long events are kept, in JSON.
type retentionView struct {
	Days int `json:"audit_retention_days"` // days that events stay in the table
}

func printRetention(a *app.App, days int) error {
	return a.Print(retentionView{days}, func(w *strings.Builder) {
		fmt.Fprintf(w, "events are kept for %d days\n", days)
	})
}
