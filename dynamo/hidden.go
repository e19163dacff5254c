package dynamo

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// maxHiding bounds the levels of entities that [Store.hidden] reads, and its warnings.
const maxHiding = 1000

// hidden are the limits that a change adds to levels and that levels above hide. A level
// above that is changed itself is left to [Store.ended].
func (s *Store) hidden(ctx context.Context, levels []Level) ([]store.UnconfiguredWarning, error) {
	gained, err := s.gained(ctx, levels)
	if err != nil || len(gained) == 0 {
		return nil, err
	}
	above, complete, err := s.levelsAbove(ctx, gained)
	if err != nil {
		return nil, err
	}
	above = slices.DeleteFunc(above, func(k store.ConfigKey) bool {
		return slices.ContainsFunc(levels, func(l Level) bool { return l.Key == k })
	})
	read := slices.Clone(above)
	for _, k := range above {
		read = append(read, levelsBelow(k)...)
	}
	before, err := s.limitsOf(ctx, read)
	if err != nil {
		return nil, err
	}
	c := changeOf(before, levels)
	all := c.hiding(above, gained)
	if len(all) > maxHiding {
		all, complete = all[:maxHiding], false
	}
	if !complete {
		s.conn.Log.WarnContext(ctx, "not every level was looked at that may hide a limit", "looked_at", maxHiding)
	}
	return s.withoutOwn(ctx, c.after, all)
}

// gained are the levels that get limits of names that they did not have, with these limits.
// They lack an entity's levels for one resource, which no level hides.
func (s *Store) gained(ctx context.Context, levels []Level) ([]Level, error) {
	var gained []Level
	var keys []store.ConfigKey
	for _, l := range levels {
		if len(l.Limits) > 0 && (l.Key.Entity == "" || isEveryResource(l.Key)) {
			gained, keys = append(gained, l), append(keys, l.Key)
		}
	}
	before, err := s.limitsOf(ctx, keys)
	for i := range gained {
		gained[i].Limits = lacking(gained[i].Limits, before[gained[i].Key])
	}
	return slices.DeleteFunc(gained, func(l Level) bool { return len(l.Limits) == 0 }), err
}

// levelsAbove are the levels that may hide limits of others, the resources' first. There
// are up to [maxHiding] of entities; complete says that these are all.
func (s *Store) levelsAbove(ctx context.Context, below []Level) (above []store.ConfigKey, complete bool, err error) {
	ofSystem := slices.ContainsFunc(below, func(l Level) bool { return l.Key == store.ConfigKey{} })
	if ofSystem {
		names, err := s.ResourcesWithDefaults(ctx)
		if err != nil {
			return nil, false, err
		}
		for _, r := range names {
			above = append(above, store.ConfigKey{Resource: r})
		}
	}
	most := len(above) + maxHiding
	resources, err := s.ResourcesWithEntityLimits(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, r := range resources {
		entities, err := s.entitiesAbove(ctx, r, below, most-len(above)+1)
		if err != nil {
			return nil, false, err
		}
		for _, e := range entities {
			above = append(above, store.ConfigKey{Entity: e, Resource: r})
		}
		if len(above) > most {
			return above[:most], false, nil
		}
	}
	return above, true, nil
}

// entitiesAbove are up to most entities whose limits for a resource, or for
// [store.DefaultResource], may hide limits of levels.
func (s *Store) entitiesAbove(ctx context.Context, resource string, below []Level, most int) (entities []string, err error) {
	for _, l := range below {
		switch {
		case l.Key.Entity == "" && (l.Key.Resource == "" || l.Key.Resource == resource || resource == store.DefaultResource):
			return s.entitiesWithLimits(ctx, resource, most)
		case l.Key.Entity != "" && resource != store.DefaultResource:
			entities = append(entities, l.Key.Entity)
		}
	}
	return entities, nil
}

// hiding are the gained limits that levels above hide after a change.
func (c *levelChange) hiding(above []store.ConfigKey, gained []Level) (all []store.UnconfiguredWarning) {
	limits := map[store.ConfigKey][]store.Limit{}
	var resources []string
	for _, l := range gained {
		limits[l.Key] = l.Limits
		if l.Key.Entity == "" && l.Key.Resource != "" {
			resources = append(resources, l.Key.Resource)
		}
	}
	for _, k := range above {
		if len(c.after[k]) == 0 {
			continue
		}
		for _, next := range c.next(k, resources) {
			if hidden := lacking(limits[next], c.after[k]); len(hidden) > 0 {
				all = append(all, store.UnconfiguredWarning{From: next, To: k, Limits: hidden})
			}
		}
	}
	return all
}
