package app

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// A setCascade command sets or removes the cascade policy of a level.
type setCascade struct {
	levelCommand
	word    string
	to      dynamo.Cascade
	follows *Following
}

// SetsCascade is the command that sets the cascade policy of a level of a kind: those of
// entities or resources.
func (a *App) SetsCascade(of limiter.Level) *cobra.Command {
	o := &setCascade{levelCommand: levelCommand{app: a, of: of}}
	const rule = ". on and off hold whatever later levels\n" +
		"say; clear leaves it to them: the entity for the resource, the entity, the resource, and\n" +
		"then what entity create --cascade said. Without a parent, nothing cascades. A cascade is\n" +
		"one level: nothing is taken from the parent's parent." + Reach +
		" With --idempotency-key, the policy is set\nonce: for three days, the same command with the key only makes the buckets follow."
	cmd := &cobra.Command{
		Use: "set-cascade POLICY", Short: "Set whether an entity takes from its parent, too",
		Long: "Set whether requests of an entity take from its parent, too" + rule,
		Example: "  zae-limiter entity set-cascade key-1 off --reason 'own budget'\n" +
			"  zae-limiter entity set-cascade key-1 on --resource gpt-4\n" +
			"  zae-limiter entity set-cascade key-1 clear",
	}
	if of == limiter.LevelResource {
		cmd = &cobra.Command{
			Use: "set-cascade POLICY", Short: "Set whether requests for a resource take from the parents, too",
			Long: "Set whether requests for a resource take from the parents of their entities, too" + rule,
			Example: "  zae-limiter resource set-cascade gpt-4 off\n" +
				"  zae-limiter resource set-cascade gpt-4 clear",
		}
	}
	o.command(o, cmd, &o.word)
	if r := cmd.Flags().Lookup("resource"); r != nil {
		r.Usage = "`resource` concerned. By default it is every resource for which\nthe entity has no policy of its own"
	}
	o.follows = a.Follows(cmd)
	BindCause(cmd, &o.to.Cause)
	return a.Prints(cmd, manage.CascadeResult{})
}

// Validate checks the level and reads the policy.
func (o *setCascade) Validate() error {
	var ok bool
	if o.to.Policy, ok = manage.CascadePolicy(o.word); !ok {
		return Usagef("invalid argument POLICY %q: give %s", o.word, strings.Join(manage.CascadePolicies[:2], ", ")+" or "+manage.CascadePolicies[2])
	}
	if err := o.to.Check(); err != nil {
		return err
	}
	return o.levelCommand.Validate()
}

// Run changes the policy.
func (o *setCascade) Run(ctx context.Context) error {
	of := o.key.String()
	words := map[store.Policy][2]string{
		store.Yes:     {"Let " + of + " cascade", of + " cascades, whatever later levels say"},
		store.No:      {"Let " + of + " not cascade", of + " does not cascade, whatever later levels say"},
		store.Inherit: {"Clear the cascade policy of " + of, of + " has no cascade policy now: the next level decides"},
	}[o.to.Policy]
	s, how, err := o.follows.Ready(ctx, o.key, words[0])
	if err != nil {
		return err
	}
	r, err := manage.SetCascade(ctx, s, o.key, o.to, how)
	if err != nil {
		return err
	}
	return o.app.Print(r, func(w *strings.Builder) { o.follows.Outcome(w, r.Buckets, words[1], r.Repeated) })
}
