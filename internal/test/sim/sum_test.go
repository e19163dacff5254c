package sim_test

import (
	"maps"
	"slices"
)

// sumsUp is promise P3 for a process as a whole, whose callers may share writes. The owner
// of each write is then unknown, but together the calls debited what they should keep
// together. The check needs a run without lost requests and crashes, in which no item or
// limit was removed.
func (c *checker) sumsUp() {
	want, done := map[clientSide]int64{}, map[clientSide]int64{}
	unknown := map[clientBucket]bool{}
	for _, k := range c.calls {
		if k.client == nil || k.kind == asking || k.kind == administering {
			continue
		}
		for _, entity := range []string{k.req.Entity, cascading[k.req.Entity]} {
			key := clientBucket{k.client, bucketKey{entity, k.req.Resource}}
			_, remade := c.play.remade[k.req.Entity]
			unknown[key] = unknown[key] || c.unclear(k) || remade && entity != k.req.Entity // while its entity was deleted it had no parent
			if !k.kind.leases() || !k.admitted() {
				continue
			}
			for name, tokens := range c.kept(k) {
				want[clientSide{key, name}] += tokens * 1000
			}
		}
	}
	for key, log := range c.whole {
		for _, r := range log {
			if r.client == nil || r.after == nil || r.other != nil {
				continue
			}
			for name, is := range r.after.levels {
				was, _ := r.before.level(name)
				done[clientSide{clientBucket{r.client, key}, name}] += is.tc - was.tc
			}
		}
	}
	for side, sum := range want {
		id := side.key.shard(0)
		if unknown[side.clientBucket] || !c.stayed(side.key, side.name) || sum == done[side] {
			continue
		}
		c.violate("P3", c.now(), &id, "the callers of %s keep %d of %s, debited are %d", side.client.name, sum, side.name, done[side])
	}
}

// kept is what an admitted call's lease should keep.
func (c *checker) kept(k *call) map[string]int64 {
	keep, ends := maps.Clone(k.req.Consume), false
	for _, s := range c.settled[k] {
		switch {
		case s.want != nil:
			keep, ends = maps.Clone(s.want), ends || s.kind != releasing
		case s.admitted() && !ends: // the end counts what was added meanwhile
			for name, tokens := range s.req.Consume {
				keep[name] += tokens
			}
		}
	}
	return keep
}

type clientBucket struct {
	client *client
	key    bucketKey
}

type clientSide struct {
	clientBucket

	name string
}

// unclear reports whether the remaining debit of a call is unknown.
func (c *checker) unclear(k *call) bool {
	switch {
	case k.client.standsStill() || !k.answered || k.degraded() || len(k.faults) > 0 || len(k.req.Fallback) > 0:
		return true
	case k.kind == committing || k.kind == returning || k.kind == releasing:
		return k.err != nil && k.leaves == 0 && k.deadline == 0
	}
	return k.err != nil && k.refusal() == nil && k.leaves == 0 && k.deadline == 0
}

// stayed reports whether a bucket had a limit from its first write to the end, in its
// configuration too, and lost shards only by merges.
func (c *checker) stayed(key bucketKey, name string) bool {
	log := c.whole[key]
	return len(log) > 0 && c.play.wasConfigured(key.shard(0), name, c.play.start[0], c.now()) && !slices.ContainsFunc(log, func(r *write) bool {
		_, ok := r.after.level(name)
		return !ok && !r.retires()
	})
}
