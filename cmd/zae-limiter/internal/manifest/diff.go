package manifest

import (
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// An Action is what an apply does with one level.
type Action string

// The actions. Only create, update and delete change what clients see.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
	// Resume sets a level again that is equal already: an apply did not finish, so that
	// buckets may not follow yet.
	Resume Action = "resume"
	// Adopt takes ownership of a level that is equal already.
	Adopt Action = "adopt"
	// Forget gives up ownership of a level that is deleted already, or of an entity's record,
	// which no apply deletes.
	Forget Action = "forget"
	// Keep leaves a level that is owned and no longer declared, because deletions were
	// not asked for.
	Keep Action = "keep"
	// Conflict leaves a level that belongs to another manifest.
	Conflict Action = "conflict"
	// Unchanged is a level that is owned and equal.
	Unchanged Action = "unchanged"
)

// A Change is what an apply does with one level, and why.
type Change struct {
	Action Action
	Key    store.ConfigKey
	// Before is what the table holds, nil if nothing; After is what the manifest declares,
	// nil if nothing.
	Before *store.Config
	After  *Level
	// Entity is, in place of Before, what the table holds of an entity's record.
	Entity *store.Entity
	// Drift reports that somebody else changed or deleted the level since the manifest was
	// last applied.
	Drift bool
	// Unowned reports that the level exists and belongs to no manifest: this one takes
	// it over.
	Unowned bool
	// Owner is the manifest that owns the level, in a conflict.
	Owner string
	// Clears are the policies that the manifest has set and declares no longer, so that an
	// apply removes them.
	Clears Policies
	// Unreadable is why what the table holds cannot be read. An update replaces it.
	Unreadable error

	resumes bool // an apply that changed the level did not finish
}

// A State has the owners of the levels of a namespace.
type State struct {
	// Owned are the levels that the manifest owns, with a digest of what it set them to.
	Owned map[store.ConfigKey]string
	// Others are the levels that other manifests own, with their names.
	Others map[store.ConfigKey]string
	// Now is the instant of the plan: switches that have ended by then do not count.
	Now time.Time
}

// Live is what the table holds of a level.
type Live struct {
	Config *store.Config // nil if there is none, or if it cannot be read
	Err    error         // why it cannot be read
	Entity *store.Entity // of a record; nil if there is none
}

// Diff says what an apply of a manifest does: a change for every level that it declares
// or owns, in the order of [Manifest.Keys]. prune asks for the deletion of levels that
// it owns and does not declare. live has what the table holds of these levels.
func Diff(m *Manifest, s State, live map[store.ConfigKey]Live, prune bool) []Change {
	keys := maps.Clone(s.Owned)
	if keys == nil {
		keys = map[store.ConfigKey]string{}
	}
	for k := range m.Levels {
		keys[k] = ""
	}
	changes := make([]Change, 0, len(keys))
	for _, k := range slices.SortedFunc(maps.Keys(keys), compareKeys) {
		c := Change{Key: k, Before: live[k].Config, Entity: live[k].Entity, Unreadable: live[k].Err}
		if l, ok := m.Levels[k]; ok {
			c.After = &l
		}
		digest, owned := s.Owned[k]
		c.Drift = owned && c.Unreadable == nil && c.drifted(digest, s.Now)
		c.Clears = c.cleared(digest)
		rest, _ := cutPolicies(digest)
		c.resumes = rest == pending
		c.decide(owned, s.Others[k], prune, s.Now)
		if !c.writes() {
			c.Clears = Policies{}
		}
		changes = append(changes, c)
	}
	return changes
}

// decide sets the action of a change.
func (c *Change) decide(owned bool, owner string, prune bool, now time.Time) {
	exists := c.exists()
	switch {
	case owner != "" && !owned:
		c.Action, c.Owner = Conflict, owner
	case c.After == nil && !exists && !c.resumes:
		c.Action = Forget
	case c.After == nil && !prune:
		c.Action = Keep
	case c.After == nil && isRecord(c.Key):
		c.Action = Forget
	case c.After == nil:
		c.Action = Delete
	case !exists && c.After.isEmptyAt(now):
		c.Action = Unchanged
	case !exists:
		c.Action = Create
	case !c.holds(now) || c.Clears.Any() && !c.resumes:
		c.Action, c.Unowned = Update, !owned
	case !owned:
		c.Action = Adopt
	case c.resumes:
		c.Action = Resume
	default:
		c.Action = Unchanged
	}
}

// exists reports whether the table holds something of the level.
func (c *Change) exists() bool { return c.Before != nil || c.Unreadable != nil || c.Entity != nil }

// holds reports whether the table holds what is declared.
func (c *Change) holds(now time.Time) bool {
	if isRecord(c.Key) {
		return c.After.describes(c.Entity)
	}
	return c.After.holds(c.Before, now)
}

// drifted reports whether the level was changed since it was set to what digest identifies.
func (c *Change) drifted(digest string, now time.Time) bool {
	if isRecord(c.Key) {
		return recordDrifted(digest, c.Entity)
	}
	return drifted(digest, c.Before, now)
}

// writes reports whether an apply sends the level to the table.
func (c *Change) writes() bool {
	switch c.Action {
	case Create, Update, Delete, Resume:
		return true
	case Adopt, Forget, Keep, Conflict, Unchanged:
	}
	return false
}

// Level is the change's level in words: "system", "resource" or "entity", and which one:
// "gpt-4", "user-1/gpt-4", or "user-1" for the entity's record.
func (c *Change) Level() (level, target string) {
	switch {
	case isRecord(c.Key):
		return "entity", c.Key.Entity
	case c.Key.Entity != "":
		return "entity", c.Key.Entity + "/" + c.Key.Resource
	case c.Key.Resource != "":
		return "resource", c.Key.Resource
	}
	return "system", ""
}
