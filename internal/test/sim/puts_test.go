package sim_test

import (
	"maps"
	"slices"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A version is a bucket's configuration from some instant between two until the next
// version.
type version struct {
	from, to time.Duration
	limits   map[string]level // empty if no level has limits
	off      bool
	counts   bool // an operator lets the bucket count only
}

// has reports whether a version gives a bucket a limit. Requests of the guest bring their
// own limits if the version has none.
func (v version) has(key bucketKey, name string) bool {
	if len(v.limits) == 0 {
		return key.entity == guest && slices.Contains(offered[key.resource], name)
	}
	_, ok := v.limits[name]
	return ok
}

// versions are all configurations of a bucket, in order. The first has no limits.
func (p *play) versions(key bucketKey) []version {
	configs := map[limiter.ConfigKey][]limiter.Limit{}
	switches := map[limiter.ConfigKey]string{}
	all := []version{{}}
	for _, ch := range p.changes {
		configs[ch.key], switches[ch.key] = ch.limits, ch.switched
		v := version{from: ch.from, to: ch.to, limits: map[string]level{}}
		for _, l := range inForce(configs, key.entity, key.resource) {
			v.limits[l.Name] = levelOf(inModeOf(key.entity, l))
		}
		for _, k := range levelsOf(key) {
			if s := switches[k]; s != "" {
				v.off, v.counts = s == "off", s == "bypass"
				break
			}
		}
		all = append(all, v)
	}
	return all
}

// levelsOf are the levels whose switch applies to a bucket, in order of precedence.
func levelsOf(key bucketKey) []limiter.ConfigKey {
	return []limiter.ConfigKey{
		{Entity: key.entity, Resource: key.resource},
		{Entity: key.entity, Resource: limiter.DefaultResource},
		{Resource: key.resource},
	}
}

// puts tracks when limits were put on the items of a bucket, full.
type puts struct {
	c        *checker
	key      bucketKey
	versions []version
	last     map[bucketID]map[string]time.Duration
	deleted  map[bucketID]bool // by an operator
}

func (c *checker) putsOf(key bucketKey) *puts {
	return &puts{c: c, key: key, versions: c.play.versions(key), last: map[bucketID]map[string]time.Duration{}, deleted: map[bucketID]bool{}}
}

// follow processes an applied write. It returns the operator's acts that grant limits anew.
// It reports a limit that is put on an item again although no operator added it again. An
// act's number is above 0.
func (p *puts) follow(r *write) map[string]int {
	switch {
	case r.after == nil:
		p.deleted[r.id] = r.client != nil && !r.retires()
		return nil
	case r.before == nil:
		return p.born(r)
	}
	var acts map[string]int
	for name := range r.after.levels {
		if _, had := r.before.level(name); had || name == hidden {
			continue
		}
		last, again := p.last[r.id][name]
		act := p.added(name, r.at, last)
		if act == 0 && again {
			p.c.violate("P1", r.at, &r.id, "%s is put on the item again, full, and no operator added it since %v", name, last)
		}
		if acts == nil {
			acts = map[string]int{}
		}
		acts[name] = act
		p.last[r.id][name] = r.at
	}
	return acts
}

// born records a new item. An item that is born of a sibling, or that replaces an expired
// one, grants nothing anew.
func (p *puts) born(r *write) map[string]int {
	last := map[string]time.Duration{}
	if r.other != nil && r.other != r {
		maps.Copy(last, p.last[r.other.id])
	}
	acts := map[string]int{}
	for name := range r.after.levels {
		last[name] = r.at
		if p.deleted[r.id] && r.other == nil {
			acts[name] = len(p.versions) + int(r.at)
		}
	}
	p.last[r.id], p.deleted[r.id] = last, false
	return acts
}

// added is the operator's last act that added a limit to a bucket's configuration. The act
// must have begun by one instant and not have ended before another; 0 if there is none.
func (p *puts) added(name string, by, since time.Duration) int {
	for i, v := range slices.Backward(p.versions) {
		if v.from > by || !v.has(p.key, name) || i > 0 && p.versions[i-1].has(p.key, name) {
			continue
		}
		if v.to >= since {
			return i + 1
		}
		return 0
	}
	return 0
}
