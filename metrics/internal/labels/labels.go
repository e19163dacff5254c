// Package labels bounds the values that the labels of metrics have, whatever requests ask
// for.
package labels

import (
	"sync"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultMaxResources is the default of [Options.MaxResources].
const DefaultMaxResources = 50

// Options say which resources have labels of their own. The zero value works.
type Options struct {
	// MaxResources is how many resources have labels of their own, besides Resources. At
	// most half of them have no limits of their own. Default [DefaultMaxResources].
	MaxResources int
	// Resources always have labels of their own.
	Resources []string
}

// Names are the resources and limits that have labels of their own. It is safe for
// concurrent use.
//
//	a resource gets a label of its own    if there is room among
//	named in Options.Resources            always
//	has limits of its own                 MaxResources
//	used without limits of its own        MaxResources / 2
//
// So whoever sends requests for invented resources, where limits of the system hold for
// them, leaves room for the configured ones. A resource keeps its label.
type Names struct {
	max int

	mu         sync.RWMutex
	resources  map[string]*Resource
	configured int // resources with limits of their own
	used       int // the others

	levelsMu sync.Mutex
	levels   map[string]*limiter.Config // the configuration last seen, by resource, "" for the system
}

// A Resource is one that has a label of its own, or all others.
type Resource struct {
	Label      string
	configured bool // guarded by the mutex of Names

	mu     sync.RWMutex
	limits map[string]bool // that have a label of their own
}

// Other is the label of resources and limits for which there is no room. No resource or
// limit has that name: names begin with a letter.
const Other = "_other"

// maxLimits is how many limits of a resource have a label of their own: as many as an
// entity and its parent may have, see [limiter.MaxLimits].
const maxLimits = 64

// New returns the names for the options. It fails with a [*limiter.ValidationError] if an
// option is invalid.
func New(o Options) (*Names, error) {
	if err := store.CheckNotNegative("MaxResources", o.MaxResources); err != nil {
		return nil, err
	}
	if o.MaxResources == 0 {
		o.MaxResources = DefaultMaxResources
	}
	n := &Names{max: o.MaxResources, resources: map[string]*Resource{Other: {Label: Other}}, levels: map[string]*limiter.Config{}}
	for _, name := range o.Resources {
		if err := store.CheckResource(name); err != nil {
			return nil, err
		}
		n.resources[name] = &Resource{Label: name, configured: true}
	}
	return n, nil
}

// Of returns a resource of a call that has ended.
func (n *Names) Of(r *limiter.CallResult, resource string) *Resource {
	if r.Result == limiter.Admitted || r.Result == limiter.Refused {
		return n.Claim(resource, false)
	}
	return n.Known(resource)
}

// Known returns a resource, or all others if it has no label of its own.
func (n *Names) Known(name string) *Resource {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if r := n.resources[name]; r != nil {
		return r
	}
	return n.resources[Other]
}

// Claim returns a resource that is in use, with a label of its own if there is room.
// isConfigured says that it has limits of its own.
func (n *Names) Claim(name string, isConfigured bool) *Resource {
	n.mu.RLock()
	r := n.resources[name]
	isKnown := r != nil && (r.configured || !isConfigured)
	n.mu.RUnlock()
	if isKnown {
		return r
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	r = n.resources[name]
	switch {
	case r != nil && isConfigured && !r.configured && n.configured < n.max:
		r.configured = true
		n.configured++
		n.used--
	case r != nil:
	case isConfigured && n.configured+n.used < n.max:
		r = &Resource{Label: name, configured: true}
		n.configured++
	case !isConfigured && n.used < n.max/2 && n.configured+n.used < n.max:
		r = &Resource{Label: name}
		n.used++
	default:
		return n.resources[Other]
	}
	n.resources[name] = r
	return r
}

// Limit returns the label of a limit.
func (r *Resource) Limit(name string) string {
	r.mu.RLock()
	known := r.limits[name]
	r.mu.RUnlock()
	if known {
		return name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.limits == nil:
		r.limits = map[string]bool{}
	case len(r.limits) >= maxLimits:
		return Other
	}
	r.limits[name] = true
	return name
}

// The levels of configuration that are not an entity's.
const (
	SystemLevel   = "system"
	ResourceLevel = "resource"
)

// A Level is what a resource's or the system's level of configuration sets.
type Level struct {
	Name     string // [SystemLevel] or [ResourceLevel]
	Resource string // the label; "" for the system
	Limits   []limiter.Limit
	Slots    []limiter.SlotLimit
}

// Note notes the levels of configuration that an operation has read. Levels of entities,
// and of resources without a label of their own, are left out.
func (n *Names) Note(r *limiter.OperationResult) {
	for i, k := range r.Keys {
		if k.Entity != "" {
			continue
		}
		c := r.Configs[i]
		if c == nil {
			c = &limiter.Config{}
		}
		if k.Resource != "" {
			of := n.Known(k.Resource)
			if len(c.Limits) > 0 || len(c.Slots) > 0 {
				of = n.Claim(k.Resource, true)
			}
			if of.Label != k.Resource {
				continue
			}
		}
		n.levelsMu.Lock()
		n.levels[k.Resource] = c
		n.levelsMu.Unlock()
	}
}

// Levels returns the levels as they were noted last, in no order.
func (n *Names) Levels() (levels []Level) {
	n.levelsMu.Lock()
	defer n.levelsMu.Unlock()
	for resource, c := range n.levels {
		name := ResourceLevel
		if resource == "" {
			name = SystemLevel
		}
		levels = append(levels, Level{name, resource, c.Limits, c.Slots})
	}
	return levels
}

// Source says what decided an acquire: "memory", "shared" (a write that another caller
// sent) or "store".
func Source(r *limiter.CallResult) string {
	switch {
	case r.FromMemory:
		return "memory"
	case r.Carried:
		return "shared"
	}
	return "store"
}

// Bucket says whose limit a status is: "entity" for the request's own entity, or
// "parent".
func Bucket(r *limiter.CallResult, s *limiter.Status) string { return BucketOf(r, s.Entity) }

// BucketOf is Bucket for an entity.
func BucketOf(r *limiter.CallResult, entity string) string {
	if entity == r.Entity {
		return "entity"
	}
	return "parent"
}

// Outcome says how an operation of the store ended: "done", "refused" (the state of the
// item refused the write) or "failed".
func Outcome(r *limiter.OperationResult) string {
	switch {
	case r.Err != nil:
		return "failed"
	case r.Refused:
		return "refused"
	}
	return "done"
}
