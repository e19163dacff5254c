package entity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

type createOptions struct {
	app    *app.App
	entity limiter.Entity
}

func newCreate(a *app.App) *cobra.Command {
	o := &createOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "create ID",
		Short: "Create an entity",
		Long: "Create an entity, optionally with a parent.\n\n" +
			"Limits apply to an entity without a record too. It needs a record only to have a parent.\n" +
			"If it cascades, every acquire takes from its parent too. A cascade is one level: the\n" +
			"parent must not cascade itself.",
		Example: "  zae-limiter entity create acme --display-name 'ACME, Inc.'\n" +
			"  zae-limiter entity create key-1 --parent acme --cascade",
	}, &o.entity.ID)
	f := cmd.Flags()
	f.StringVar(&o.entity.Name, "display-name", "", "`name` for people (default the ID)")
	f.StringVar(&o.entity.Parent, "parent", "", "`ID` of the parent")
	f.BoolVar(&o.entity.Cascade, "cascade", false, "acquire from the parent too")
	f.Var((*metadata)(&o.entity.Metadata), "metadata", "`key=value` to keep with the entity, separated by commas or\nin repeated flags")
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.Entity{})
}

// Validate checks the entity.
func (o *createOptions) Validate() error {
	e := &o.entity
	if err := store.CheckEntity(e.ID); err != nil {
		return err
	}
	switch {
	case e.Parent == "" && e.Cascade:
		return errors.New("--cascade has nowhere to cascade to: give --parent too")
	case e.Parent == "":
		return nil
	case e.Parent == e.ID:
		return errors.New("--parent: an entity cannot be its own parent")
	}
	if err := store.CheckEntity(e.Parent); err != nil {
		return fmt.Errorf("--parent: %w", err)
	}
	return nil
}

// Run creates the entity.
func (o *createOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	v, err := manage.CreateEntity(ctx, store, o.entity)
	if err != nil {
		return err
	}
	return o.app.Print(v, func(w *strings.Builder) { text(w, &v) })
}
