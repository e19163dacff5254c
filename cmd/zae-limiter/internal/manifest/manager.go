package manifest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of reading a namespace: levels in one request, and requests at once.
const (
	readLevels  = 100
	readWorkers = 8
)

// A Manager plans and applies manifests in the namespace of a store. It is safe for
// concurrent use.
type Manager struct{ store *dynamo.Store }

// New returns a manager. It sends no request.
func New(s *dynamo.Store) (*Manager, error) {
	if s == nil {
		return nil, &store.ValidationError{Field: "store", Value: "nil", Reason: "give an open store"}
	}
	return &Manager{s}, nil
}

// A Plan is what an apply of a manifest does.
type Plan struct {
	Name      string
	Namespace string
	Changes   []Change
	// Unconfigured are limits that do not hold after the plan is applied, because another
	// level holds: see [dynamo.Store.Unconfigured].
	Unconfigured []store.UnconfiguredWarning

	stages [][]step // how the records of entities change
}

// Count counts the changes of some actions.
func (p *Plan) Count(actions ...Action) (n int) {
	for _, c := range p.Changes {
		if slices.Contains(actions, c.Action) {
			n++
		}
	}
	return n
}

// HasChanges reports whether an apply changes limits, or has to leave a level that it
// should change.
func (p *Plan) HasChanges() bool { return p.Count(Create, Update, Delete, Resume, Conflict) > 0 }

// Plan compares a manifest with the table, by consistent reads. It changes nothing. It
// fails with a [*store.ValidationError] if the manifest is for another namespace than
// the manager's store, and with a [*ParseError] if the tree of its entities cannot be: an unknown
// parent, a circle, or a cascade of two levels.
func (m *Manager) Plan(ctx context.Context, of *Manifest, prune bool) (*Plan, error) {
	p, _, err := m.plan(ctx, of, prune)
	if err != nil {
		return nil, err
	}
	p.Unconfigured, err = m.store.Unconfigured(ctx, p.levels())
	return p, err
}

// levels are the levels that an apply sets, and those that it deletes, without limits.
func (p *Plan) levels() (levels []dynamo.Level) {
	for _, c := range p.Changes {
		switch {
		case c.Action == Delete:
			levels = append(levels, dynamo.Level{Key: c.Key})
		case c.writes() && c.After.setsLimits():
			levels = append(levels, dynamo.Level{Key: c.Key, Limits: c.After.Limits, OnUnavailable: c.After.OnUnavailable})
		}
	}
	return levels
}

// plan returns a plan, and the record of the manifest as it was read.
func (m *Manager) plan(ctx context.Context, of *Manifest, prune bool) (*Plan, *dynamo.ManifestRecord, error) {
	if err := m.check(of); err != nil {
		return nil, nil, err
	}
	owners, err := m.store.Manifests(ctx)
	if err != nil {
		return nil, nil, err
	}
	own, state := stateOf(of.Name, owners, m.store.Now())
	keys := of.Keys()
	for k := range own.Levels {
		if _, declared := of.Levels[k]; !declared {
			keys = append(keys, k)
		}
	}
	records, keys := cutRecords(keys)
	live, err := m.read(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	t := tree{of: of}
	if t.live, err = m.records(ctx, t, records); err != nil {
		return nil, nil, err
	}
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	for _, k := range records {
		live[k] = Live{Entity: t.live[k.Entity]}
	}
	p := &Plan{Name: of.Name, Namespace: of.Namespace, Changes: Diff(of, state, live, prune)}
	p.stages = t.stages(p.Changes)
	return p, own, nil
}

// After returns the limits of every level of the namespace as they are after an apply of a plan. It lists the
// other levels through an index that lags behind, and reads them as [Manager.Export] does. A level that cannot be
// read has none.
func (m *Manager) After(ctx context.Context, p *Plan) (map[store.ConfigKey][]store.Limit, error) {
	keys, err := m.store.ConfiguredLevels(ctx)
	if err != nil {
		return nil, err
	}
	planned := map[store.ConfigKey]bool{}
	after := map[store.ConfigKey][]store.Limit{}
	for _, c := range p.Changes {
		planned[c.Key] = true
		switch {
		case c.Action == Delete || isRecord(c.Key):
		case c.writes() && len(c.After.Limits) > 0:
			after[c.Key] = c.After.Limits
		case c.Before != nil:
			after[c.Key] = c.Before.Limits
		}
	}
	live, err := m.read(ctx, slices.DeleteFunc(slices.Compact(keys), func(k store.ConfigKey) bool { return planned[k] }))
	if err != nil {
		return nil, err
	}
	for k, found := range live {
		if found.Config != nil {
			after[k] = found.Config.Limits
		}
	}
	maps.DeleteFunc(after, func(_ store.ConfigKey, limits []store.Limit) bool { return len(limits) == 0 })
	return after, nil
}

// check reports why a manifest cannot be for the manager's store.
func (m *Manager) check(of *Manifest) error {
	if err := store.CheckManifest(of.Name); err != nil {
		return err
	}
	if name, _ := m.store.Namespace(); of.Namespace != name {
		return &store.ValidationError{
			Field: "namespace", Value: of.Namespace, Reason: fmt.Sprintf("the manifest is for this namespace, but the store is in %q: make them agree", name),
		}
	}
	return nil
}

// stateOf finds the record of a manifest, and the owners of all levels.
func stateOf(name string, records []dynamo.ManifestRecord, now time.Time) (*dynamo.ManifestRecord, State) {
	own := &dynamo.ManifestRecord{Name: name, Levels: map[store.ConfigKey]string{}}
	state := State{Others: map[store.ConfigKey]string{}, Now: now}
	for _, r := range records {
		if r.Name == name {
			own = &r
			continue
		}
		for k := range r.Levels {
			state.Others[k] = r.Name
		}
	}
	state.Owned = own.Levels
	return own, state
}

// read reads levels, several requests at once.
func (m *Manager) read(ctx context.Context, keys []store.ConfigKey) (map[store.ConfigKey]Live, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	live := make(map[store.ConfigKey]Live, len(keys))
	work := make(chan []store.ConfigKey)
	var workers sync.WaitGroup
	for range readWorkers {
		workers.Go(func() {
			for chunk := range work {
				found, err := m.readChunk(ctx, chunk)
				if err != nil {
					cancel(err)
				}
				mu.Lock()
				maps.Copy(live, found)
				mu.Unlock()
			}
		})
	}
	for chunk := range slices.Chunk(keys, readLevels) {
		work <- chunk
	}
	close(work)
	workers.Wait()
	return live, context.Cause(ctx)
}

// readChunk reads levels in one request, or each on its own if one cannot be read.
func (m *Manager) readChunk(ctx context.Context, keys []store.ConfigKey) (map[store.ConfigKey]Live, error) {
	live := make(map[store.ConfigKey]Live, len(keys))
	loaded, err := m.store.Load(ctx, &store.Load{Configs: keys, Consistent: true})
	if err == nil {
		for i, k := range keys {
			live[k] = Live{Config: loaded.Configs[i]}
		}
		return live, nil
	}
	if !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	for _, k := range keys {
		found, err := m.store.Limits(ctx, k)
		switch {
		case err == nil:
			live[k] = Live{Config: found}
		case errors.Is(err, store.ErrCorrupt):
			live[k] = Live{Err: err}
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
	}
	return live, nil
}
