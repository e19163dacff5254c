package app

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// A setSlots command replaces the slots of a level, or removes them.
type setSlots struct {
	levelCommand
	slots  limitarg.Slots
	none   bool
	reason string
}

// SetsSlots is the command that replaces the slots of a level of a kind: those of entities,
// resources or the system.
func (a *App) SetsSlots(of limiter.Level) *cobra.Command {
	o := &setSlots{levelCommand: levelCommand{app: a, of: of}}
	whose, example := "requests of an entity", "  zae-limiter entity set-slots key-1 --resource gpt-4 --slots inflight:20\n  zae-limiter entity set-slots key-1 --none"
	switch of {
	case limiter.LevelResource:
		whose = "requests of each entity for a resource"
		example = "  zae-limiter resource set-slots gpt-4 --slots inflight:20 --slots batch:4\n  zae-limiter resource set-slots gpt-4 --none"
	case limiter.LevelSystem:
		whose = "requests of each entity for each resource"
		example = "  zae-limiter system set-slots --slots inflight:20\n  zae-limiter system set-slots --none"
	default:
	}
	cmd := &cobra.Command{
		Use: "set-slots", Short: "Set how many " + whose + " run at a time",
		Long: "Set how many " + whose + " run at a time: together they hold no more\n" +
			"slots than that. The first level that has slots holds, whichever level has limits. Running\n" +
			"processes follow within a minute. If there are fewer slots than are held, nobody gets any\n" +
			"until enough are returned. The limits of the level stay as they are.",
		Example: example,
	}
	o.command(o, cmd)
	if r := cmd.Flags().Lookup("resource"); r != nil {
		r.Usage = "`resource` that the slots are for. By default they are for every\nresource for which the entity has no other slots"
	}
	cmd.Flags().Var(&o.slots, "slots", "a limit of slots, and how many there are; may be repeated")
	cmd.Flags().BoolVar(&o.none, "none", false, "remove the slots of the level; the next level then holds")
	BindReason(cmd, &o.reason)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.Level{})
}

// Validate checks the level, and that something is to be set.
func (o *setSlots) Validate() error {
	switch {
	case o.none && len(o.slots) > 0:
		return Usagef("--slots and --none exclude each other: give one of them")
	case !o.none && len(o.slots) == 0:
		return Usagef("give --slots inflight:20, for instance, or --none")
	}
	return o.levelCommand.Validate()
}

// Run sets the slots, and shows the level.
func (o *setSlots) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	set, err := manage.SetSlots(ctx, store, o.key, o.slots, o.reason, nil)
	if err != nil {
		return err
	}
	return o.app.PrintLevel(set)
}
