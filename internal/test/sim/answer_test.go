package sim_test

import (
	"maps"
	"slices"
	"time"
)

// A part is the effect of a call and its settling on one limit of a bucket, over all
// shards, in millitokens.
type part struct {
	taken   int64 // by the call itself, less what it gave back
	added   int64 // by the calls that extended its lease
	net     int64 // including the calls that settle its lease
	least   int64 // the minimum of net, and the maximum of taken
	most    int64
	lives   map[bucketID][2]int // lives of the limit and its item at the last debit
	outlast bool                // a later call debited the item that replaced one that the call had debited
	touched bool                // a write of the acquire was applied and the limit existed
	at      time.Duration       // of the first debit
}

// A partKey is a limit of a bucket.
type partKey struct {
	bucketKey

	name string
}

// parts sums the applied writes of a call and of the calls that extend, reduce and settle
// its lease.
func (c *checker) parts(k *call) map[partKey]*part {
	parts := map[partKey]*part{}
	writes := slices.Clone(c.byCall[k])
	for _, s := range c.settled[k] {
		writes = append(writes, c.byCall[s]...)
	}
	slices.SortStableFunc(writes, func(a, b *write) int { return int(a.at - b.at) })
	for i, r := range writes {
		if r.failed || r.after == nil || r.other != nil {
			continue
		}
		// All writes of a transaction happen at once.
		whole := i+1 == len(writes) || writes[i+1].at != r.at
		for name, is := range r.after.levels {
			if name == hidden {
				continue
			}
			key := partKey{r.id.whole(), name}
			p := parts[key]
			if p == nil {
				p = &part{lives: map[bucketID][2]int{}}
				parts[key] = p
			}
			was, _ := r.before.level(name)
			debit := is.tc - was.tc
			p.net += debit
			if r.call != k && r.call.kind == extending {
				p.added += debit
			}
			if r.call == k {
				p.taken += debit
				p.touched = true
				if debit > 0 && p.at == 0 {
					p.at = r.at
				}
			}
			life := [2]int{is.life, r.after.life}
			if had, ok := p.lives[r.id]; debit > 0 || !ok {
				p.outlast = p.outlast || ok && had != life && r.call != k
				p.lives[r.id] = life
			}
			if whole {
				p.most, p.least = max(p.most, p.taken), min(p.least, p.net)
			}
		}
	}
	return parts
}

// allOrNothing is promise P3, and P10 for a caller that left. A granted request is debited
// whole from every limit of the entity and its parent; a request that was not granted is
// debited from none. No credit exceeds its debit, and no debit the request, whatever
// crashed or got lost.
//
// A fault excuses a debit that stays, and only on the bucket whose write it hit. It must
// leave open whether the write was applied, or have prevented a compensation. A debit from
// a deleted item or limit is gone with it.
func (c *checker) allOrNothing(k *call) {
	promise := "P3"
	if k.refusal() == nil && (k.leaves != 0 || k.deadline != 0) {
		promise = "P10"
	}
	parts := c.parts(k)
	for _, key := range sortedParts(parts) {
		p, id := parts[key], key.shard(0)
		asked := k.req.Consume[key.name] * 1000
		if key.entity != k.req.Entity && key.entity != cascading[k.req.Entity] || key.resource != k.req.Resource {
			c.violate(promise, k.start, &id, "%s wrote to a bucket that is not its own", k)
		}
		if p.least < 0 {
			c.violate(promise, k.start, &id, "%s: %s was credited %d that was never debited", k, key.name, -p.least)
		}
		// Of a caller that waits, a try whose return was lost leaves its debit.
		// So does a copy of a lost write, until the process sees it and returns it.
		if again := (k.kind == waiting || p.taken <= asked) && c.excused(k, key.bucketKey, p.at); p.most > asked && !again {
			c.violate(promise, k.start, &id, "%s: %s was debited %d, asked for were %d", k, key.name, p.most, asked)
		}
		c.settledRight(k, key, p)
		nothing := k.answered && k.lease == nil
		if nothing && p.taken != 0 && c.lasts(key, p) && !c.excused(k, key.bucketKey, p.at) {
			c.violate(promise, k.end, &id, "%s: %s stays debited %d", k, key.name, p.taken)
		}
	}
	if k.admitted() {
		c.debitedWhole(k, parts)
	}
	c.ofItsPeriod(k)
}

func sortedParts(parts map[partKey]*part) []partKey {
	return slices.SortedFunc(maps.Keys(parts), func(a, b partKey) int {
		if c := compare(a.String(), b.String()); c != 0 {
			return c
		}
		return compare(a.name, b.name)
	})
}

