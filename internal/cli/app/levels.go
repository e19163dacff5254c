package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/cli/limitarg"
)

// A LimitsFlag is the flag that takes limits.
type LimitsFlag struct{ Limits limitarg.Limits }

// Bind adds the flag to a command.
func (f *LimitsFlag) Bind(cmd *cobra.Command) {
	cmd.Flags().VarP(&f.Limits, "limit", "l", "a limit, may be repeated: a rate per sec, min (if not said),\nhour or day, or a number of them (10/5min), and the burst if\nit is not the rate")
}

// BindFallback adds the flag to a command whose limits hold where nothing is
// configured.
func (f *LimitsFlag) BindFallback(cmd *cobra.Command) {
	cmd.Flags().Var(&f.Limits, "fallback", "a limit for where no level configures any for the entity and\nthe resource, may be repeated; ignored where one does")
}

// Required fails unless there is a limit.
func (f *LimitsFlag) Required() error {
	if len(f.Limits) == 0 {
		return Required("limit", "rpm:100")
	}
	return nil
}

// BindOnUnavailable adds the flag that says what to do in an outage.
func BindOnUnavailable(cmd *cobra.Command, target *limiter.OnUnavailable, usage string) {
	cmd.Flags().Var(Choice(target, limiter.Block, limiter.Allow), "on-unavailable", usage)
}

// SetLimits replaces the limits of a level and shows what the level then says.
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

// Buckets say how far a change of an entity's limits came.
type Buckets struct {
	Reached uint64 `json:"reached"`
	Changed uint64 `json:"changed"`
	Left    uint64 `json:"left"`
}

// bucketsOf are the buckets that a store has brought to a change of a level; nil if the
// level is not an entity's.
func bucketsOf(k limiter.ConfigKey, store *dynamo.Store) *Buckets {
	if k.Entity == "" {
		return nil
	}
	s := store.Stats()
	return &Buckets{s.Reached, s.Changed, s.Left}
}

// text writes how many buckets follow, if there are any.
func (b *Buckets) text(w *strings.Builder) {
	if b == nil || b.Reached+b.Left == 0 {
		return
	}
	fmt.Fprintf(w, "buckets brought to them: %d, of which %d were different\n", b.Reached, b.Changed)
	if b.Left > 0 {
		fmt.Fprintf(w, "buckets left as they are: %d\n", b.Left)
	}
}

// GetLimits shows what a level says. It fails with [limiter.ErrNotFound] if that
// is nothing.
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

// DeleteLimits deletes the limits of a level, called name, after asking.
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
