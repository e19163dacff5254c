package entity

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

type listResourcesOptions struct {
	app *app.App
	id  string
}

func newListResources(a *app.App) *cobra.Command {
	o := &listResourcesOptions{app: a}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "list-resources ID",
		Short: "List the resources that an entity uses or has its own limits for",
		Long: "List the resources that an entity has a bucket or its own limits for. " + store.DefaultResource + " stands\n" +
			"for its limits for every resource. An idle bucket may expire.",
	}, &o.id), manage.EntityResources{})
}

// Validate checks the ID.
func (o *listResourcesOptions) Validate() error { return store.CheckEntity(o.id) }

// Run lists the resources.
func (o *listResourcesOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	v, err := manage.ListEntityResources(ctx, store, o.id)
	if err != nil {
		return err
	}
	rows := make([][]string, len(v.Resources))
	for i, r := range v.Resources {
		shards := ""
		if r.Shards > 0 {
			shards = strconv.Itoa(r.Shards)
		}
		rows[i] = []string{r.Resource, yesNo(r.Limits), shards}
	}
	o.app.Remark(v.Note)
	return o.app.Print(v, func(w *strings.Builder) {
		app.Table(w, []string{"RESOURCE", "OWN LIMITS", "SHARDS"}, rows)
	})
}
