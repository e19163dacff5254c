package manage

import (
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Plan is a plan in JSON. Levels that are unchanged are only counted.
type Plan struct {
	Manifest  string          `json:"manifest"` // name of the manifest
	Namespace string          `json:"namespace"`
	Counts    Counts          `json:"counts"`  // levels by action
	Changes   []PlannedChange `json:"changes"` // the levels that are not as declared

	Unconfigured []Unconfigured `json:"unconfigured,omitempty"` // limits that do not hold after an apply, because another level holds then
}

// Counts are numbers of levels by action, in JSON.
type Counts struct {
	Create    int `json:"create"`    // levels to create
	Update    int `json:"update"`    // levels to update
	Delete    int `json:"delete"`    // levels to delete
	Adopt     int `json:"adopt"`     // levels that exist as declared, and get this owner
	Keep      int `json:"keep"`      // levels that are no longer declared, and stay
	Conflict  int `json:"conflict"`  // levels that belong to another manifest
	Unchanged int `json:"unchanged"` // levels that are as declared
}

// countsOf Counts the actions of a plan or a result.
func countsOf(count func(...manifest.Action) int) Counts {
	return Counts{
		Create: count(manifest.Create), Update: count(manifest.Update, manifest.Resume), Delete: count(manifest.Delete),
		Adopt: count(manifest.Adopt), Keep: count(manifest.Keep), Conflict: count(manifest.Conflict), Unchanged: count(manifest.Unchanged),
	}
}

// A PlannedChange is a change of a level, in JSON.
type PlannedChange struct {
	Action  manifest.Action `json:"action"`
	Level   string          `json:"level"`             // system, resource or entity
	Target  string          `json:"target,omitempty"`  // the resource, or entity and resource
	Before  *PlannedLevel   `json:"before,omitempty"`  // what is stored
	After   *PlannedLevel   `json:"after,omitempty"`   // what is declared
	Drift   bool            `json:"drift,omitempty"`   // somebody changed the level by hand
	Unowned bool            `json:"unowned,omitempty"` // the level exists and belongs to no manifest
	Owner   string          `json:"owner,omitempty"`   // manifest that owns the level
	Note    string          `json:"note,omitempty"`
	Message string          `json:"message,omitempty"`

	row string
}

// A PlannedLevel is what a level has, in JSON.
type PlannedLevel struct {
	Limits        []Limit             `json:"limits"`
	Slots         map[string]int64    `json:"slots,omitempty"` // numbers of slots by limit, if the change concerns them
	OnUnavailable store.OnUnavailable `json:"on_unavailable,omitempty"`
	Disabled      *bool               `json:"disabled,omitempty"`       // the switch, if the change concerns it
	Bypassed      bool                `json:"bypassed,omitempty"`       // the switch admits everything, and only Counts it
	EndsAt        *time.Time          `json:"switch_ends_at,omitempty"` // when that ends by itself
	Parent        *string             `json:"parent_id,omitempty"`      // of an entity, if the change concerns it; "" is none
	Cascade       *bool               `json:"cascade,omitempty"`        // the cascade policy, or whether the entity cascades, if the change concerns it
	Unsupported   string              `json:"unsupported,omitempty"`
}

// PlanOf is a plan as a document, which tells what is special about an edit that is made now.
func PlanOf(p *manifest.Plan, now time.Time) Plan {
	v := Plan{Manifest: p.Name, Namespace: p.Namespace, Counts: countsOf(p.Count), Changes: []PlannedChange{}, Unconfigured: UnconfiguredOf(p.Unconfigured)}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action != manifest.Unchanged {
			v.Changes = append(v.Changes, ChangeOf(c, now))
		}
	}
	return v
}

// ChangeOf is a change of a plan as a document.
func ChangeOf(c *manifest.Change, now time.Time) PlannedChange {
	v := PlannedChange{Action: c.Action, Drift: c.Drift, Unowned: c.Unowned, Owner: c.Owner, Note: noteOf(c, now), row: LevelName(c.Key)}
	v.Level, v.Target = c.Level()
	if c.Before != nil {
		v.Before = beforeOf(c)
	}
	if e := c.Entity; e != nil {
		v.Before = &PlannedLevel{Limits: []Limit{}}
		if c.After == nil || c.After.Parent != nil {
			v.Before.Parent = &e.Parent
		}
		if c.After == nil && e.Cascade || c.After != nil && c.After.Cascade != store.Inherit {
			v.Before.Cascade = &e.Cascade
		}
	}
	if c.After != nil {
		v.After = &PlannedLevel{Limits: LimitsOf(c.After.Limits), Slots: c.After.SlotNumbers(), OnUnavailable: c.After.OnUnavailable}
		v.After.Disabled, v.After.Bypassed, v.After.EndsAt = SwitchOf(c.After.Disabled)
		v.After.Parent, v.After.Cascade = c.After.Parent, manifest.BoolOf(c.After.Cascade)
	}
	return v
}

