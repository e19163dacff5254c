package entity

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type setParentOptions struct {
	app     *app.App
	id      string
	to      dynamo.Move
	none    bool
	follows *app.Following
}

func newSetParent(a *app.App) *cobra.Command {
	o := &setParentOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "set-parent ID",
		Short: "Move an entity to another parent, or to none",
		Long: "Move an entity to another parent, or to none. Requests take from the new parent from the\n" +
			"next one on, if the entity cascades. Tokens taken stay taken from the old parent, and\n" +
			"are returned to it." + app.Reach + " With --idempotency-key, the entity is moved\nonce: for three days, the same command with the key only makes the buckets follow.",
		Example: "  zae-limiter entity set-parent key-1 --parent acme --reason 'ticket 4711'\n" +
			"  zae-limiter entity set-parent key-1 --none",
	}, &o.id)
	f := cmd.Flags()
	f.StringVar(&o.to.Parent, "parent", "", "`ID` of the new parent")
	f.BoolVar(&o.none, "none", false, "leave the entity without a parent")
	o.follows = a.Follows(cmd)
	app.BindCause(cmd, &o.to.Cause)
	return a.Prints(cmd, manage.Parent{})
}

// Validate checks the names.
func (o *setParentOptions) Validate() error {
	switch {
	case o.none && o.to.Parent != "":
		return app.Usagef("--parent and --none exclude each other: give one of them")
	case !o.none && o.to.Parent == "":
		return app.Usagef("give --parent ID, or --none")
	}
	return o.to.Check(o.id)
}

// Run moves the entity.
func (o *setParentOptions) Run(ctx context.Context) error {
	question, outcome := "Leave "+o.id+" without a parent", o.id+" has no parent now"
	if !o.none {
		question, outcome = "Move "+o.id+" to "+o.to.Parent, o.id+" has the parent "+o.to.Parent+" now"
	}
	s, how, err := o.follows.Ready(ctx, manage.LevelOfAll(o.id), question)
	if err != nil {
		return err
	}
	v, err := manage.SetParent(ctx, s, o.id, o.to, how)
	if err != nil {
		return err
	}
	return o.app.Print(v, func(w *strings.Builder) { o.follows.Outcome(w, v.Buckets, outcome, v.Repeated) })
}
