package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
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
	return a.PrintLevel(k, set)
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
	return a.PrintLevel(k, c)
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
	return a.Print(struct {
		Entity   string `json:"entity,omitempty"`
		Resource string `json:"resource,omitempty"`
		Deleted  bool   `json:"deleted"`
	}{k.Entity, k.Resource, true}, func(w *strings.Builder) {
		fmt.Fprintf(w, "%s has no limits now\n", name)
	})
}