// EditOf is an edit of the limits of a level, made now. The level has what was stored, nil for nothing, and
// gets limits; without any, they are deleted.
func EditOf(k store.ConfigKey, was *store.Config, limits []store.Limit, now time.Time) PlannedChange {
	c := manifest.Change{Action: manifest.Update, Key: k, Before: was}
	switch {
	case was == nil:
		c.Action = manifest.Create
	case len(limits) == 0:
		c.Action = manifest.Delete
	}
	if len(limits) > 0 {
		c.After = &manifest.Level{Limits: limits}
	}
	return ChangeOf(&c, now)
}

// beforeOf is what a level has of what a change concerns.
func beforeOf(c *manifest.Change) *PlannedLevel {
	v := &PlannedLevel{Limits: LimitsOf(c.Before.Limits), OnUnavailable: c.Before.OnUnavailable, Unsupported: c.Before.Features.String()}
	if c.Clears.Disabled.Policy != store.Inherit || c.After != nil && c.After.Disabled.Policy != store.Inherit {
		v.Disabled, v.Bypassed, v.EndsAt = SwitchOf(c.Before.Disabled)
	}
	if c.Clears.Slots != "" || c.After != nil && c.After.Slots != "" {
		v.Slots = limitarg.SlotNumbers(c.Before.Slots)
	}
	if c.Clears.Cascade != store.Inherit || c.After != nil && c.After.Cascade != store.Inherit {
		v.Cascade = manifest.BoolOf(c.Before.Cascade)
	}
	return v
}

// noteOf says what is special about a change that is made now.
func noteOf(c *manifest.Change, now time.Time) string {
	var notes []string
	switch {
	case c.Action == manifest.Keep && c.Entity != nil:
		notes = append(notes, "no longer declared; stays, also with --prune")
	case c.Action == manifest.Forget && c.Entity != nil:
		notes = append(notes, "no longer declared; stays, and belongs to no manifest")
	case c.Action == manifest.Keep:
		notes = append(notes, "no longer declared; --prune would delete it")
	case c.Action == manifest.Conflict:
		notes = append(notes, "belongs to manifest "+c.Owner)
	case c.Action == manifest.Resume:
		notes = append(notes, "an apply did not finish; buckets may not follow yet")
	case c.Action == manifest.Adopt:
		notes = append(notes, "exists already")
	case c.Action == manifest.Forget:
		notes = append(notes, "deleted already")
	case c.Unowned:
		notes = append(notes, "exists already and belongs to no manifest")
	case c.Drift && c.Before == nil && c.Entity == nil:
		notes = append(notes, "deleted by hand")
	case c.Drift:
		notes = append(notes, "changed by hand")
	}
	if c.Clears.Disabled.Policy != store.Inherit {
		notes = append(notes, "no longer declares the switch, which is removed")
	}
	if c.Clears.Slots != "" {
		notes = append(notes, "no longer declares the slots, which are removed")
	}
	if c.Clears.Cascade != store.Inherit {
		notes = append(notes, "no longer declares the cascade policy, which is removed")
	}
	if c.Unreadable != nil {
		notes = append(notes, "what is stored cannot be read")
	}
	if c.Before != nil && c.Before.Features != 0 {
		notes = append(notes, "what is stored uses: "+c.Before.Features.String())
	}
	if c.Before != nil && c.After != nil && c.Action == manifest.Update {
		notes = append(notes, editNotes(c.Before.Limits, c.After.Limits, now)...)
	}
	return strings.Join(notes, "; ")
}

// Row names the level in tables.
func (c *PlannedChange) Row() string { return c.row }

// An Applied is the result of an apply or an import in JSON.
type Applied struct {
	Manifest  string          `json:"manifest"` // name of the manifest
	Namespace string          `json:"namespace"`
	Counts    Counts          `json:"counts"`   // of what was done
	Failures  []PlannedChange `json:"failures"` // the changes that failed

	Unconfigured []Unconfigured `json:"unconfigured,omitempty"` // limits that do not hold since the apply, because another level holds
}

// AppliedOf is the result of an apply as a document.
func AppliedOf(r *manifest.Result, now time.Time) Applied {
	v := Applied{Manifest: r.Name, Namespace: r.Namespace, Counts: countsOf(r.Count), Failures: []PlannedChange{}, Unconfigured: UnconfiguredOf(r.Unconfigured)}
	for _, o := range r.Failures() {
		c := ChangeOf(&o.Change, now)
		c.Message = o.Err.Error()
		v.Failures = append(v.Failures, c)
	}
	return v
}

// LevelName is a level's name in tables.
func LevelName(k store.ConfigKey) string {
	switch {
	case k.Entity != "" && k.Resource == "":
		return "entity " + k.Entity
	case k.Entity != "":
		return "entity " + k.Entity + " for " + k.Resource
	case k.Resource != "":
		return "resource " + k.Resource
	}
	return "system"
}
