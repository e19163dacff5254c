package entity

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
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
	}, &o.id), resourcesView{})
}

// Validate checks the ID.
func (o *listResourcesOptions) Validate() error { return store.CheckEntity(o.id) }

// resourceView is a resource of an entity in JSON.
type resourceView struct {
	Resource string `json:"resource"`
	Limits   bool   `json:"own_limits"` // the entity has limits of its own
	Shards   int    `json:"shards"`
}

// resourcesView is the result in JSON.
type resourcesView struct {
	Entity    string         `json:"entity_id"`
	Resources []resourceView `json:"resources"`      // the resources by name
	Note      string         `json:"note,omitempty"` // why there are none
}

// Run lists the resources.
func (o *listResourcesOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	resources, err := store.EntityResources(ctx, o.id)
	if err != nil {
		return err
	}
	views := make([]resourceView, len(resources))
	rows := make([][]string, len(resources))
	for i, r := range resources {
		views[i] = resourceView(r)
		shards := ""
		if r.Shards > 0 {
			shards = strconv.Itoa(r.Shards)
		}
		rows[i] = []string{r.Resource, yesNo(r.Limits), shards}
	}
	note := o.app.Explain(len(views) == 0, "entity %s of namespace %s has no bucket and no limits of its own: it is spelled otherwise, or it has acquired nothing lately", o.id, o.app.Flags.Namespace)
	return o.app.Print(resourcesView{o.id, views, note}, func(w *strings.Builder) {
		app.Table(w, []string{"RESOURCE", "OWN LIMITS", "SHARDS"}, rows)
	})
}
