package sim_test

import (
	"maps"
	"slices"
	"strconv"

	limiter "github.com/zeroae/zae-limiter-go"
)

// This file has requests of several resources. Such a request is a call for each resource,
// and all promises of a call hold for each of these. All of them have one answer. So what is
// refused for one resource leaves no debit in the buckets of another, and a lease of all of
// them is debited whole from each.

// parts are the calls of a request, one for each resource. The first is the call itself.
func (c *call) parts() []*call { return append([]*call{c}, c.also...) }

// on are the parts of a call that concern a bucket item; all if it is not known which.
func (c *call) on(id bucketID) []*call {
	if id == (bucketID{}) {
		return c.parts()
	}
	for _, part := range c.also {
		if part.req.Resource == id.resource {
			return []*call{part}
		}
	}
	return []*call{c}
}

// buckets are the buckets that a part of a call takes from.
func (c *call) buckets() []bucketKey {
	return []bucketKey{{c.req.Entity, c.req.Resource}, {cascading[c.req.Entity], c.req.Resource}}
}

// asks gives a call its further resources. It asks of each for the same entity.
func (c *call) asks(also []limiter.Request) {
	for _, req := range also {
		if req.Entity, req.OnUnavailable = c.req.Entity, c.req.OnUnavailable; req.Resource == c.req.Resource || slices.ContainsFunc(c.also, func(o *call) bool { return o.req.Resource == req.Resource }) {
			continue
		}
		c.also = append(c.also, &call{name: c.name + "+" + req.Resource, kind: c.kind, client: c.client, req: req, with: c})
	}
}

// whole is the request of a call, for all its resources.
func (c *call) whole() limiter.Request {
	req := c.req
	for _, part := range c.also {
		req.Also = append(req.Also, limiter.Part{Resource: part.req.Resource, Consume: part.req.Consume, Fallback: part.req.Fallback})
	}
	return req
}

// settles makes a call settle a lease of several resources. wants is what each further one is
// to keep.
func (c *call) settles(w *world, also []*call, wants []map[string]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, of := range also {
		part := &call{name: c.name + "+" + of.req.Resource, kind: c.kind, client: c.client, req: of.req, of: of, want: wants[i], with: c, start: c.start, deadline: c.deadline, leaves: c.leaves}
		c.also = append(c.also, part)
		w.calls = append(w.calls, part)
	}
}

// further draws what a request asks of further resources, in some seeds.
func (k *worker) further() (also []limiter.Request) {
	r := k.w.dice.stream("joint", k.name, strconv.Itoa(k.n))
	if !k.w.odds.joint || chance(r, 0.5) {
		return nil
	}
	for range 1 + r.IntN(2) {
		req := limiter.Request{Resource: pick(r, "api", "chat", "web"), Consume: map[string]int64{}}
		names := offered[req.Resource]
		for range 1 + r.IntN(2) {
			name := pick(r, names...)
			req.Consume[name] = pick(r, 0, 1, 1, max(1, typical[name]/20), typical[name]/2)
		}
		also = append(also, req)
	}
	return also
}

// adjustAlso adjusts what a lease is to keep of further resources, before it is ended.
func (k *worker) adjustAlso(of *call, kind kind) (wants []map[string]int64) {
	for _, part := range of.also {
		want := maps.Clone(part.keeps)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			r := k.w.dice.stream("adjust", part.name, name)
			switch delta := r.Int64N(2*want[name]+2) - want[name]; {
			case kind == returning:
				want[name] = 0
			case chance(r, 0.5):
				must(part.lease.Adjust(name, delta))
				want[name] += delta
			}
		}
		wants = append(wants, want)
	}
	return wants
}
