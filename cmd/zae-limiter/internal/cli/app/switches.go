package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
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
	return a.Prints(cmd, SwitchResult{})
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
	o.to.Until, err = parseUntil(o.until, o.app.Clock())
	return err
}

// bindUntil adds the flag --until, which [parseUntil] reads.
func bindUntil(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "until", "", "when that ends by itself: a `time` like 2026-01-02T15:04:05Z, a\ndate or a weekday, which begin at midnight in UTC, or how long\nfrom now, 2h or 3d for instance")
}

// parseUntil reads the flag --until: an instant, a date, a weekday or a duration.
func parseUntil(s string, now time.Time) (time.Time, error) {
	const day = 24 * time.Hour
	t, _, err := parseTime("until", s)
	if err != nil {
		t = weekdayAfter(s, now)
	}
	if t.IsZero() {
		d, err := time.ParseDuration(s)
		if days, ok := strings.CutSuffix(s, "d"); ok {
			var n int
			n, err = strconv.Atoi(days)
			d = time.Duration(n) * day
		}
		if err != nil {
			return t, fmt.Errorf("invalid --until %q: give a time like 2006-01-02T15:04:05Z, a date, a weekday like friday, or a duration like 2h or 3d", s)
		}
		t = now.Add(d)
	}
	if !t.After(now) {
		return t, fmt.Errorf("invalid --until %q: it is over already: give a time in the future", s)
	}
	return t.Truncate(time.Millisecond), nil
}

// weekdayAfter is the next midnight in UTC with which a weekday begins; zero if s is none.
func weekdayAfter(s string, now time.Time) time.Time {
	const week, shortest = 7, 3
	midnight := now.UTC().Truncate(24 * time.Hour)
	for i := 1; i <= week; i++ {
		t := midnight.AddDate(0, 0, i)
		if name := strings.ToLower(t.Weekday().String()); name == strings.ToLower(s) || name[:shortest] == strings.ToLower(s) {
			return t
		}
	}
	return time.Time{}
}

// A SwitchResult is the result of a change of a switch in JSON.
type SwitchResult struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Disabled is true or false as the level has it; null if the next level decides.
	Disabled *bool      `json:"disabled"`
	Bypassed bool       `json:"bypassed,omitempty"` // the level admits everything, and only counts it
	EndsAt   *time.Time `json:"switch_ends_at"`     // when that ends by itself; null if it does not
	// Buckets count those that follow.
	Buckets  FollowingBuckets `json:"buckets"`
	Repeated bool             `json:"repeated"` // an earlier call with the key set the switch, and this one only made the buckets follow
}

// Run changes the switch.
func (o *setSwitch) Run(ctx context.Context) error {
	buckets, done, err := o.follows.Make(ctx, o.key, o.change(), func(ctx context.Context, s *dynamo.Store, progress func(dynamo.Switched)) (dynamo.Switched, error) {
		return s.SetSwitch(ctx, o.key, o.to, progress)
	})
	if err != nil {
		return err
	}
	r := SwitchResult{Entity: o.key.Entity, Resource: o.key.Resource, Buckets: buckets, Repeated: done.Repeated}
	r.Disabled, r.Bypassed, _ = SwitchOf(store.Switch{Policy: o.to.Policy})
	until := o.to.Until
	if done.Repeated {
		until = done.Until
	}
	if until = until.UTC(); !until.IsZero() {
		r.EndsAt = &until
	}
	return o.app.Print(r, func(w *strings.Builder) {
		buckets.Outcome(w, o.outcome(), r.Repeated)
	})
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

// SwitchOf is the switch of a level in JSON. A level that is bypassed is not disabled.
func SwitchOf(s store.Switch) (disabled *bool, bypassed bool, until *time.Time) {
	if s.Policy != store.Inherit && s.Until != 0 {
		t := time.UnixMilli(s.Until).UTC()
		until = &t
	}
	return manifest.BoolOf(s.Policy), s.Policy == store.Bypass, until
}
