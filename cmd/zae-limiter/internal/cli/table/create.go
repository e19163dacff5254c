package table

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type createOptions struct {
	app        *app.App
	projection dynamo.Projection
	keys       dynamo.IndexKeys
	stream     bool
	keep       bool
}

func newCreate(a *app.App) *cobra.Command {
	o := &createOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "create",
		Short: "Create the table, with the namespaces default and --namespace",
		Long: "Create the table, with the namespaces default and --namespace, and wait until it is ready.\n\n" +
			"An existing table is used if its keys and indexes fit. The table is billed per request.\n" +
			"It deletes expired items by the attribute ttl: idle buckets, usage, audit events.",
		Example: "  zae-limiter table create --table limits --endpoint-url http://localhost:8000",
	})
	cmd.Flags().Var(app.Choice(&o.projection, dynamo.ProjectKeys, dynamo.ProjectAll), "gsi2-projection",
		"attributes in the index of a resource's buckets: keys, or all as\nin the Python package's tables, which costs a second write unit\nfor each acquire (default keys)")
	cmd.Flags().Var(app.Choice(&o.keys, dynamo.SpreadKeys, dynamo.SharedKeys), "index-keys",
		"index keys of new buckets: spread over partitions, or shared with\nPython clients that use the table, too (default spread, but shared\nif the Python package may use the table)")
	a.BindPrincipal(cmd)
	cmd.Flags().BoolVar(&o.stream, "stream", false, "enable the stream that zae-limiter aggregate follows")
	cmd.Flags().BoolVar(&o.keep, "keep-expired", false, "do not enable expiry; if it is already enabled, it stays so")
	return a.Prints(cmd, createdView{})
}

// createdView is the result in JSON.
type createdView struct {
	Table     string `json:"table_name"`
	Namespace string `json:"namespace"`
}

// Run creates the table.
func (o *createOptions) Run(ctx context.Context) error {
	api, err := o.app.API(ctx)
	if err != nil {
		return err
	}
	table, namespace := o.app.Flags.Table, o.app.Flags.Namespace
	err = dynamo.CreateTable(ctx, api, dynamo.TableOptions{
		Name: table, GSI2Projection: o.projection, IndexKeys: o.keys, Stream: o.stream, KeepExpired: o.keep,
		Now: o.app.Now, Principal: o.app.Principal(),
	})
	if err != nil {
		return err
	}
	if namespace != dynamo.DefaultNamespace {
		namespaces, err := o.app.Namespaces(ctx)
		if err != nil {
			return err
		}
		if _, err := namespaces.Register(ctx, namespace); err != nil {
			return err
		}
	}
	return o.app.Print(createdView{table, namespace}, func(w *strings.Builder) {
		fmt.Fprintf(w, "table %s is ready, with namespace %s\n", table, namespace)
	})
}
