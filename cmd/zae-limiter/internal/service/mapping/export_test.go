package mapping

import (
	"maps"
	"slices"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v4"
)

// FileOf is the file with the content of a message.
func FileOf(m *ratelimit.RateLimitConfig) ([]byte, error) {
	root := documentOf(m)
	quote(root)
	return yaml.Marshal(root)
}

// quote writes all strings in quotes, so that none is read as another value.
func quote(n *yaml.Node) {
	if n.Tag == "!!str" {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, below := range n.Content {
		quote(below)
	}
}

// DescriptorsFor are a descriptor for each rule of a domain, with a value where any will do.
func (r *Rules) DescriptorsFor(domain, value string) (all []Descriptor) {
	of := r.domains[domain]
	if of == nil {
		return nil
	}
	entry := func(p pattern) Entry {
		if p.any {
			return Entry{p.key, value}
		}
		return Entry{p.key, p.value}
	}
	for i := range of.list {
		d := Descriptor{}
		for _, p := range of.list[i].entries {
			d.Entries = append(d.Entries, entry(p))
		}
		all = append(all, d)
	}
	var walk func(n *node, above []Entry)
	walk = func(n *node, above []Entry) {
		for p, below := range n.below {
			entries := append(slices.Clip(above), entry(p))
			all = append(all, Descriptor{Entries: entries})
			walk(below, entries)
		}
	}
	if of.tree != nil {
		walk(of.tree, nil)
	}
	return all
}

// Domains are the names of all domains.
func (r *Rules) Domains() []string { return slices.Collect(maps.Keys(r.domains)) }
