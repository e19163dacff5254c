package dynamo

import (
	"context"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// Unconfigured says which limits end if levels are set as [Store.SetLevels] sets them. A
// level without limits stands for the deletion of its limits. The warnings are in the
// order of the levels. Their limits are complete, so a caller can set them at the new
// level, too. Unconfigured changes nothing.
//
// It looks at what each level replaces or reveals: levels are not merged, so the first
// that has limits holds, whole. An entity's limits for every resource replace those of
// each resource that has some, and those of the system. Limits of a level itself that its
// new limits lack have no warning.
func (s *Store) Unconfigured(ctx context.Context, levels []Level) ([]store.UnconfiguredWarning, error) {
	levels = slices.DeleteFunc(slices.Clone(levels), func(l Level) bool { return len(l.Limits) == 0 && l.OnUnavailable != "" })
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
	c := levelChange{before: before, after: maps.Clone(before)}
	for _, l := range levels {
		c.after[l.Key] = l.Limits
	}
	var all []store.UnconfiguredWarning
	for _, l := range levels {
		all = append(all, c.warnings(l, resources)...)
	}
	return s.withoutOwn(ctx, c.after, all)
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

// limitsOf reads the limits of levels; those without limits are missing.
func (s *Store) limitsOf(ctx context.Context, keys []store.ConfigKey) (map[store.ConfigKey][]store.Limit, error) {
	loaded, err := s.Load(ctx, &store.Load{Configs: keys, Consistent: true})
	if err != nil {
		return nil, err
	}
	limits := make(map[store.ConfigKey][]store.Limit, len(keys))
	for i, c := range loaded.Configs {
		if c != nil && len(c.Limits) > 0 {
			limits[keys[i]] = c.Limits
		}
	}
	return limits, nil
}

// A levelChange has the limits of levels before and after changes.
type levelChange struct {
	before, after map[store.ConfigKey][]store.Limit
}

// warnings are those about one level. resources are those with limits.
func (c *levelChange) warnings(l Level, resources []string) []store.UnconfiguredWarning {
	chains := [][]store.ConfigKey{levelsBelow(l.Key)}
	if isEveryResource(l.Key) {
		for _, r := range resources {
			if k := (store.ConfigKey{Resource: r}); len(c.after[k]) > 0 {
				chains = append(chains, []store.ConfigKey{k})
			}
		}
	}
	var all []store.UnconfiguredWarning
	for _, chain := range chains {
		next := store.ConfigKey{}
		if i := slices.IndexFunc(chain, func(k store.ConfigKey) bool { return len(c.after[k]) > 0 }); i >= 0 {
			next = chain[i]
		}
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
