package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/limitarg"
)

// A LimitsFlag is the flag that takes limits.
type LimitsFlag struct{ Limits limitarg.Limits }

// Bind adds the flag to a command.
func (f *LimitsFlag) Bind(cmd *cobra.Command) {
	cmd.Flags().VarP(&f.Limits, "limit", "l", "a limit; may be repeated. The period is sec, min, hour or day,\nor a number of them (10/5min); the default is min. The burst\ndefaults to the rate")
}

// BindFallback adds the flag to a command whose limits apply where none are configured.
func (f *LimitsFlag) BindFallback(cmd *cobra.Command) {
	cmd.Flags().Var(&f.Limits, "fallback", "a limit to use if no level configures any for the entity and\nthe resource, otherwise ignored; may be repeated")
}

// Required fails unless there is a limit.
func (f *LimitsFlag) Required() error {
	if len(f.Limits) == 0 {
		return Required("limit", "rpm:100")
	}
	return nil
}

// BindOnUnavailable adds the flag for the behavior in an outage.
func BindOnUnavailable(cmd *cobra.Command, target *limiter.OnUnavailable, usage string) {
	cmd.Flags().Var(Choice(target, limiter.Block, limiter.Allow), "on-unavailable", usage)
}

// SetLimits replaces the limits of a level and shows the level.
func (a *App) SetLimits(ctx context.Context, k limiter.ConfigKey, limits []limiter.Limit) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	if err := store.SetLimits(ctx, k, limits); err != nil {
		return err
	}
	set, err := store.Limits(ctx, k)
	if err != nil {
		return err
	}
	return a.PrintLevel(k, set, bucketsOf(k, store))
}

// Buckets count how many buckets a change of an entity's limits has reached.
type Buckets struct {
	Reached uint64 `json:"reached"`
	Changed uint64 `json:"changed"`
	Left    uint64 `json:"left"`
}

// bucketsOf counts the buckets that a store has updated to a change of a level; nil if the
// level is not an entity's.
func bucketsOf(k limiter.ConfigKey, store *dynamo.Store) *Buckets {
	if k.Entity == "" {
		return nil
	}
	s := store.Stats()
	return &Buckets{s.Reached, s.Changed, s.Left}
}

// text writes the counts, if there are any buckets.
func (b *Buckets) text(w *strings.Builder) {
	if b == nil || b.Reached+b.Left == 0 {
		return
	}
	fmt.Fprintf(w, "buckets brought to them: %d, of which %d were different\n", b.Reached, b.Changed)
	if b.Left > 0 {
		fmt.Fprintf(w, "buckets left as they are: %d\n", b.Left)
	}
}

// GetLimits shows a level. It fails with [limiter.ErrNotFound] if the level has no
// configuration.
func (a *App) GetLimits(ctx context.Context, k limiter.ConfigKey) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	c, err := store.Limits(ctx, k)
	if err != nil {
		return err
	}
	return a.PrintLevel(k, c, nil)
}

// DeleteLimits deletes the limits of a level, called name, after confirmation.
func (a *App) DeleteLimits(ctx context.Context, confirm *Confirmation, k limiter.ConfigKey, name string) error {
	if err := confirm.Ask(ctx, fmt.Sprintf("Delete the limits of %s?", name)); err != nil {
		return err
	}
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	if err := store.DeleteLimits(ctx, k); err != nil {
		return err
	}
	buckets := bucketsOf(k, store)
	return a.Print(struct {
		Entity   string `json:"entity,omitempty"`
		Resource string `json:"resource,omitempty"`
		Deleted  bool   `json:"deleted"`

		Buckets *Buckets `json:"buckets,omitempty"`
	}{k.Entity, k.Resource, true, buckets}, func(w *strings.Builder) {
		fmt.Fprintf(w, "%s has no limits now\n", name)
		buckets.text(w)
	})
}
