package app

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
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

// Cascades are the words of the argument POLICY.
var Cascades = []string{"on", "off", "clear"}

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
	return a.Prints(cmd, CascadeResult{})
}

// Validate checks the level and reads the policy.
func (o *setCascade) Validate() error {
	switch o.word {
	case "on":
		o.to.Policy = store.Yes
	case "off":
		o.to.Policy = store.No
	case "clear":
		o.to.Policy = store.Inherit
	default:
		return Usagef("invalid argument POLICY %q: give %s", o.word, strings.Join(Cascades[:2], ", ")+" or "+Cascades[2])
	}
	if err := o.to.Check(); err != nil {
		return err
	}
	return o.levelCommand.Validate()
}

// A CascadeResult is the result of a change of a cascade policy in JSON.
type CascadeResult struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Cascade is true or false as the level has it; null if the next level decides.
	Cascade *bool `json:"cascade"`
	// Buckets count those that follow.
	Buckets  FollowingBuckets `json:"buckets"`
	Repeated bool             `json:"repeated"` // an earlier call with the key set the policy, and this one only made the buckets follow
}

// Run changes the policy.
func (o *setCascade) Run(ctx context.Context) error {
	of := o.key.String()
	words := map[store.Policy][2]string{
		store.Yes:     {"Let " + of + " cascade", of + " cascades, whatever later levels say"},
		store.No:      {"Let " + of + " not cascade", of + " does not cascade, whatever later levels say"},
		store.Inherit: {"Clear the cascade policy of " + of, of + " has no cascade policy now: the next level decides"},
	}[o.to.Policy]
	buckets, done, err := o.follows.Make(ctx, o.key, words[0], func(ctx context.Context, s *dynamo.Store, progress func(dynamo.Switched)) (dynamo.Switched, error) {
		return s.SetCascade(ctx, o.key, o.to, progress)
	})
	if err != nil {
		return err
	}
	return o.app.Print(CascadeResult{o.key.Entity, o.key.Resource, manifest.BoolOf(o.to.Policy), buckets, done.Repeated}, func(w *strings.Builder) {
		buckets.Outcome(w, words[1], done.Repeated)
	})
}
