package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/store"
)

// MaxBytes is the size of the largest file that [Parse] reads.
const MaxBytes = 64 << 20

// maxLevels bounds what a file declares, so that one from elsewhere cannot use up the
// memory.
const maxLevels = 200_000

// unsupported are the keys of the peer's manifests for features that this version
// cannot keep.
var unsupported = []string{"cascade", "disabled", "reset_after_seconds", "reset_schedule", "schedule", "schedules", "soft"}

// Parse reads a manifest from YAML or JSON. file is its name in errors. It fails with a
// [*ParseError], which has everything that is wrong with the file.
func Parse(file string, data []byte) (*Manifest, error) {
	r := &reader{}
	m := r.manifest(r.root(data))
	if len(r.findings) > 0 {
		err := &ParseError{File: file, Findings: r.findings}
		err.sort()
		return nil, err
	}
	return m, nil
}

// root reads the only document of a file.
func (r *reader) root(data []byte) *yaml.Node {
	if len(data) > MaxBytes {
		r.findings = append(r.findings, Finding{Reason: "the file is larger than 64 MB: split it into manifests of different names"})
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		r.findings = append(r.findings, Finding{Line: 1, Column: 1, Reason: "the file is empty: give at least the namespace"})
		return nil
	case err != nil:
		r.syntax(err)
		return nil
	}
	switch err := decoder.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		r.syntax(err)
		return nil
	default:
		r.find(at(&more, ""), "the file has a second document: keep one manifest in a file")
		return nil
	}
	return doc.Content[0]
}

// syntax adds an error of the YAML library, with its position.
func (r *reader) syntax(err error) {
	f := Finding{Reason: "not valid YAML or JSON: " + err.Error()}
	if load, ok := errors.AsType[*yaml.LoadError](err); ok {
		f = Finding{Line: load.Mark.Line, Column: load.Mark.Column, Reason: "not valid YAML or JSON: " + load.Message}
	}
	r.findings = append(r.findings, f)
}

func (r *reader) manifest(root *yaml.Node) *Manifest {
	if root == nil {
		return nil
	}
	m := &Manifest{Name: DefaultName, Levels: map[store.ConfigKey]Level{}}
	p := at(root, "")
	hasNamespace := false
	r.fields(p, map[string]func(place){
		"name": func(p place) { m.Name = r.name(p, store.CheckManifest) },
		"namespace": func(p place) {
			hasNamespace = true
			m.Namespace = r.name(p, store.CheckNamespace)
		},
		"system": func(p place) { r.system(p, m) },
		"resources": func(p place) {
			r.levels(p, store.CheckResource, func(name string) store.ConfigKey { return store.ConfigKey{Resource: name} }, m)
		},
		"entities": func(p place) { r.entities(p, m) },
	})
	if root.Kind == yaml.MappingNode && !hasNamespace {
		r.find(p, "the namespace is missing: give namespace: default, for instance")
	}
	return m
}

// name reads a string that must be a name.
func (r *reader) name(p place, check func(string) error) string {
	s, ok := r.text(p)
	if ok {
		r.invalid(p, check(s))
	}
	return s
}

func (r *reader) system(p place, m *Manifest) {
	if isNull(p.node) {
		return
	}
	var l Level
	r.fields(p, map[string]func(place){
		"limits":         func(p place) { l.Limits = r.limits(p) },
		"on_unavailable": func(p place) { l.OnUnavailable = r.onUnavailable(p) },
	})
	if p.node.Kind == yaml.MappingNode && len(p.node.Content) == 0 {
		r.find(p, "the level is empty: give limits or on_unavailable, or remove it")
	}
	m.Levels[store.ConfigKey{}] = l
}

func (r *reader) onUnavailable(p place) store.OnUnavailable {
	s, ok := r.text(p)
	on := store.OnUnavailable(s)
	if ok && on != store.Block && on != store.Allow {
		r.find(p, `give "block" or "allow", not %q`, s)
	}
	return on
}

// levels reads a mapping of resources to their levels.
func (r *reader) levels(p place, check func(string) error, key func(string) store.ConfigKey, m *Manifest) {
	if isNull(p.node) {
		return
	}
	r.entries(p, func(name string, k, value place) {
		r.invalid(k, check(name))
		if len(m.Levels) == maxLevels {
			r.find(k, "the file has more than %d levels: split it into manifests of different names", maxLevels)
			r.stopped = true
			return
		}
		m.Levels[key(name)] = r.level(value)
	})
}

func (r *reader) level(p place) (l Level) {
	hasLimits := false
	r.fields(p, map[string]func(place){"limits": func(p place) {
		hasLimits = true
		l.Limits = r.limits(p)
	}})
	if p.node.Kind == yaml.MappingNode && !hasLimits {
		r.find(p, "the limits are missing: give limits, or remove the level")
	}
	return l
}

func (r *reader) entities(p place, m *Manifest) {
	if isNull(p.node) {
		return
	}
	r.entries(p, func(entity string, k, value place) {
		r.invalid(k, store.CheckEntity(entity))
		hasResources := false
		r.fields(value, map[string]func(place){"resources": func(p place) {
			hasResources = true
			r.levels(p, store.CheckConfigResource, func(name string) store.ConfigKey {
				return store.ConfigKey{Entity: entity, Resource: name}
			}, m)
		}})
		if value.node.Kind == yaml.MappingNode && !hasResources {
			r.find(value, "the resources are missing: give resources with %s for limits of every resource, or remove the entity", store.DefaultResource)
		}
	})
}

// limits reads a mapping of names to limits, at least one.
func (r *reader) limits(p place) (limits []store.Limit) {
	if n := len(p.node.Content) / 2; p.node.Kind == yaml.MappingNode && n > store.MaxLimits {
		r.find(p, "give at most %d limits, not %d", store.MaxLimits, n)
		return nil
	}
	before := len(r.findings)
	r.entries(p, func(name string, k, value place) {
		r.invalid(k, store.CheckLimitName(name))
		limits = append(limits, r.limit(name, value))
	})
	if len(limits) == 0 && len(r.findings) == before {
		r.find(p, "give at least one limit, or remove the level")
	}
	slices.SortFunc(limits, func(a, b store.Limit) int { return cmp.Compare(a.Name, b.Name) })
	return limits
}

// limit reads one limit. The amount defaults to the capacity, the period to a minute.
// The burst replaces the capacity. Then the amount has no default: versions of the peer
// disagree whether it is the capacity or the burst.
func (r *reader) limit(name string, p place) store.Limit {
	var burst int64
	seconds, hasCapacity, hasAmount := int64(defaultPeriod), false, false
	l := store.Limit{Name: name}
	r.fields(p, map[string]func(place){
		"capacity": func(p place) {
			hasCapacity = true
			l.Capacity = r.number(p, store.MaxTokens)
		},
		"refill_amount": func(p place) {
			hasAmount = true
			l.Amount = r.number(p, store.MaxTokens)
		},
		"refill_period": func(p place) { seconds = r.number(p, int64(store.MaxPeriod/time.Second)) },
		"burst":         func(p place) { burst = r.number(p, store.MaxTokens) },
	})
	if p.node.Kind == yaml.MappingNode && !hasCapacity {
		r.find(p, "the capacity is missing: give the most tokens that the limit holds")
	}
	if burst > 0 && !hasAmount {
		r.find(p, "burst needs refill_amount: give the tokens that the limit earns in each period")
	}
	l.Amount, l.Period = cmp.Or(l.Amount, l.Capacity), time.Duration(seconds)*time.Second
	l.Capacity = cmp.Or(burst, l.Capacity)
	return l
}
