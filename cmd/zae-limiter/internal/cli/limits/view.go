package limits

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// planView is a plan in JSON. Levels that are unchanged are only counted.
type planView struct {
	Manifest  string       `json:"manifest"` // name of the manifest
	Namespace string       `json:"namespace"`
	Counts    counts       `json:"counts"`  // levels by action
	Changes   []changeView `json:"changes"` // the levels that are not as declared

	Unconfigured []app.Unconfigured `json:"unconfigured,omitempty"` // limits that do not hold after an apply, because another level holds then
}

// counts are numbers of levels by action, in JSON.
type counts struct {
	Create    int `json:"create"`    // levels to create
	Update    int `json:"update"`    // levels to update
	Delete    int `json:"delete"`    // levels to delete
	Adopt     int `json:"adopt"`     // levels that exist as declared, and get this owner
	Keep      int `json:"keep"`      // levels that are no longer declared, and stay
	Conflict  int `json:"conflict"`  // levels that belong to another manifest
	Unchanged int `json:"unchanged"` // levels that are as declared
}

// countsOf counts the actions of a plan or a result.
func countsOf(count func(...manifest.Action) int) counts {
	return counts{
		Create: count(manifest.Create), Update: count(manifest.Update, manifest.Resume), Delete: count(manifest.Delete),
		Adopt: count(manifest.Adopt), Keep: count(manifest.Keep), Conflict: count(manifest.Conflict), Unchanged: count(manifest.Unchanged),
	}
}

// changeView is a change of a level, in JSON.
type changeView struct {
	Action   manifest.Action `json:"action"`
	Level    string          `json:"level"`             // system, resource or entity
	Target   string          `json:"target,omitempty"`  // the resource, or entity and resource
	Before   *levelView      `json:"before,omitempty"`  // what is stored
	After    *levelView      `json:"after,omitempty"`   // what is declared
	Drift    bool            `json:"drift,omitempty"`   // somebody changed the level by hand
	Unowned  bool            `json:"unowned,omitempty"` // the level exists and belongs to no manifest
	Owner    string          `json:"owner,omitempty"`   // manifest that owns the level
	Note     string          `json:"note,omitempty"`
	Message  string          `json:"message,omitempty"`
	levelRow string
}

// levelView is what a level has, in JSON.
type levelView struct {
	Limits        []app.Limit         `json:"limits"`
	Slots         map[string]int64    `json:"slots,omitempty"` // numbers of slots by limit, if the change concerns them
	OnUnavailable store.OnUnavailable `json:"on_unavailable,omitempty"`
	Disabled      *bool               `json:"disabled,omitempty"`       // the switch, if the change concerns it
	Bypassed      bool                `json:"bypassed,omitempty"`       // the switch admits everything, and only counts it
	EndsAt        *time.Time          `json:"switch_ends_at,omitempty"` // when that ends by itself
	Parent        *string             `json:"parent_id,omitempty"`      // of an entity, if the change concerns it; "" is none
	Cascade       *bool               `json:"cascade,omitempty"`        // the cascade policy, or whether the entity cascades, if the change concerns it
	Unsupported   string              `json:"unsupported,omitempty"`
}

func viewOf(p *manifest.Plan, now time.Time) planView {
	v := planView{Manifest: p.Name, Namespace: p.Namespace, Counts: countsOf(p.Count), Changes: []changeView{}, Unconfigured: app.UnconfiguredOf(p.Unconfigured)}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action != manifest.Unchanged {
			v.Changes = append(v.Changes, changeOf(c, now))
		}
	}
	return v
}

func changeOf(c *manifest.Change, now time.Time) changeView {
	v := changeView{Action: c.Action, Drift: c.Drift, Unowned: c.Unowned, Owner: c.Owner, Note: noteOf(c, now), levelRow: levelName(c.Key)}
	v.Level, v.Target = c.Level()
	if c.Before != nil {
		v.Before = beforeOf(c)
	}
	if e := c.Entity; e != nil {
		v.Before = &levelView{Limits: []app.Limit{}}
		if c.After == nil || c.After.Parent != nil {
			v.Before.Parent = &e.Parent
		}
		if c.After == nil && e.Cascade || c.After != nil && c.After.Cascade != store.Inherit {
			v.Before.Cascade = &e.Cascade
		}
	}
	if c.After != nil {
		v.After = &levelView{Limits: app.LimitsOf(c.After.Limits), Slots: c.After.SlotNumbers(), OnUnavailable: c.After.OnUnavailable}
		v.After.Disabled, v.After.Bypassed, v.After.EndsAt = app.SwitchOf(c.After.Disabled)
		v.After.Parent, v.After.Cascade = c.After.Parent, manifest.BoolOf(c.After.Cascade)
	}
	return v
}

