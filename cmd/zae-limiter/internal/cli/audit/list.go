package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// defaultLimit is the default number of events to list.
const defaultLimit = 100

type listOptions struct {
	app *app.App
	subject
	action action

	query audit.Query
}

func newList(a *app.App) *cobra.Command {
	o := &listOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "list",
		Short: "List changes, newest first",
		Long: "List changes to an entity, a resource, the system or a namespace, newest first.\n\n" +
			"The principal is the name that the author of the change gave, or else the caller that\n" +
			"AWS identified.",
		Example: "  zae-limiter audit list --entity key-1 --action limits_set\n" +
			"  zae-limiter audit list --system --max 10",
	})
	o.bind(cmd)
	f := cmd.Flags()
	o.action.bind(cmd)
	f.IntVar(&o.query.Limit, "max", defaultLimit, "maximum `number` of events, up to 10000")
	f.StringVar(&o.query.Cursor, "cursor", "", "continue after a page, with the `cursor` that ended it")
	return a.Prints(cmd, manage.Events{})
}

// Validate checks that exactly one subject is given.
func (o *listOptions) Validate() (err error) {
	if o.given() != 1 {
		return errSubject
	}
	if o.query.Limit < 1 {
		return fmt.Errorf("invalid --max %d: give 1 or more", o.query.Limit)
	}
	if err := o.action.validate(); err != nil {
		return err
	}
	o.query.Action = o.action.name
	o.query.Entity, err = o.name()
	return err
}

// Run lists the events.
func (o *listOptions) Run(ctx context.Context) error {
	page, err := o.read(ctx)
	if err != nil {
		return err
	}
	v := manage.EventsOf(page, o.query)
	rows := make([][]string, len(page.Events))
	for i, e := range page.Events {
		rows[i] = []string{timestamp(e.Time), e.Action, e.Principal, e.Resource, pairs(e.Details)}
	}
	o.app.Remark(v.Note)
	return o.app.Print(v, func(w *strings.Builder) {
		app.Table(w, []string{"TIME", "ACTION", "PRINCIPAL", "RESOURCE", "DETAILS"}, rows)
		if page.Cursor != "" {
			fmt.Fprintf(w, "\nThere is more: --cursor %s\n", page.Cursor)
		}
	})
}

func (o *listOptions) read(ctx context.Context) (audit.Page, error) {
	if o.namespace != "" {
		namespaces, err := o.app.Namespaces(ctx)
		if err != nil {
			return audit.Page{}, err
		}
		return namespaces.AuditEvents(ctx, o.namespace, o.query)
	}
	store, err := o.app.Store(ctx)
	if err != nil {
		return audit.Page{}, err
	}
	return store.AuditEvents(ctx, o.query)
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}
