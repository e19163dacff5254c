package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Buckets count how many buckets a change of an entity's limits has reached.
type Buckets struct {
	Reached uint64 `json:"reached"` // buckets that have the limits now
	Changed uint64 `json:"changed"` // of those reached, how many were different
	Left    uint64 `json:"left"`    // buckets that could not be updated
}

// bucketsSince counts the buckets that a store has updated to a change of a level since it counted was;
// nil if the level is not an entity's.
func bucketsSince(k store.ConfigKey, s *dynamo.Store, was dynamo.Stats) *Buckets {
	if k.Entity == "" {
		return nil
	}
	is := s.Stats()
	return &Buckets{is.Reached - was.Reached, is.Changed - was.Changed, is.Left - was.Left}
}

// Ended are the limits that do not hold after a change, because another level holds.
type Ended struct {
	Warnings []store.UnconfiguredWarning
	// Unknown is why the warnings could not be made; nil if they were.
	Unknown error
}

// A Setting is what a level of configuration is to be.
type Setting struct {
	dynamo.Level
	// Keep also sets those limits of the next level that the setting does not name.
	Keep bool
	// DryRun changes nothing.
	DryRun bool
}

// SetLimits sets what a level gives, and returns what it has then. Levels are not merged, so limits of
// the next level may end.
func SetLimits(ctx context.Context, s *dynamo.Store, to Setting) (set Level, ended Ended, err error) {
	l := to.Level
	ended.Warnings, ended.Unknown = s.Unconfigured(ctx, []dynamo.Level{l})
	if to.Keep && ended.Unknown == nil {
		if l.Limits, ended.Unknown = kept(ctx, s, l, ended.Warnings); ended.Unknown == nil {
			ended.Warnings, ended.Unknown = s.Unconfigured(ctx, []dynamo.Level{l})
		}
	}
	if to.Keep && ended.Unknown != nil {
		return Level{}, Ended{}, ended.Unknown
	}
	if to.DryRun {
		set, err = foreseen(ctx, s, l)
	} else {
		set, err = setLevel(ctx, s, l)
	}
	set.Unconfigured = UnconfiguredOf(ended.Warnings)
	return set, ended, err
}

// setLevel sets a level, and reads it again.
func setLevel(ctx context.Context, s *dynamo.Store, l dynamo.Level) (Level, error) {
	was := s.Stats()
	if err := errors.Join(s.SetLevels(ctx, []dynamo.Level{l})...); err != nil {
		return Level{}, err
	}
	c, err := s.Limits(ctx, l.Key)
	if err != nil {
		return Level{}, err
	}
	set := LevelOf(l.Key, c)
	set.Buckets = bucketsSince(l.Key, s, was)
	return set, nil
}

// foreseen is what a level would have.
func foreseen(ctx context.Context, s *dynamo.Store, l dynamo.Level) (Level, error) {
	if err := l.Check(); err != nil {
		return Level{}, err
	}
	c, err := stored(ctx, s, l.Key)
	if err == nil && l.If != nil {
		err = l.If(c)
	}
	if err != nil {
		return Level{}, err
	}
	would := store.Config{}
	if c != nil {
		would = *c
	}
	if len(l.Limits) > 0 {
		would.Limits = slices.SortedFunc(slices.Values(l.Limits), func(a, b store.Limit) int { return cmp.Compare(a.Name, b.Name) })
		would.Features = 0
	}
	if l.OnUnavailable != "" {
		would.OnUnavailable = l.OnUnavailable
	}
	set := LevelOf(l.Key, &would)
	set.DryRun = true
	return set, nil
}

// kept are the limits of a level with those that would end. It fails if two levels have different limits
// of one name, or one that cannot be set as it is.
func kept(ctx context.Context, s *dynamo.Store, l dynamo.Level, unconfigured []store.UnconfiguredWarning) ([]store.Limit, error) {
	all := slices.Clone(l.Limits)
	from := map[string]store.UnconfiguredWarning{}
	for _, w := range unconfigured {
		if w.To != l.Key {
			continue // a level above hides them
		}
		c, err := s.Limits(ctx, w.From)
		if err != nil {
			return nil, err
		}
		if c.Features != 0 {
			return nil, fmt.Errorf("%w: the limits of %s cannot be copied, because they use %s: give them", store.ErrUnsupported, w.From, c.Features)
		}
		for _, l := range w.Limits {
			other, there := from[l.Name]
			switch {
			case !there:
				from[l.Name] = w
				all = append(all, l)
			case !slices.Contains(other.Limits, l):
				return nil, &AmbiguousError{Limit: l.Name, Levels: [2]store.ConfigKey{other.From, w.From}}
			}
		}
	}
	return all, nil
}

