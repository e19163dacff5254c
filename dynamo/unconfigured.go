package dynamo

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// maxLogged bounds the warnings of one change that a store logs.
const maxLogged = 10

// Unconfigured says which limits do not hold if levels are set as [Store.SetLevels] sets
// them, although a level has them. A level without limits stands for the deletion of its
// limits. The limits of the warnings are complete, so a caller can set them at the level
// that holds, too. Unconfigured changes nothing.
//
// Levels are not merged: the first that has limits holds, whole. So the warnings are
// about two kinds of limits, in this order:
//   - Limits that end: the change sets a level that replaces the one with the limits, or
//     deletes it and reveals another. An entity's limits for every resource replace those
//     of each resource that has some, and those of the system.
//   - Limits that the change adds to a level, and that levels above hide. It looks at up
//     to 1,000 levels of entities, and logs that there are more. It looks for none if the
//     change adds no limit, and logs that it may not look.
//
// Limits of a level itself that its new limits lack have no warning.
func (s *Store) Unconfigured(ctx context.Context, levels []Level) ([]store.UnconfiguredWarning, error) {
	levels = slices.DeleteFunc(slices.Clone(levels), func(l Level) bool { return len(l.Limits) == 0 && l.OnUnavailable != "" })
	ended, err := s.ended(ctx, levels)
	if err != nil {
		return nil, err
	}
	hidden, err := s.hidden(ctx, levels)
	if errors.Is(err, store.ErrAccessDenied) {
		s.conn.Log.WarnContext(ctx, "levels that may hide a limit were not looked at", "error", err)
		err = nil
	}
	return append(ended, hidden...), err
}

// ended are the limits that end because levels are set or deleted.
func (s *Store) ended(ctx context.Context, levels []Level) ([]store.UnconfiguredWarning, error) {
	resources, err := s.resourcesBelow(ctx, levels)
	if err != nil {
		return nil, err
	}
	read := []store.ConfigKey{{}}
	for _, r := range resources {
		read = append(read, store.ConfigKey{Resource: r})
	}
	for _, l := range levels {
		if below := levelsBelow(l.Key); len(below) > 0 {
			read = append(append(read, l.Key), below...)
		}
	}
	if len(read) == len(resources)+1 {
		return nil, nil // nothing is below the system
	}
	before, err := s.limitsOf(ctx, read)
	if err != nil {
		return nil, err
	}
	c := changeOf(before, levels)
	var all []store.UnconfiguredWarning
	for _, l := range levels {
		all = append(all, c.warnings(l, resources)...)
	}
	return s.withoutOwn(ctx, c.after, all)
}

// foresee finds the limits that end when a level is set, if they would be logged. It
// returns what logs them once the level is set.
func (s *Store) foresee(ctx context.Context, l Level) (warn func()) {
	log := s.conn.Log
	if !log.Enabled(ctx, slog.LevelWarn) {
		return func() {}
	}
	ended, err := s.ended(ctx, []Level{l})
	return func() {
		if err != nil {
			log.WarnContext(ctx, "limits set: whether they end limits of other levels is unknown", "level", l.Key.String(), "error", err)
		}
		for _, w := range ended[:min(len(ended), maxLogged)] {
			log.WarnContext(ctx, "limits ended: set them at the level that holds now if they are to hold", "warning", w)
		}
		if more := len(ended) - maxLogged; more > 0 {
			log.WarnContext(ctx, "limits of more levels ended", "level", l.Key.String(), "levels", more)
		}
	}
}

