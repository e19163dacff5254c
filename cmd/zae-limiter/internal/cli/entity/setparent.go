package entity

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
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
	return a.Prints(cmd, parentView{})
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

// parentView is the result in JSON.
type parentView struct {
	ID       string               `json:"entity_id"`
	Parent   *string              `json:"parent_id"`
	Buckets  app.FollowingBuckets `json:"buckets"`  // those that follow
	Repeated bool                 `json:"repeated"` // an earlier call with the key moved the entity, and this one only made the buckets follow
}

// Run moves the entity.
func (o *setParentOptions) Run(ctx context.Context) error {
	v, question, outcome := parentView{ID: o.id}, "Leave "+o.id+" without a parent", o.id+" has no parent now"
	if !o.none {
		v.Parent = &o.to.Parent
		question, outcome = "Move "+o.id+" to "+o.to.Parent, o.id+" has the parent "+o.to.Parent+" now"
	}
	all := store.ConfigKey{Entity: o.id, Resource: store.DefaultResource}
	buckets, done, err := o.follows.Make(ctx, all, question, func(ctx context.Context, s *dynamo.Store, progress func(dynamo.Switched)) (dynamo.Switched, error) {
		return s.SetParent(ctx, o.id, o.to, progress)
	})
	if err != nil {
		return err
	}
	v.Buckets, v.Repeated = buckets, done.Repeated
	return o.app.Print(v, func(w *strings.Builder) {
		v.Buckets.Outcome(w, outcome, done.Repeated)
	})
}
