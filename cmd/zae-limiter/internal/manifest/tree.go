package manifest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/yamlfile"
	"github.com/zeroae/zae-limiter-go/store"
)

// The fields of an entity that its record has.
const (
	parentField  = "parent"
	cascadeField = "cascade"
)

// parentMark begins the digest of a record whose parent was set.
const parentMark = ">"

// A Source is where a file declares the records of entities. A finding that only the table
// shows names it, too. It is no part of what a manifest declares.
type Source struct {
	file   string
	fields map[string]yamlfile.Finding // without reasons, by path
}

// Equal makes manifests equal wherever they were read.
func (Source) Equal(Source) bool { return true }

// isRecord reports whether a level is an entity's record.
func isRecord(k store.ConfigKey) bool { return k.Entity != "" && k.Resource == "" }

// cutRecords separates the records of entities from the other levels.
func cutRecords(keys []store.ConfigKey) (records, levels []store.ConfigKey) {
	for _, k := range keys {
		if isRecord(k) {
			records = append(records, k)
		} else {
			levels = append(levels, k)
		}
	}
	return records, levels
}

// record reads one field of an entity's record, and remembers its place.
func (r *reader) record(key place, m *Manifest, entity string, p place, read func(*Level)) {
	k := store.ConfigKey{Entity: entity}
	l, ok := m.Levels[k]
	read(&l)
	if ok {
		m.Levels[k] = l
	} else {
		r.add(key, m, k, func() Level { return l })
	}
	if m.Source.fields == nil {
		m.Source.fields = map[string]yamlfile.Finding{}
	}
	m.Source.fields[p.Path] = yamlfile.Finding{Line: p.Node.Line, Column: p.Node.Column, Path: p.Path}
}

// parent reads the name of a parent, "" for none.
func (r *reader) parent(p place) string {
	s, ok := r.Text(p)
	if ok && s != "" {
		r.Invalid(p, store.CheckEntity(s))
	}
	return s
}

// describes reports whether a record is as it is declared.
func (l Level) describes(e *store.Entity) bool {
	return e != nil && (l.Parent == nil || *l.Parent == e.Parent) && (l.Cascade == store.Inherit || (l.Cascade == store.Yes) == e.Cascade)
}

// recordDrifted reports whether a record was changed since it was set to what digest
// identifies.
func recordDrifted(digest string, found *store.Entity) bool {
	rest, set := cutPolicies(digest)
	if digest == "" || rest == pending {
		return false
	}
	was := Level{Policies: set}
	if parent, ok := strings.CutPrefix(rest, parentMark); ok {
		was.Parent = &parent
	}
	return !was.describes(found)
}

// A tree has the records of entities: those that a manifest declares, over those that the table
// holds.
type tree struct {
	of   *Manifest
	live map[string]*store.Entity // nil as long as the table was not read
}

// is finds what an entity's record is after an apply; false if there is none.
func (t *tree) is(id string) (e store.Entity, ok bool) {
	e.ID = id
	if found := t.live[id]; found != nil {
		e, ok = *found, true
	}
	if l, declared := t.of.Levels[store.ConfigKey{Entity: id}]; declared {
		ok = true
		if l.Parent != nil {
			e.Parent = *l.Parent
		}
		if l.Cascade != store.Inherit {
			e.Cascade = l.Cascade == store.Yes
		}
	}
	return e, ok
}

// changes reports whether an entity's record becomes another one.
func (t *tree) changes(id string) bool {
	e, ok := t.is(id)
	was := t.live[id]
	return ok && (was == nil || was.Parent != e.Parent || was.Cascade != e.Cascade)
}

// declared are the entities whose records the manifest declares, by ID.
func (t *tree) declared() (ids []string) {
	records, _ := cutRecords(slices.Collect(maps.Keys(t.of.Levels)))
	for _, k := range records {
		ids = append(ids, k.Entity)
	}
	slices.Sort(ids)
	return ids
}

