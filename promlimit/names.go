package promlimit

import "sync"

// names bounds the values of the labels for resources and limits.
//
//	a resource gets a label of its own    if there is room among
//	named in Options.Resources            always
//	has limits of its own                 MaxResources
//	used without limits of its own        MaxResources / 2
//
// So whoever sends requests for invented resources, where limits of the system hold for
// them, leaves room for the configured ones. A resource keeps its label.
type names struct {
	max int

	mu         sync.RWMutex
	resources  map[string]*resource
	configured int // resources with limits of their own
	used       int // the others
}

// A resource is one that has a label of its own, or all others.
type resource struct {
	label      string
	configured bool // guarded by the mutex of names

	mu     sync.RWMutex
	limits map[string]bool // that have a label of their own
}

// other is the label of resources and limits for which there is no room. No resource or
// limit has that name: names begin with a letter.
const other = "_other"

// maxLimits is how many limits of a resource have a label of their own: as many as an
// entity and its parent may have, see [limiter.MaxLimits].
const maxLimits = 64

func newNames(most int, always []string) *names {
	n := &names{max: most, resources: map[string]*resource{other: {label: other}}}
	for _, name := range always {
		n.resources[name] = &resource{label: name, configured: true}
	}
	return n
}

// known returns a resource, or all others if it has no label of its own.
func (n *names) known(name string) *resource {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if r := n.resources[name]; r != nil {
		return r
	}
	return n.resources[other]
}

// claim returns a resource that is in use, with a label of its own if there is room.
// isConfigured says that it has limits of its own.
func (n *names) claim(name string, isConfigured bool) *resource {
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
		r = &resource{label: name, configured: true}
		n.configured++
	case !isConfigured && n.used < n.max/2 && n.configured+n.used < n.max:
		r = &resource{label: name}
		n.used++
	default:
		return n.resources[other]
	}
	n.resources[name] = r
	return r
}

// limit returns the label of a limit.
func (r *resource) limit(name string) string {
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
		return other
	}
	r.limits[name] = true
	return name
}
