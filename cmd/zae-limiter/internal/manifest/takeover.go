package manifest

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Import takes ownership of the levels that a manifest declares and that exist, whatever
// their limits are. It changes no limits: the next plan shows what an apply would change.
// takeOver takes levels from other manifests, too; otherwise they are left to them. The
// result has the levels in order, with Adopt for those that the manifest now owns and
// did not own before.
//
// It fails with a [*HeldError] if another process applies the manifest, or one from which
// it would take a level, and with [store.ErrNotFound] if the namespace was deleted since
// the store was opened.
func (m *Manager) Import(ctx context.Context, of *Manifest, takeOver bool) (*Result, error) {
	p, _, err := m.plan(ctx, of, false)
	if err != nil {
		return nil, err
	}
	if err := m.store.CheckNamespace(ctx); err != nil {
		return nil, err
	}
	var r *Result
	err = m.store.ChangeManifest(ctx, of.Name, func(own *dynamo.ManifestRecord, others []dynamo.ManifestRecord) error {
		r = &Result{Name: p.Name, Namespace: p.Namespace}
		if err := m.checkFree(own); err != nil {
			return err
		}
		for _, c := range p.Changes {
			_, owned := own.Levels[c.Key]
			if c.After == nil || owned || !c.exists() {
				continue
			}
			o, err := m.adopt(own, others, c, takeOver)
			if err != nil {
				return err
			}
			r.Outcomes = append(r.Outcomes, o)
		}
		return nil
	})
	return r, err
}

// adopt takes ownership of one level. A change of it that is not complete stays so.
func (m *Manager) adopt(own *dynamo.ManifestRecord, others []dynamo.ManifestRecord, c Change, takeOver bool) (Outcome, error) {
	c.Action, c.Owner = Adopt, ""
	digest := ""
	if c.holds(m.store.Now()) {
		digest = c.After.digest()
	}
	for _, other := range others {
		theirs, owned := other.Levels[c.Key]
		if !owned {
			continue
		}
		c.Owner = other.Name
		if !takeOver {
			c.Action = Conflict
			return Outcome{c, &OwnedError{other.Name}}, nil
		}
		if err := m.checkFree(&other); err != nil {
			return Outcome{}, err
		}
		if rest, _ := cutPolicies(theirs); rest == pending {
			digest = theirs
		}
		delete(other.Levels, c.Key)
	}
	own.Levels[c.Key] = digest
	return Outcome{Change: c}, nil
}

// A Skipped level cannot be declared in a manifest.
type Skipped struct {
	Key    store.ConfigKey
	Reason string
}

// Export returns the manifest of a namespace as it stands: every level with limits, with
// policies, or with a behaviour in an outage, and every entity that has a parent, cascades, or is
// a parent. A plan of it has no changes. skipped are the levels that use what a manifest cannot
// declare.
//
// Export lists levels and entities through an index that lags behind: one just set may be
// missing.
func (m *Manager) Export(ctx context.Context, name string) (of *Manifest, skipped []Skipped, err error) {
	if err := store.CheckManifest(name); err != nil {
		return nil, nil, err
	}
	namespace, _ := m.store.Namespace()
	of = &Manifest{Name: name, Namespace: namespace, Levels: map[store.ConfigKey]Level{}}
	keys, err := m.store.ConfiguredLevels(ctx)
	if err != nil {
		return nil, nil, err
	}
	keys = slices.Compact(keys)
	live, err := m.read(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	for _, k := range keys {
		found := live[k]
		switch {
		case found.Err != nil:
			skipped = append(skipped, Skipped{k, found.Err.Error()})
		case found.Config == nil:
		case found.Config.Features != 0:
			skipped = append(skipped, Skipped{k, "it uses a feature that a manifest cannot declare: " + found.Config.Features.String()})
		default:
			l := Level{Limits: found.Config.Limits, Policies: policiesOf(found.Config).at(m.store.Now())}
			if k == (store.ConfigKey{}) {
				l.OnUnavailable = found.Config.OnUnavailable
			}
			if !l.isEmptyAt(m.store.Now()) {
				of.Levels[k] = l
			}
		}
	}
	return of, skipped, m.exportRecords(ctx, of)
}

// exportRecords adds the records of entities that have a parent, or cascade, or are a parent.
func (m *Manager) exportRecords(ctx context.Context, of *Manifest) error {
	alone := map[string]bool{} // entities that are of interest only as parents
	parents := map[string]bool{}
	q := dynamo.EntityQuery{Limit: dynamo.MaxEntities}
	for more := true; more; more = q.Cursor != "" {
		page, err := m.store.Entities(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range page.Entities {
			if e.Parent == "" && !e.Cascade {
				alone[e.ID] = true
				continue
			}
			parents[e.Parent] = true
			of.Levels[store.ConfigKey{Entity: e.ID}] = recordOf(e)
		}
		q.Cursor = page.Next
	}
	for id := range parents {
		if alone[id] {
			of.Levels[store.ConfigKey{Entity: id}] = recordOf(&store.Entity{})
		}
	}
	return nil
}

// recordOf declares a record as it is. It names no cascade where there is none.
func recordOf(e *store.Entity) Level {
	l := Level{Parent: &e.Parent}
	if e.Cascade {
		l.Cascade = store.Yes
	}
	return l
}