// beforeOf is what a level has of what a change concerns.
func beforeOf(c *manifest.Change) *levelView {
	v := &levelView{Limits: app.LimitsOf(c.Before.Limits), OnUnavailable: c.Before.OnUnavailable, Unsupported: c.Before.Features.String()}
	if c.Clears.Disabled.Policy != store.Inherit || c.After != nil && c.After.Disabled.Policy != store.Inherit {
		v.Disabled, v.Bypassed, v.EndsAt = app.SwitchOf(c.Before.Disabled)
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

// levelName is a level's name in tables.
func levelName(k store.ConfigKey) string {
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

// text writes a level for people, in one line.
func (l *levelView) text() string {
	if l == nil {
		return ""
	}
	var parts []string
	for _, limit := range l.Limits {
		parts = append(parts, limit.Limit)
	}
	if l.OnUnavailable != "" {
		parts = append(parts, "on unavailable "+string(l.OnUnavailable))
	}
	if policies := l.policies(); len(policies) > 0 {
		parts = append(parts, strings.Join(policies, ", "))
	}
	return strings.Join(parts, " ")
}

// policies are the parts of a level that are neither limits nor for an outage: its policies, and
// the parent of an entity.
func (l *levelView) policies() (parts []string) {
	if l.Parent != nil {
		parts = append(parts, map[bool]string{true: "no parent", false: "parent " + *l.Parent}[*l.Parent == ""])
	}
	if l.Cascade != nil {
		parts = append(parts, map[bool]string{true: "cascades", false: "does not cascade"}[*l.Cascade])
	}
	for _, name := range slices.Sorted(maps.Keys(l.Slots)) {
		parts = append(parts, fmt.Sprintf("slots %s:%d", name, l.Slots[name]))
	}
	if s := l.switched(); s != "" {
		parts = append(parts, s)
	}
	return parts
}

// switched writes the switch of a level, "" if there is none.
func (l *levelView) switched() string {
	if l.Disabled == nil {
		return ""
	}
	text := map[bool]string{true: "disabled", false: "enabled"}[*l.Disabled]
	if l.EndsAt != nil {
		text += " until " + l.EndsAt.Format(time.RFC3339)
	}
	return text
}

// text writes a plan for people.
func (v *planView) text(w *strings.Builder) {
	fmt.Fprintf(w, "Manifest %s in namespace %s: ", v.Manifest, v.Namespace)
	if v.Counts.Create+v.Counts.Update+v.Counts.Delete+v.Counts.Conflict == 0 {
		fmt.Fprintf(w, "no changes, %s as declared.\n", levels(v.Counts.Unchanged+v.Counts.Adopt))
	} else {
		fmt.Fprintf(w, "%d to create, %d to update, %d to delete, %d unchanged.\n", v.Counts.Create, v.Counts.Update, v.Counts.Delete, v.Counts.Unchanged+v.Counts.Adopt)
	}
	if v.Counts.Conflict > 0 {
		fmt.Fprintf(w, "%s to another manifest, and cannot be changed.\n", belong(v.Counts.Conflict))
	}
	changeTable(w, v.Changes)
}

func levels(n int) string {
	if n == 1 {
		return "1 level is"
	}
	return fmt.Sprintf("%d levels are", n)
}

func belong(n int) string {
	if n == 1 {
		return "1 level belongs"
	}
	return fmt.Sprintf("%d levels belong", n)
}

func changeTable(w *strings.Builder, changes []changeView) {
	if len(changes) == 0 {
		return
	}
	rows := make([][]string, len(changes))
	for i, c := range changes {
		rows[i] = []string{string(c.Action), c.levelRow, c.Before.text(), c.After.text(), c.Note}
	}
	app.Table(w, []string{"ACTION", "LEVEL", "BEFORE", "AFTER", "NOTE"}, rows)
}
