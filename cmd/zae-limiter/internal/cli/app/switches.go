package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// A setSwitch command sets or removes the switch of a level.
type setSwitch struct {
	levelCommand
	to      dynamo.Switch
	until   string
	follows *Following
}

// Switches are the commands that set and remove the switch of a level of a kind: those of
// entities or resources.
func (a *App) Switches(of limiter.Level) []*cobra.Command {
	noun, example := "an entity", "zae-limiter entity %s key-1"
	if of == limiter.LevelResource {
		noun, example = "a resource", "zae-limiter resource %s gpt-4"
	}
	const reach = Reach + " With --idempotency-key, the switch is\nset once: for three days, the same command with the key only makes the buckets follow,\n" +
		"which completes one that was interrupted."
	line := func(name, more string) string { return "  " + fmt.Sprintf(example, name) + more }
	return []*cobra.Command{
		a.setsSwitch(of, store.Yes, &cobra.Command{
			Use: "disable", Short: "Refuse all requests of " + noun,
			Long:    "Refuse all requests of " + noun + ", of every client, from its next request on." + reach,
			Example: line("disable", " --reason abuse") + "\n" + line("disable", " --until 2h"),
		}),
		a.setsSwitch(of, store.No, &cobra.Command{
			Use: "enable", Short: "Serve " + noun + ", whatever later levels disable",
			Long: "Serve " + noun + ", whatever later levels disable: limits hold as usual. To undo disable,\n" +
				"use clear." + reach,
			Example: line("enable", ""),
		}),
		a.setsSwitch(of, store.Bypass, &cobra.Command{
			Use: "bypass", Short: "Serve all requests of " + noun + ", and only count them",
			Long: "Serve all requests of " + noun + ", whatever its limits and later levels say. Their consumption\n" +
				"is counted, and the balances stay as they are. A parent is debited as usual." + reach,
			Example: line("bypass", " --until 2h --reason incident"),
		}),
		a.setsSwitch(of, store.Inherit, &cobra.Command{
			Use: "clear", Short: "Undo disable, enable and bypass of " + noun + "; the next level then decides",
			Long:    "Undo disable, enable and bypass of " + noun + ". The next level then decides." + reach,
			Example: line("clear", ""),
		}),
	}
}

// setsSwitch is one of the commands.
func (a *App) setsSwitch(of limiter.Level, p store.Policy, cmd *cobra.Command) *cobra.Command {
	o := &setSwitch{levelCommand: levelCommand{app: a, of: of}, to: dynamo.Switch{Policy: p}}
	o.command(o, cmd)
	if r := cmd.Flags().Lookup("resource"); r != nil {
		r.Usage = "`resource` concerned. By default it is every resource for which\nthe entity has no switch of its own"
	}
	if p != store.Inherit {
		bindUntil(cmd, &o.until)
	}
	o.follows = a.Follows(cmd)
	BindCause(cmd, &o.to.Cause)
	return a.Prints(cmd, manage.SwitchResult{})
}

// BindReason adds the flag that says why an operator changes something.
func BindReason(cmd *cobra.Command, to *string) {
	cmd.Flags().Var(Named(to), "reason", "`text` for the audit event, up to 256 characters")
}

// BindCause adds the flags that say why an operator changes something, and make it happen once.
func BindCause(cmd *cobra.Command, c *dynamo.Cause) {
	BindReason(cmd, &c.Reason)
	cmd.Flags().Var(Named(&c.Key), "idempotency-key", "`key` with which the change happens once, an order number for\ninstance: up to 64 letters, digits, \".\", \"_\", \":\" and \"-\"")
}

// Validate checks the level and reads the end.
func (o *setSwitch) Validate() (err error) {
	if err := o.levelCommand.Validate(); err != nil {
		return err
	}
	if err := o.to.Check(); err != nil || o.until == "" {
		return err
	}
	o.to.Until, err = manage.ParseUntil(o.until, o.app.Clock())
	return OfFlag(err)
}

// bindUntil adds the flag --until, which [manage.ParseUntil] reads.
func bindUntil(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "until", "", "when that ends by itself: a `time` like 2026-01-02T15:04:05Z, a\ndate or a weekday, which begin at midnight in UTC, or how long\nfrom now, 2h or 3d for instance")
}

// Run changes the switch.
func (o *setSwitch) Run(ctx context.Context) error {
	s, how, err := o.follows.Ready(ctx, o.key, o.change())
	if err != nil {
		return err
	}
	r, err := manage.SetSwitch(ctx, s, o.key, o.to, how)
	if err != nil {
		return err
	}
	return o.app.Print(r, func(w *strings.Builder) { o.follows.Outcome(w, r.Buckets, o.outcome(), r.Repeated) })
}

// change is what is about to happen, as the beginning of a question.
func (o *setSwitch) change() string {
	verb := map[store.Policy]string{store.Yes: "Disable", store.No: "Enable", store.Bypass: "Bypass", store.Inherit: "Clear the switch of"}[o.to.Policy]
	return verb + " " + o.key.String() + o.end()
}

// outcome is what has happened.
func (o *setSwitch) outcome() string {
	switch o.to.Policy {
	case store.Yes:
		return o.key.String() + " is disabled" + o.end()
	case store.No:
		return o.key.String() + " is enabled, whatever later levels disable" + o.end()
	case store.Bypass:
		return o.key.String() + " is bypassed" + o.end() + ": everything is admitted, and counted"
	default:
		return o.key.String() + " has no switch now: the next level decides"
	}
}

// end is when the switch ends, if it does.
func (o *setSwitch) end() string {
	if o.to.Until.IsZero() {
		return ""
	}
	return " until " + o.to.Until.UTC().Format(time.RFC3339)
}