// lasts reports whether the limit still exists wherever it was debited, or where that was
// merged into.
func (c *checker) lasts(key partKey, p *part) bool {
	if p.outlast {
		return false
	}
	for id, life := range p.lives {
		if !c.outlives(lived{id, life[1]}, key.name, life[0]) {
			return false
		}
	}
	return true
}

// excused reports whether a fault explains a debit that stays.
func (c *checker) excused(k *call, key bucketKey, debited time.Duration) bool {
	if k.client.standsStill() && (k.refusal() == nil || k.kind == waiting) {
		return true // it crashed before it returned what it took
	}
	return slices.ContainsFunc(k.faults, func(f fault) bool {
		known := f.id != bucketID{} // false for a query
		return (!known || f.id.whole() == key) && (f.fault == unknown || f.at > debited)
	})
}

// debitedWhole: an admitted call took exactly its request from every limit of its entity
// and its parent that existed all the time.
func (c *checker) debitedWhole(k *call, parts map[partKey]*part) {
	keys := []bucketKey{{k.req.Entity, k.req.Resource}}
	remade, wasRemade := c.play.remade[k.req.Entity]
	// Configuration read since then may have decided, by a clock that may have been set.
	known := k.start - max(c.play.ttl, 0) - storeTimeout - c.spread()
	parent := bucketKey{cascading[k.req.Entity], k.req.Resource}
	if parent.entity != "" {
		keys = append(keys, parent)
	}
	for name, tokens := range k.req.Consume {
		var total int64
		for _, key := range keys {
			var taken int64
			if p := parts[partKey{key, name}]; p != nil {
				taken = p.taken
			}
			id := key.shard(0)
			total += taken
			again := k.kind == waiting && taken > tokens*1000 && c.excused(k, key, parts[partKey{key, name}].at)
			optional := again || taken == 0 && (key == parent && wasRemade && remade < k.end || !c.hadAllAlong(key, name, k) ||
				len(k.req.Fallback) == 0 && !c.play.wasConfigured(id, name, known, k.end))
			if taken != tokens*1000 && !optional {
				c.violate("P3", k.end, &id, "%s was admitted, and %s debited %d", k, name, taken)
			}
		}
		if total == 0 && tokens > 0 {
			id := keys[0].shard(0)
			c.violate("P3", k.end, &id, "%s was admitted, and %s debited nowhere", k, name)
		}
	}
}

// hadAllAlong reports whether the shards of a bucket had a limit from before a call until
// its answer.
func (c *checker) hadAllAlong(key bucketKey, name string, k *call) bool {
	found := false
	for i := range mostShards {
		if s := c.stateAt(key.shard(i), k.start); s != nil {
			if _, ok := s.level(name); !ok {
				return false
			}
			found = true
		}
	}
	for _, r := range c.during(key, k.start, k.end) {
		if _, ok := r.after.level(name); !ok {
			return false
		}
	}
	return found
}

// settledRight: a committed or rolled-back lease keeps exactly what it should. A caller
// that does not wait for the end changes nothing about that; a fault does.
func (c *checker) settledRight(k *call, key partKey, p *part) {
	settled := c.settled[k]
	if len(settled) == 0 || !k.admitted() || !p.touched || p.taken != k.req.Consume[key.name]*1000 || p.added != c.extended(k, key.name)*1000 || !c.lasts(key, p) {
		return
	}
	last := lastWanted(settled)
	if last == nil || !last.answered {
		return
	}
	keep, named := last.want[key.name]
	if !named {
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
		id := key.shard(0)
		promise := "P3"
		if last.kind == returning {
			promise = "P10"
		}
		c.violate(promise, last.end, &id, "%s, settled by %s: %s stays debited %d, must be %d", k, last, key.name, p.net, keep*1000)
	}
}

// lastWanted is the last call that committed, returned or reduced a lease; nil if none did,
// or if the lease was extended after it was reduced.
func lastWanted(settled []*call) *call {
	extended := false
	for _, s := range slices.Backward(settled) {
		switch {
		case s.want != nil && s.kind == releasing && extended:
			return nil
		case s.want != nil:
			return s
		}
		extended = extended || s.admitted()
	}
	return nil
}

// extended is what the calls that extended a lease were admitted with.
func (c *checker) extended(k *call, name string) (tokens int64) {
	for _, s := range c.settled[k] {
		if s.kind == extending && s.admitted() {
			tokens += s.req.Consume[name]
		}
	}
	return tokens
}

// clockAt is the instant that clocks use: they stand still during the calm.
func (w *world) clockAt(at time.Duration) time.Duration {
	if calm := w.calm.Load(); calm != nil && at > *calm {
		return *calm
	}
	return at
}