// check reports all reasons why the tree cannot be. Without the table it finds only the circles
// of the file. It passes over what the table holds already and the manifest does not change:
// another client may have made it.
func (t *tree) check() error {
	found := t.circles()
	if t.live != nil && len(found) == 0 {
		for _, id := range t.declared() {
			found = append(found, t.findings(id)...)
		}
	}
	if more := len(found) - yamlfile.MaxFindings; more > 0 {
		found = append(found[:yamlfile.MaxFindings], Finding{Reason: fmt.Sprintf("there are %d more findings: correct these first", more)})
	}
	return yamlfile.ErrorOf(cmp.Or(t.of.Source.file, "manifest "+t.of.Name), found)
}

// find is a finding about one of the fields of an entity's record, the first that is declared.
func (t *tree) find(id, reason string, fields ...string) Finding {
	var f Finding
	for _, field := range fields {
		path := "entities." + id + "." + field
		if at, ok := t.of.Source.fields[path]; ok {
			f = at
			break
		}
		f.Path = cmp.Or(f.Path, path)
	}
	f.Reason = reason
	return f
}

// circles finds the circles in which a declared entity is. Each walk ends where it meets one
// before it, so all of them together visit an entity once.
func (t *tree) circles() (found []Finding) {
	walk := map[string]int{}
	for i, id := range t.declared() {
		at := id
		for at != "" && walk[at] == 0 {
			walk[at] = i + 1
			e, _ := t.is(at)
			at = e.Parent
		}
		if at == "" || walk[at] != i+1 {
			continue
		}
		circle := t.circle(at)
		declared := slices.DeleteFunc(slices.Clone(circle), func(id string) bool {
			_, ok := t.of.Levels[store.ConfigKey{Entity: id}]
			return !ok
		})
		if len(declared) > 0 {
			reason := strings.Join(append(circle, at), ", ") + " make a circle: give one of them another parent"
			if len(circle) == 1 {
				reason = "an entity cannot be its own parent"
			}
			found = append(found, t.find(slices.Min(declared), reason, parentField, cascadeField))
		}
	}
	return found
}

// circle are the entities of the circle in which an entity is.
func (t *tree) circle(id string) []string {
	all := []string{id}
	for e, _ := t.is(id); e.Parent != id; e, _ = t.is(e.Parent) {
		all = append(all, e.Parent)
	}
	return all
}

// findings are what the table shows about one entity.
func (t *tree) findings(id string) []Finding {
	e, _ := t.is(id)
	if e.Parent == "" {
		return nil
	}
	was := t.live[id]
	parent, ok := t.is(e.Parent)
	switch {
	case !ok && (was == nil || was.Parent != e.Parent || e.Cascade && !was.Cascade):
		return []Finding{t.find(id, fmt.Sprintf("there is no entity %q: declare it, too, with parent: \"\" for instance, or create it first", e.Parent), parentField, cascadeField)}
	case ok && e.Cascade && parent.Cascade && parent.Parent != "" && (t.changes(id) || t.changes(e.Parent)):
		return []Finding{t.find(id, fmt.Sprintf("a cascade has one level: %s cascades to %s, and %s would cascade to %s: let one of the two not cascade",
			parent.ID, parent.Parent, id, parent.ID), cascadeField, parentField)}
	}
	return nil
}

// records reads the records of entities, and of all their ancestors, before an apply and after
// it.
func (m *Manager) records(ctx context.Context, t tree, keys []store.ConfigKey) (map[string]*store.Entity, error) {
	t.live = map[string]*store.Entity{}
	asked := map[string]bool{}
	var next []string
	ask := func(id string) {
		if id != "" && !asked[id] {
			asked[id] = true
			next = append(next, id)
		}
	}
	for _, k := range keys {
		ask(k.Entity)
	}
	for len(next) > 0 {
		ids := next
		next = nil
		found, err := m.store.EntityRecords(ctx, ids)
		if err != nil {
			return nil, err
		}
		maps.Copy(t.live, found)
		for _, id := range ids {
			e, _ := t.is(id)
			ask(e.Parent)
			if was := found[id]; was != nil {
				ask(was.Parent)
			}
		}
	}
	return t.live, nil
}
