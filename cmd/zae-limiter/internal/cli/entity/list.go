package entity

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type listOptions struct {
	app   *app.App
	query dynamo.EntityQuery
}

func newList(a *app.App) *cobra.Command {
	o := &listOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "list",
		Short: "List the entities that were created, by ID",
		Long: "List the entities that were created, by ID.\n\n" +
			"An entity need not be created to have limits or to acquire: zae-limiter top RESOURCE shows\n" +
			"those that do, too.",
		Example: "  zae-limiter entity list --max 1000 --output json\n" +
			"  zae-limiter entity list --prefix key-",
	})
	f := cmd.Flags()
	f.IntVar(&o.query.Limit, "max", dynamo.DefaultEntities, fmt.Sprintf("`number` of entities to list, up to %d", dynamo.MaxEntities))
	f.Var(app.Named(&o.query.Prefix), "prefix", "only entities whose IDs begin with this `text`")
	f.StringVar(&o.query.Cursor, "cursor", "", "continue after a page, with the `cursor` that ended it")
	return a.Prints(cmd, manage.Entities{})
}

// Validate checks the number.
func (o *listOptions) Validate() error {
	if o.query.Limit < 1 || o.query.Limit > dynamo.MaxEntities {
		return fmt.Errorf("invalid --max %d: give 1 to %d", o.query.Limit, dynamo.MaxEntities)
	}
	return nil
}

// Run lists the entities.
func (o *listOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	v, err := manage.ListEntities(ctx, store, o.query)
	if err != nil {
		return err
	}
	rows := make([][]string, len(v.Entities))
	for i := range v.Entities {
		e := &v.Entities[i]
		rows[i] = []string{e.ID, e.Name, parent(e), yesNo(e.Cascade), e.Created.Format(time.RFC3339)}
	}
	o.app.Remark(v.Note)
	return o.app.Print(v, func(w *strings.Builder) {
		app.Table(w, []string{"ID", "NAME", "PARENT", "CASCADE", "CREATED"}, rows)
		if v.Cursor != nil {
			fmt.Fprintf(w, "\nThere is more: --cursor %s\n", *v.Cursor)
		}
	})
}
