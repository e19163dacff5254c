package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// A LimitsFlag is the flag that takes limits.
type LimitsFlag struct{ Limits limitarg.Limits }

// Bind adds the flag to a command.
func (f *LimitsFlag) Bind(cmd *cobra.Command) {
	cmd.Flags().VarP(&f.Limits, "limit", "l", "a limit; may be repeated. The period is sec, min, hour or day,\nor a number of them (10/5min); the default is min. The burst\ndefaults to the rate. A quota is name:tokens@when[@zone]:\nrpd:1000@day, \"rpd:1000@month from day 15@Europe/Berlin\"")
}

// BindFallback adds the flag to a command whose limits apply where none are configured.
func (f *LimitsFlag) BindFallback(cmd *cobra.Command) {
	cmd.Flags().Var(&f.Limits, "fallback", "a limit to use if no level configures any for the entity and\nthe resource, otherwise ignored; may be repeated")
}

// BindOnUnavailable adds the flag for the behavior in an outage.
func BindOnUnavailable(cmd *cobra.Command, target *limiter.OnUnavailable, usage string) {
	cmd.Flags().Var(Choice(target, limiter.Block, limiter.Allow, limiter.Share), "on-unavailable", usage)
}

// setLimits sets what a level gives, and shows the level. It warns of limits that do not
// hold then, because levels are not merged.
func (a *App) setLimits(ctx context.Context, to manage.Setting) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	set, ended, err := manage.SetLimits(ctx, store, to)
	if ambiguous := (*manage.AmbiguousError)(nil); errors.As(err, &ambiguous) {
		return Usagef("--keep-defaults: %w: give --limit %s, or set limits for one --resource", err, ambiguous.Limit)
	}
	a.unknownEnds(ended)
	if err != nil {
		return err
	}
	if err := a.PrintLevel(set); err != nil {
		return err
	}
	a.WarnUnconfigured(ended.Warnings, func(w limiter.UnconfiguredWarning) string {
		if w.To == to.Key {
			return "; --keep-defaults sets them here, too"
		}
		return "; set them at that level, too, if they are to hold"
	})
	return nil
}

// unknownEnds tells a person that the limits that end are not known, if so.
func (a *App) unknownEnds(ended manage.Ended) {
	if ended.Unknown != nil {
		a.Notef("Warning: limits that end are unknown: %v", ended.Unknown)
	}
}

// WarnUnconfigured tells a person of limits that do not hold, and what to do.
func (a *App) WarnUnconfigured(all []limiter.UnconfiguredWarning, mend func(limiter.UnconfiguredWarning) string) {
	const most = 10
	for _, w := range all[:min(len(all), most)] {
		a.Notef("Warning: %s%s", w, mend(w))
	}
	if len(all) > most {
		a.Notef("Warning: there are %d more such levels; --output json has them all", len(all)-most)
	}
}

// bucketsText writes the counts, if there are any buckets.
func bucketsText(w *strings.Builder, b *manage.Buckets) {
	if b == nil || b.Reached+b.Left == 0 {
		return
	}
	fmt.Fprintf(w, "buckets brought to them: %d, of which %d were different\n", b.Reached, b.Changed)
	if b.Left > 0 {
		fmt.Fprintf(w, "buckets left as they are: %d\n", b.Left)
	}
}

// deleteLimits deletes the limits of a level, after confirmation.
func (a *App) deleteLimits(ctx context.Context, confirm *Confirmation, d manage.Deletion) error {
	k := d.Key
	if !d.DryRun {
		if err := confirm.Ask(ctx, fmt.Sprintf("Delete the limits of %s?", k)); err != nil {
			return err
		}
	}
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	deleted, ended, err := manage.DeleteLimits(ctx, store, d)
	a.unknownEnds(ended)
	if err != nil {
		return err
	}
	a.WarnUnconfigured(ended.Warnings, func(limiter.UnconfiguredWarning) string { return "" })
	return a.Print(deleted, func(w *strings.Builder) { deletionText(w, k, &deleted) })
}

// deletionText writes for people what a deletion has done.
func deletionText(w *strings.Builder, k limiter.ConfigKey, d *manage.DeletedLevel) {
	if d.DryRun {
		w.WriteString("dry run, nothing was changed: without --dry-run,\n")
	}
	if d.Deleted {
		fmt.Fprintf(w, "%s has no limits of its own now\n", k)
	} else {
		fmt.Fprintf(w, "%s had no limits\n", k)
	}
	switch {
	case d.Next == nil:
	case *d.Next == limiter.LevelSystem.String():
		w.WriteString("the limits of the system hold instead; buckets in use follow within a minute\n")
	default:
		w.WriteString("no level has limits instead: requests without limits of their own fail within a minute.\n" +
			"Python clients keep the limits of the buckets that exist\n")
	}
	bucketsText(w, d.Buckets)
}
