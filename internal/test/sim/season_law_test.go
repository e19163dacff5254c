package sim_test

import (
	"maps"
	"slices"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// checkSeason checks the promises about configuration in a season, besides those about
// every bucket.
func checkSeason(s *season) {
	c := read(s.play)
	for _, id := range c.ids() {
		c.neverOver(id.whole())
		c.forward(id)
		c.asStored(id)
	}
	for _, k := range c.calls {
		if k.kind == administering {
			continue
		}
		c.inTime(k)
		if k.kind == acquiring {
			s.returnedWhole(c, k)
		}
		if k.kind == acquiring && !c.odds.faulty() {
			s.decided(c, k)
		}
	}
}

// callTakes is the duration of a call: so much later than the time to live a decision may
// still rest on old configuration.
const callTakes = 100 * time.Millisecond

// between returns the versions that were in force at any instant between two.
func between(all []version, from, to time.Duration) (some []version) {
	for i, v := range all {
		if v.from <= to && (i+1 == len(all) || all[i+1].to >= from) {
			some = append(some, v)
		}
	}
	return some
}

// known returns the versions that a call may rest on: those in force since its client's
// time to live before it began.
func (s *season) known(k *call, key bucketKey) []version {
	return between(s.versions(key), k.start-k.client.ttl-callTakes, k.end)
}

// payersOf returns the other entities that a call may be charged to, "" for none.
func (s *season) payersOf(k *call) (payers []string) {
	if k.req.Entity != movable {
		return []string{cascading[k.req.Entity]}
	}
	from := k.start - k.client.ttl - callTakes
	for i, p := range s.parents {
		if p.from <= k.end && (i+1 == len(s.parents) || s.parents[i+1].to >= from) {
			payers = append(payers, p.parent)
			if i > 0 && p.to >= from {
				payers = append(payers, "") // while the entity was deleted, it had no parent
			}
		}
	}
	return payers
}

// decided is promise P7: a call's answer rests on configuration, and on a parent, that was
// in force within the time to live.
func (s *season) decided(c *checker, k *call) {
	if k.req.Entity == guest {
		return
	}
	bad := func(format string, args ...any) {
		id := bucketKey{k.req.Entity, k.req.Resource}.shard(0)
		c.violate("P7", k.end, &id, "%v, which keeps configuration for %v: "+format, append([]any{k, k.client.ttl}, args...)...)
	}
	payers := s.payersOf(k)
	keys := []bucketKey{{k.req.Entity, k.req.Resource}}
	for _, p := range payers {
		if p != "" {
			keys = append(keys, bucketKey{p, k.req.Resource})
		}
	}
	anyOf := func(f func(bucketKey, version) bool) bool {
		return slices.ContainsFunc(keys, func(key bucketKey) bool {
			return slices.ContainsFunc(s.known(k, key), func(v version) bool { return f(key, v) })
		})
	}
	quoted := k.statuses
	if e := k.refusal(); e != nil {
		quoted = e.Statuses
	}
	if k.admitted() || k.refusal() != nil {
		for _, st := range quoted {
			if !anyOf(func(key bucketKey, v version) bool {
				return key.entity == st.Entity && !v.off && v.has(key, st.Limit.Name) && v.limits[st.Limit.Name].isQuoted(st.Limit)
			}) {
				bad("it is told %v of %s, which was not in force", st.Limit, st.Entity)
			}
		}
	}
	if e := k.refusal(); e != nil {
		s.bypasses(k, e, bad)
	}
	switch kind := class(k.err); {
	case k.refusal() != nil:
	case k.admitted():
		s.granted(c, k, keys, payers, bad)
	case kind == limiter.ErrDisabled.Error():
		if !anyOf(func(_ bucketKey, v version) bool { return v.off }) {
			bad("nothing was switched off")
		}
	case kind == limiter.ErrNotConfigured.Error():
		if !anyOf(func(_ bucketKey, v version) bool {
			for name := range k.req.Consume {
				if _, ok := v.limits[name]; !ok {
					return true
				}
			}
			return false
		}) {
			bad("all of it was configured: %v", k.err)
		}
	default:
		bad("nothing explains %v", k.err)
	}
}

// granted: each bucket of a granted call was debited whole. At its last debit it had the
// limits of a version in force that was not switched off.
func (s *season) granted(c *checker, k *call, keys []bucketKey, payers []string, bad func(string, ...any)) {
	debited, last := map[bucketKey]map[string]int64{}, map[bucketKey]*write{}
	for _, r := range c.byCall[k] {
		if r.failed || r.after == nil {
			continue
		}
		key := r.id.whole()
		if debited[key] == nil {
			debited[key] = map[string]int64{}
		}
		for name, is := range r.after.levels {
			was, _ := r.before.level(name)
			if n := is.tc - was.tc; n != 0 && name != hidden {
				debited[key][name] += n
				if n > 0 {
					last[key] = r
				}
			}
		}
		maps.DeleteFunc(debited[key], func(_ string, n int64) bool { return n == 0 })
	}
	charged := 0
	for key, sums := range debited {
		if len(sums) == 0 {
			continue
		}
		if !slices.Contains(keys, key) {
			bad("charged to %v", key)
			continue
		}
		if key.entity != k.req.Entity {
			charged++
		}
		at := last[key].after
		if at.bypass != 0 {
			continue // it requires nothing of the limits
		}
		if !slices.ContainsFunc(s.known(k, key), func(v version) bool {
			for name := range sums {
				if l, ok := v.limits[name]; !ok || !l.sameParams(at.levels[name]) || !l.isAs(at.levels[name]) {
					return false
				}
			}
			return !v.off
		}) {
			bad("granted by %v, which is none of %v", at, s.known(k, key))
		}
	}
	if charged > 1 {
		bad("charged to %d parents", charged)
	}
	for _, key := range keys {
		must := key.entity == k.req.Entity || len(payers) == 1
		for name, tokens := range k.req.Consume {
			optional := slices.ContainsFunc(s.known(k, key), func(v version) bool { return !v.has(key, name) })
			if got := debited[key][name]; got != tokens*1000 && (got != 0 || must && !optional) {
				bad("%s of %v was debited %d", name, key, got)
			}
		}
	}
}

// forward: no write undoes a change. A write to an item never brings an earlier
// configuration than the item had. The configuration of a new item was in force, and not
// switched off, at some time since the request.
func (c *checker) forward(id bucketID) {
	all, at := c.play.versions(id.whole()), 0
	for _, r := range c.buckets[id] {
		switch {
		case r.after == nil:
			continue
		case r.op == patches: // a peer has already written the level
			if r.changesParams() {
				for at+1 < len(all) && all[at+1].from <= r.at {
					at++
				}
			}
			continue
		case r.before == nil:
			from := r.at
			if r.call != nil {
				from = r.call.start
			}
			some := between(all, from, r.at)
			if !slices.ContainsFunc(some, func(v version) bool { return !v.off && (len(v.limits) == 0 || r.after.follows(v)) }) {
				c.violate("P7", r.at, &id, "made from something else than %+v", some)
			}
			at = 0
		case !r.changesParams():
			continue
		}
		next := slices.IndexFunc(all[at:], func(v version) bool {
			return v.from <= r.at && (r.after.follows(v) || len(v.limits) == 0 && id.entity == guest)
		})
		switch {
		case next >= 0:
			at += next
		case r.before != nil:
			c.violate("P7", r.at, &id, "%v brings it to something else than %+v and what came later", r.call, all[at])
		}
	}
}

// changesParams reports whether a write sets, adds or removes a limit, or makes it soft or
// hard.
func (w *write) changesParams() bool {
	return slices.ContainsFunc(names(w.before, w.after), func(name string) bool {
		was, had := w.before.level(name)
		is, has := w.after.level(name)
		return had != has || had && (!was.sameParams(is) || !was.isAs(is))
	})
}

// follows reports whether an item has exactly the limits of a version, and those soft that it
// has so.
func (s *state) follows(v version) bool {
	n := 0
	for name, l := range s.levels {
		if name == hidden {
			continue
		}
		if want, ok := v.limits[name]; !ok || !want.sameParams(l) || !want.isAs(l) {
			return false
		}
		n++
	}
	return n == len(v.limits)
}