// resourcesBelow are the resources with limits, if one of the levels is an entity's for
// every resource.
func (s *Store) resourcesBelow(ctx context.Context, levels []Level) ([]string, error) {
	if !slices.ContainsFunc(levels, func(l Level) bool { return isEveryResource(l.Key) }) {
		return nil, nil
	}
	names, err := s.ResourcesWithDefaults(ctx)
	for _, l := range levels {
		if l.Key.Entity == "" && l.Key.Resource != "" {
			names = append(names, l.Key.Resource)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

func isEveryResource(k store.ConfigKey) bool {
	return k.Entity != "" && k.Resource == store.DefaultResource
}

// levelsBelow are the levels that a level may replace for its own resource, in their order.
func levelsBelow(k store.ConfigKey) []store.ConfigKey {
	switch {
	case k == store.ConfigKey{}:
		return nil
	case k.Entity == "" || isEveryResource(k):
		return []store.ConfigKey{{}}
	}
	return []store.ConfigKey{{Entity: k.Entity, Resource: store.DefaultResource}, {Resource: k.Resource}, {}}
}

// limitsOf reads the limits of levels. Those without limits are missing, and so are those
// that cannot be read: a change may be about to replace them.
func (s *Store) limitsOf(ctx context.Context, levels []store.ConfigKey) (map[store.ConfigKey][]store.Limit, error) {
	keys, err := s.loadKeys(&store.Load{Configs: levels})
	if err != nil {
		return nil, err
	}
	items, err := s.conn.BatchGet(ctx, "read limits of levels", keys, true)
	if err != nil {
		return nil, err
	}
	limits := make(map[store.ConfigKey][]store.Limit, len(levels))
	for i, k := range levels {
		if c, err := schema.DecodeConfig(items[keys[i]]); err == nil && len(c.Limits) > 0 {
			limits[k] = c.Limits
		}
	}
	return limits, nil
}

// A levelChange has the limits of levels before and after changes.
type levelChange struct {
	before, after map[store.ConfigKey][]store.Limit
}

// changeOf is the change that sets levels. It keeps before.
func changeOf(before map[store.ConfigKey][]store.Limit, levels []Level) *levelChange {
	c := &levelChange{before: before, after: maps.Clone(before)}
	for _, l := range levels {
		c.after[l.Key] = l.Limits
	}
	return c
}

// next are the levels that hold, after the changes, where a level has no limits: one for
// its own resource, or one for each of the resources with limits and one for all others.
func (c *levelChange) next(k store.ConfigKey, resources []string) []store.ConfigKey {
	next := store.ConfigKey{}
	below := levelsBelow(k)
	if i := slices.IndexFunc(below, func(k store.ConfigKey) bool { return len(c.after[k]) > 0 }); i >= 0 {
		next = below[i]
	}
	all := []store.ConfigKey{next}
	if isEveryResource(k) {
		for _, r := range resources {
			if k := (store.ConfigKey{Resource: r}); len(c.after[k]) > 0 {
				all = append(all, k)
			}
		}
	}
	return all
}

// warnings are those about one level. resources are those with limits.
func (c *levelChange) warnings(l Level, resources []string) []store.UnconfiguredWarning {
	var all []store.UnconfiguredWarning
	for _, next := range c.next(l.Key, resources) {
		w := store.UnconfiguredWarning{From: next, To: l.Key, Limits: lacking(c.after[next], l.Limits)}
		if len(l.Limits) == 0 {
			w = store.UnconfiguredWarning{From: l.Key, To: next, Limits: lacking(c.before[l.Key], c.after[next])}
		}
		if w.From != w.To && len(w.Limits) > 0 {
			all = append(all, w)
		}
	}
	return all
}

// lacking are the limits whose names others lack.
func lacking(limits, others []store.Limit) []store.Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l store.Limit) bool {
		return slices.ContainsFunc(others, func(o store.Limit) bool { return o.Name == l.Name })
	})
}

// withoutOwn leaves out the warnings between an entity's limits for every resource and a
// resource for which the entity has limits of its own: those hold before and after.
func (s *Store) withoutOwn(ctx context.Context, after map[store.ConfigKey][]store.Limit, all []store.UnconfiguredWarning) ([]store.UnconfiguredWarning, error) {
	var unknown []store.ConfigKey
	for _, w := range all {
		if own := ownOf(w); own != nil {
			if _, known := after[*own]; !known {
				unknown = append(unknown, *own)
			}
		}
	}
	if len(unknown) > 0 {
		more, err := s.limitsOf(ctx, unknown)
		if err != nil {
			return nil, err
		}
		maps.Copy(after, more)
	}
	return slices.DeleteFunc(all, func(w store.UnconfiguredWarning) bool {
		own := ownOf(w)
		return own != nil && len(after[*own]) > 0
	}), nil
}

// ownOf is the level of an entity for a resource that holds before both levels of a
// warning; nil if there is none.
func ownOf(w store.UnconfiguredWarning) *store.ConfigKey {
	entity, other := w.From, w.To
	if !isEveryResource(entity) {
		entity, other = other, entity
	}
	if !isEveryResource(entity) || other.Entity != "" || other.Resource == "" {
		return nil
	}
	return &store.ConfigKey{Entity: entity.Entity, Resource: other.Resource}
}
