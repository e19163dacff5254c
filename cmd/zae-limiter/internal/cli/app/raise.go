package app

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A raise command multiplies limits of a level until an instant.
type raise struct {
	levelCommand
	to      dynamo.Raise
	factors limitarg.Factors
	until   string
}

// Raises is the command that multiplies limits of a level of a kind until an instant: those of
// entities or resources.
func (a *App) Raises(of limiter.Level) *cobra.Command {
	o := &raise{levelCommand: levelCommand{app: a, of: of}}
	noun, example := "an entity", "  zae-limiter entity raise key-1 --resource gpt-4 --limit rpm:x2 --until friday"
	if of == limiter.LevelResource {
		noun, example = "a resource", "  zae-limiter resource raise gpt-4 --limit rpm:x1.5,tpm:x1.5 --until 2h --reason launch"
	}
	cmd := &cobra.Command{
		Use: "raise", Short: "Multiply limits of " + noun + " until a time, and then no longer",
		Long: "Multiply capacity and rate of limits of " + noun + " until a time, at which that ends by\n" +
			"itself. A factor below 1 lowers them. Another raise replaces one that is under way. If\n" +
			noun + " has no limits of its own, it gets those of the next level, and keeps them. With\n" +
			"--idempotency-key, the limits are raised once: for three days, the same command with the\n" +
			"key only makes the buckets follow.",
		Example: example,
	}
	o.command(o, cmd)
	if r := cmd.Flags().Lookup("resource"); r != nil {
		r.Usage = "`resource` that the limits are for"
	}
	f := cmd.Flags()
	f.VarP(&o.factors, "limit", "l", "a limit and its factor; may be repeated")
	bindUntil(cmd, &o.until)
	BindCause(cmd, &o.to.Cause)
	a.BindPrincipal(cmd)
	return a.Prints(cmd, manage.RaiseResult{})
}

// Validate checks the level and reads the end.
func (o *raise) Validate() (err error) {
	if err := o.levelCommand.Validate(); err != nil {
		return err
	}
	switch {
	case len(o.factors) == 0:
		return Required("limit", "rpm:x2")
	case o.until == "":
		return Required("until", "friday")
	}
	o.to.Limits = o.factors
	o.to.Until, err = manage.ParseUntil(o.until, o.app.Clock())
	return OfFlag(err)
}

// Run raises the limits, and shows the level.
func (o *raise) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	r, err := manage.Raise(ctx, store, o.key, o.to)
	if err != nil {
		return err
	}
	return o.app.Print(r, func(w *strings.Builder) {
		if r.Repeated {
			w.WriteString("raised before with this key; nothing was changed now\n")
		}
		levelText(w, &r.Level)
	})
}
