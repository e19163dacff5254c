package store

import (
	"fmt"
	"strings"
)

// A SaturatedWarning says that a bucket has [MaxShards] shards and is written to faster
// than they all sustain: its callers wait for each other. The limiter logs it, once for
// each bucket and limiter, as the attribute "warning".
type SaturatedWarning struct{ Entity, Resource string }

// String names the bucket and what to do.
func (w SaturatedWarning) String() string {
	return fmt.Sprintf("%s of entity %q is written to more than %d times a second, and has no more than %d shards: spread the load over several entities",
		w.Resource, w.Entity, MaxShards*WritesPerSecond, MaxShards)
}

// An UnconfiguredWarning says that limits do not hold after a change of configuration: one
// level has them, or had them, and another level holds instead that does not have them.
// Levels are not merged. A request that names such a limit then fails with
// [ErrNotConfigured]; a request that cascades to an entity without the limit does not take
// it from the entity. A store logs it as the attribute "warning".
type UnconfiguredWarning struct {
	// Limits are those that do not hold, as From has them.
	Limits []Limit
	// From has the limits, and To holds instead. If no level has limits, To is the system's.
	From, To ConfigKey
}

// String names the limits and both levels.
func (w UnconfiguredWarning) String() string {
	all := make([]string, len(w.Limits))
	for i, l := range w.Limits {
		all[i] = l.Name
	}
	names := strings.Join(all, ", ")
	s := fmt.Sprintf("%s holds instead of %s, and has no limit %s: requests that name %s fail", w.To, w.From, names, names)
	if entity := w.From.Entity + w.To.Entity; entity != "" {
		s += ", and requests of children take none of it here"
	}
	return s
}
