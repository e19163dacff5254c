package sim_test

import (
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// A part is what a call and its settling did to one limit of one bucket, in
// millitokens.
type part struct {
	taken   int64 // by the acquire itself, less what it gave back
	net     int64 // with what settled its lease
	least   int64 // the lowest that net ever was, and the highest that taken was
	most    int64
	life    int           // of the limit, when it was last taken from
	item    int           // life of the item then
	touched bool          // a write of the acquire landed and the limit was there
	at      time.Duration // of the first debit
}

type partKey struct {
	id   bucketID
	name string
}

// parts adds up the applied writes of a call and of those that settle its lease.
func (c *checker) parts(k *call) map[partKey]*part {
	parts := map[partKey]*part{}
	writes := slices.Clone(c.byCall[k])
	for _, s := range c.settled[k] {
		writes = append(writes, c.byCall[s]...)
	}
	slices.SortFunc(writes, func(a, b *write) int { return int(a.at - b.at) })
	for _, r := range writes {
		if r.failed || r.after == nil {
			continue
		}
		for name, is := range r.after.levels {
			if name == hidden {
				continue
			}
			key := partKey{r.id, name}
			if parts[key] == nil {
				parts[key] = &part{}
			}
			p := parts[key]
			was, _ := r.before.level(name)
			debit := is.tc - was.tc
			p.net += debit
			if r.call == k {
				p.taken += debit
				p.touched = true
				if debit > 0 && p.at == 0 {
					p.at = r.at
				}
				p.most = max(p.most, p.taken)
			}
			if debit > 0 || p.item == 0 {
				p.life, p.item = is.life, r.after.life
			}
			p.least = min(p.least, p.net)
		}
	}
	return parts
}

// allOrNothing is promise P3, and P10 for a caller that left: what was granted
// is debited whole from every limit of the entity and its parent; what was not
// is debited from none. Neither is anything ever credited that was not debited,
// nor debited that was not asked for, whatever crashed or got lost.
//
// A fault excuses a debit that stays, and only on the bucket whose write it
// hit: one that leaves open whether the write landed, or one that kept a
// compensation from being written. What was debited from an item or a limit
// that is gone went with it.
func (c *checker) allOrNothing(k *call) {
	promise := "P3"
	if k.refusal() == nil && (k.leaves != 0 || k.deadline != 0) {
		promise = "P10"
	}
	parts := c.parts(k)
	for _, key := range sortedParts(parts) {
		p := parts[key]
		asked := k.req.Consume[key.name] * 1000
		if key.id.entity != k.req.Entity && key.id.entity != cascading[k.req.Entity] || key.id.resource != k.req.Resource {
			c.violate(promise, k.start, &key.id, "%s wrote to a bucket that is not its own", k)
		}
		if p.least < 0 {
			c.violate(promise, k.start, &key.id, "%s: %s was credited %d that was never debited", k, key.name, -p.least)
		}
		if p.most > asked {
			c.violate(promise, k.start, &key.id, "%s: %s was debited %d, asked for were %d", k, key.name, p.most, asked)
		}
		c.settledRight(k, key, p)
		nothing := k.answered && k.lease == nil
		if nothing && p.taken != 0 && c.lasts(key, p) && !c.excused(k, key.id, p.at) {
			c.violate(promise, k.end, &key.id, "%s: %s stays debited %d", k, key.name, p.taken)
		}
	}
	if k.admitted() {
		c.debitedWhole(k, parts)
	}
}

func sortedParts(parts map[partKey]*part) []partKey {
	return slices.SortedFunc(maps.Keys(parts), func(a, b partKey) int {
		if c := compare(a.id.String(), b.id.String()); c != 0 {
			return c
		}
		return compare(a.name, b.name)
	})
}

// lasts reports whether the limit that was debited is still there.
func (c *checker) lasts(key partKey, p *part) bool {
	l, ok := c.items[key.id].level(key.name)
	return ok && l.life == p.life && c.items[key.id].life == p.item
}

// excused reports whether a fault explains that a debit stays.
func (c *checker) excused(k *call, id bucketID, debited time.Duration) bool {
	if k.client.standsStill() && k.refusal() == nil {
		return true // it crashed before it had returned what it took
	}
	return slices.ContainsFunc(k.faults, func(f fault) bool {
		return f.id == id && (f.fault == unknown || f.at > debited)
	})
}

// debitedWhole: an admitted call took exactly what it asked for from every
// limit of its entity and of its parent that was there all the time.
func (c *checker) debitedWhole(k *call, parts map[partKey]*part) {
	ids := []bucketID{{k.req.Entity, k.req.Resource, "0"}}
	remade, wasRemade := c.play.remade[k.req.Entity]
	// Configuration read since then, by a clock that may be set, may have decided.
	known := k.start - max(c.play.ttl, 0) - storeTimeout - c.spread()
	parent := bucketID{cascading[k.req.Entity], k.req.Resource, "0"}
	if parent.entity != "" {
		ids = append(ids, parent)
	}
	for name, tokens := range k.req.Consume {
		var total int64
		for _, id := range ids {
			var taken int64
			if p := parts[partKey{id, name}]; p != nil {
				taken = p.taken
			}
			total += taken
			optional := taken == 0 && (id == parent && wasRemade && remade < k.end || !c.hadAllAlong(id, name, k) ||
				len(k.req.Limits) == 0 && !c.play.wasConfigured(id, name, known, k.end))
			if taken != tokens*1000 && !optional {
				c.violate("P3", k.end, &id, "%s was admitted, and %s debited %d", k, name, taken)
			}
		}
		if total == 0 && tokens > 0 {
			c.violate("P3", k.end, &ids[0], "%s was admitted, and %s debited nowhere", k, name)
		}
	}
}

// hadAllAlong reports whether a bucket had a limit from before a call until it
// was answered.
func (c *checker) hadAllAlong(id bucketID, name string, k *call) bool {
	if _, ok := c.stateAt(id, k.start).level(name); !ok {
		return false
	}
	for _, r := range c.buckets[id] {
		if _, ok := r.after.level(name); !ok && k.start <= r.at && r.at <= k.end {
			return false
		}
	}
	return true
}

// settledRight: a lease that was committed or rolled back keeps exactly what it
// was to keep. A caller that did not wait for the end of it changes nothing
// about that; a fault does.
func (c *checker) settledRight(k *call, key partKey, p *part) {
	settled := c.settled[k]
	if len(settled) == 0 || !k.admitted() || !p.touched || p.taken != k.req.Consume[key.name]*1000 || !c.lasts(key, p) {
		return
	}
	last := settled[len(settled)-1]
	keep, named := last.want[key.name]
	if !named || !last.answered {
		return
	}
	for _, s := range settled {
		if len(s.faults) > 0 {
			if s.err != nil {
				return
			}
		}
	}
	if last.err != nil && (last.deadline == 0 && last.leaves == 0 || last.client.standsStill()) {
		return
	}
	if p.net != keep*1000 {
		promise := "P3"
		if last.kind == returning {
			promise = "P10"
		}
		c.violate(promise, last.end, &key.id, "%s, settled by %s: %s stays debited %d, must be %d", k, last, key.name, p.net, keep*1000)
	}
}

// refusedForAReason: at some instant while a refused call went on, one of its
// limits did not hold what it asked for, by its own client's clock.
func (c *checker) refusedForAReason(k *call) {
	e := k.refusal()
	if e == nil || len(k.req.Limits) > 0 {
		return
	}
	if e.RetryAfter() == limiter.Never {
		for _, st := range e.Statuses {
			if (st.RetryAfter == limiter.Never) != (st.Requested > st.Limit.Capacity) {
				c.violate("P4", k.end, nil, "%s: %s of %s: wait %v for %d of %d", k, st.Limit.Name, st.Entity, st.RetryAfter, st.Requested, st.Limit.Capacity)
			}
		}
		return
	}
	for _, entity := range []string{k.req.Entity, cascading[k.req.Entity]} {
		id := bucketID{entity, k.req.Resource, "0"}
		if c.short(k, c.stateAt(id, k.start), k.start) {
			return
		}
		for _, r := range c.buckets[id] {
			if k.start <= r.at && r.at <= k.end && (c.short(k, r.after, r.at) || c.short(k, r.before, r.at)) {
				return
			}
		}
	}
	id := bucketID{k.req.Entity, k.req.Resource, "0"}
	c.violate("P2", k.end, &id, "%s, and all the time everything asked for was there", k)
}

func (c *checker) short(k *call, s *state, at time.Duration) bool {
	if s == nil {
		return false
	}
	now := c.trueMS(at + k.client.offset(c.clockAt(at)))
	for name, tokens := range k.req.Consume {
		if l, ok := s.level(name); ok && tokens > 0 && l.balance(s.rf, now) < tokens*1000 {
			return true
		}
	}
	return false
}

// clockAt is the instant that clocks go by: they are still while it is calm.
func (w *world) clockAt(at time.Duration) time.Duration {
	if calm := w.calm.Load(); calm != nil && at > *calm {
		return *calm
	}
	return at
}
