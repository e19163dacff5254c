package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/dynamo"
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
// hold then, because levels are not merged. With keep it also sets those of the next level.
func (a *App) setLimits(ctx context.Context, l dynamo.Level, keep bool) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	unconfigured, err := store.Unconfigured(ctx, []dynamo.Level{l})
	if keep && err == nil {
		if l.Limits, err = kept(ctx, store, l, unconfigured); err == nil {
			unconfigured, err = store.Unconfigured(ctx, []dynamo.Level{l})
		}
	}
	switch {
	case err != nil && keep:
		return err
	case err != nil:
		a.unknownEnds(err)
	}
	if err := errors.Join(store.SetLevels(ctx, []dynamo.Level{l})...); err != nil {
		return err
	}
	set, err := store.Limits(ctx, l.Key)
	if err != nil {
		return err
	}
	if err := a.PrintLevel(l.Key, set, bucketsOf(l.Key, store), UnconfiguredOf(unconfigured)); err != nil {
		return err
	}
	a.WarnUnconfigured(unconfigured, func(w limiter.UnconfiguredWarning) string {
		if w.To == l.Key {
			return "; --keep-defaults sets them here, too"
		}
		return "; set them at that level, too, if they are to hold"
	})
	return nil
}

func (a *App) unknownEnds(err error) { a.Notef("Warning: limits that end are unknown: %v", err) }

// kept are the limits of a level with those that would end. It fails if two levels have
// different limits of one name, or one that cannot be set as it is.
func kept(ctx context.Context, s *dynamo.Store, l dynamo.Level, unconfigured []limiter.UnconfiguredWarning) ([]limiter.Limit, error) {
	all := slices.Clone(l.Limits)
	from := map[string]limiter.UnconfiguredWarning{}
	for _, w := range unconfigured {
		if w.To != l.Key {
			continue // a level above hides them
		}
		c, err := s.Limits(ctx, w.From)
		if err != nil {
			return nil, err
		}
		if c.Features != 0 {
			return nil, fmt.Errorf("%w: --keep-defaults cannot copy the limits of %s, which use %s: give them with --limit", limiter.ErrUnsupported, w.From, c.Features)
		}
		for _, l := range w.Limits {
			other, there := from[l.Name]
			switch {
			case !there:
				from[l.Name] = w
				all = append(all, l)
			case !slices.Contains(other.Limits, l):
				return nil, Usagef("--keep-defaults: %s and %s have different limits %s: give --limit %s, or set limits for one --resource", other.From, w.From, l.Name, l.Name)
			}
		}
	}
	return all, nil
}

// An Unconfigured is a warning in JSON: limits do not hold, because another level holds.
type Unconfigured struct {
	Limits []string `json:"limit_names"` // names of the limits
	From   LevelKey `json:"from_level"`  // level that has them, or had them
	To     LevelKey `json:"to_level"`    // level that holds instead, and lacks them
}

// A LevelKey names a level of configuration in JSON; the system's is empty.
type LevelKey struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
}

// UnconfiguredOf are warnings in JSON.
func UnconfiguredOf(ended []limiter.UnconfiguredWarning) []Unconfigured {
	all := make([]Unconfigured, len(ended))
	for i, w := range ended {
		all[i] = Unconfigured{[]string{}, LevelKey(w.From), LevelKey(w.To)}
		for _, l := range w.Limits {
			all[i].Limits = append(all[i].Limits, l.Name)
		}
	}
	return all
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

// Buckets count how many buckets a change of an entity's limits has reached.
type Buckets struct {
	Reached uint64 `json:"reached"` // buckets that have the limits now
	Changed uint64 `json:"changed"` // of those reached, how many were different
	Left    uint64 `json:"left"`    // buckets that could not be updated
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

// getLimits shows a level. It fails with [limiter.ErrNotFound] if the level has no
// configuration.
func (a *App) getLimits(ctx context.Context, k limiter.ConfigKey) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	c, err := store.Limits(ctx, k)
	if err != nil {
		return err
	}
	return a.PrintLevel(k, c, nil, nil)
}

// A DeletedLevel is the result of the deletion of a level in JSON.
type DeletedLevel struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
	Deleted  bool   `json:"deleted"` // false if the level had no limits

	Next    *string  `json:"next_level,omitempty"` // level whose limits hold instead: system or none
	Buckets *Buckets `json:"buckets,omitempty"`    // how many buckets were updated; only for an entity

	Unconfigured []Unconfigured `json:"unconfigured,omitempty"` // limits that do not hold now, because the next level lacks them
}

// deleteLimits deletes the limits of a level, after confirmation.
func (a *App) deleteLimits(ctx context.Context, confirm *Confirmation, k limiter.ConfigKey) error {
	if err := confirm.Ask(ctx, fmt.Sprintf("Delete the limits of %s?", k)); err != nil {
		return err
	}
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	old, err := levelOf(ctx, store, k)
	if err != nil {
		return err
	}
	ended, err := store.Unconfigured(ctx, []dynamo.Level{{Key: k}})
	if err != nil {
		a.unknownEnds(err)
	}
	// Deleting nothing still completes a deletion that was interrupted.
	if err := store.DeleteLimits(ctx, k); err != nil {
		return err
	}
	next, err := nextLevel(ctx, store, k)
	if err != nil {
		return err
	}
	deleted := hasLimits(old) || old != nil && old.OnUnavailable != ""
	buckets := bucketsOf(k, store)
	a.WarnUnconfigured(ended, func(limiter.UnconfiguredWarning) string { return "" })
	return a.Print(DeletedLevel{k.Entity, k.Resource, deleted, next, buckets, UnconfiguredOf(ended)}, func(w *strings.Builder) {
		if deleted {
			fmt.Fprintf(w, "%s has no limits of its own now\n", k)
		} else {
			fmt.Fprintf(w, "%s had no limits\n", k)
		}
		switch {
		case next == nil:
		case *next == limiter.LevelSystem.String():
			w.WriteString("the limits of the system hold instead; buckets in use follow within a minute\n")
		default:
			w.WriteString("no level has limits instead: requests without limits of their own fail within a minute.\n" +
				"Python clients keep the limits of the buckets that exist\n")
		}
		buckets.text(w)
	})
}

// levelOf reads a level; nil if it has no configuration.
func levelOf(ctx context.Context, s *dynamo.Store, k limiter.ConfigKey) (*limiter.Config, error) {
	c, err := s.Limits(ctx, k)
	if errors.Is(err, limiter.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none, and no error
	}
	return c, err
}

func hasLimits(c *limiter.Config) bool { return c != nil && (len(c.Limits) > 0 || !c.IsEvaluable()) }

// nextLevel is the level whose limits hold where those of a resource or the system were
// deleted, as a JSON name; nil for an entity's level, for which buckets say it.
func nextLevel(ctx context.Context, s *dynamo.Store, k limiter.ConfigKey) (*string, error) {
	if k.Entity != "" {
		return nil, nil //nolint:nilnil // nothing to say, and no error
	}
	next := limiter.LevelNone.String()
	if k.Resource != "" {
		system, err := levelOf(ctx, s, limiter.ConfigKey{})
		if err != nil {
			return nil, err
		}
		if hasLimits(system) {
			next = limiter.LevelSystem.String()
		}
	}
	return &next, nil
}
