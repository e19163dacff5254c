package entity

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
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
	return a.Prints(cmd, pageView{})
}

// Validate checks the number.
func (o *listOptions) Validate() error {
	if o.query.Limit < 1 || o.query.Limit > dynamo.MaxEntities {
		return fmt.Errorf("invalid --max %d: give 1 to %d", o.query.Limit, dynamo.MaxEntities)
	}
	return nil
}

// pageView is the result in JSON.
type pageView struct {
	Entities []view  `json:"entities"` // the entities by ID
	Cursor   *string `json:"cursor"`
	Note     string  `json:"note,omitempty"` // why there are none
}

// Run lists the entities.
func (o *listOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	page, err := store.Entities(ctx, o.query)
	if err != nil {
		return err
	}
	views := make([]view, len(page.Entities))
	rows := make([][]string, len(page.Entities))
	for i, e := range page.Entities {
		views[i] = viewOf(e)
		rows[i] = []string{e.ID, e.Name, e.Parent, yesNo(e.Cascade), e.Created.Format(time.RFC3339)}
	}
	var next *string
	if page.Next != "" {
		next = &page.Next
	}
	note := o.app.Explain(len(views) == 0, "no entity%s was created in namespace %s; entities need not be created to have limits or to acquire: see zae-limiter top RESOURCE", o.which(), o.app.Flags.Namespace)
	return o.app.Print(pageView{views, next, note}, func(w *strings.Builder) {
		app.Table(w, []string{"ID", "NAME", "PARENT", "CASCADE", "CREATED"}, rows)
		if next != nil {
			fmt.Fprintf(w, "\nThere is more: --cursor %s\n", *next)
		}
	})
}

// which says of which entities a list is.
func (o *listOptions) which() string {
	switch {
	case o.query.Cursor != "":
		return " after the cursor"
	case o.query.Prefix != "":
		return " whose ID begins with " + o.query.Prefix
	}
	return ""
}