// An AmbiguousError says that two levels have different limits of one name, so none of them can be kept.
type AmbiguousError struct {
	Limit  string
	Levels [2]store.ConfigKey
}

// Error says which.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s and %s have different limits %s", e.Levels[0], e.Levels[1], e.Limit)
}

// GetLimits reads a level. It fails with [store.ErrNotFound] if the level has no configuration.
func GetLimits(ctx context.Context, s *dynamo.Store, k store.ConfigKey) (Level, error) {
	c, err := s.Limits(ctx, k)
	if err != nil {
		return Level{}, err
	}
	return LevelOf(k, c), nil
}

// A DeletedLevel is the result of the deletion of a level in JSON.
type DeletedLevel struct {
	Entity   string `json:"entity_id,omitempty"`
	Resource string `json:"resource,omitempty"`
	Deleted  bool   `json:"deleted"` // false if the level had no limits

	Next    *string  `json:"next_level,omitempty"` // level whose limits hold instead: system or none
	Buckets *Buckets `json:"buckets,omitempty"`    // how many buckets were updated; only for an entity

	Unconfigured []Unconfigured `json:"unconfigured,omitempty"` // limits that do not hold now, because the next level lacks them
	DryRun       bool           `json:"dry_run,omitempty"`      // nothing was changed
}

// A Deletion says which limits to delete.
type Deletion struct {
	Key store.ConfigKey
	// If is that of a [dynamo.Level].
	If func(*store.Config) error
	// DryRun changes nothing.
	DryRun bool
}

// DeleteLimits deletes the limits of a level, so that the next level holds.
func DeleteLimits(ctx context.Context, s *dynamo.Store, d Deletion) (deleted DeletedLevel, ended Ended, err error) {
	k := d.Key
	old, err := stored(ctx, s, k)
	if err != nil {
		return deleted, ended, err
	}
	ended.Warnings, ended.Unknown = s.Unconfigured(ctx, []dynamo.Level{{Key: k}})
	deleted = DeletedLevel{
		Entity: k.Entity, Resource: k.Resource, Deleted: hasLimits(old) || old != nil && old.OnUnavailable != "",
		Unconfigured: UnconfiguredOf(ended.Warnings), DryRun: d.DryRun,
	}
	was := s.Stats()
	switch {
	case !d.DryRun:
		// Deleting nothing still completes a deletion that was interrupted.
		err = s.DeleteLimitsIf(ctx, k, d.If)
		deleted.Buckets = bucketsSince(k, s, was)
	case d.If != nil:
		err = d.If(old)
	}
	if err == nil {
		deleted.Next, err = nextLevel(ctx, s, k)
	}
	return deleted, ended, err
}

// stored reads a level; nil if it has no configuration.
func stored(ctx context.Context, s *dynamo.Store, k store.ConfigKey) (*store.Config, error) {
	c, err := s.Limits(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none, and no error
	}
	return c, err
}

// askLevel asks the question of a change about what its level has now.
func askLevel(ctx context.Context, s *dynamo.Store, k store.ConfigKey, is func(*store.Config) error) error {
	if is == nil {
		return nil
	}
	c, err := stored(ctx, s, k)
	if err != nil {
		return err
	}
	return is(c)
}

func hasLimits(c *store.Config) bool { return c != nil && (len(c.Limits) > 0 || !c.IsEvaluable()) }

// nextLevel is the level whose limits hold where those of a resource or the system were
// deleted, as a JSON name; nil for an entity's level, for which buckets say it.
func nextLevel(ctx context.Context, s *dynamo.Store, k store.ConfigKey) (*string, error) {
	if k.Entity != "" {
		return nil, nil //nolint:nilnil // nothing to say, and no error
	}
	next := limiter.LevelNone.String()
	if k.Resource != "" {
		system, err := stored(ctx, s, store.ConfigKey{})
		if err != nil {
			return nil, err
		}
		if hasLimits(system) {
			next = limiter.LevelSystem.String()
		}
	}
	return &next, nil
}
