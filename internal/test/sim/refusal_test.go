package sim_test

import (
	"math"
	"slices"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// refusedForAReason: at some instant during a refused call, the shards of its bucket, or of
// its parent's, together held less than its request of one limit. The time is that of its
// own client's clock. Its quoted wait follows from these shards.
func (c *checker) refusedForAReason(k *call) {
	e := k.refusal()
	if e == nil || slices.ContainsFunc(k.parts(), func(part *call) bool { return len(part.req.Fallback) > 0 }) {
		return
	}
	c.neverRefuses(k, e)
	if e.RetryAfter() == limiter.Never {
		for _, st := range e.Statuses {
			least, most, known := c.largest(k, st)
			wrong := st.RetryAfter == limiter.Never && st.Requested*1000 <= least || st.RetryAfter != limiter.Never && st.Requested*1000 > most
			if known && wrong && st.Limit.Refuses() && !c.comparedNothing(k) && !c.changing(k, st) && (st.Exceeded || !c.differed(k, st)) {
				c.violate("P4", k.end, nil, "%s: %s of %s: wait %v for %d of %d", k, st.Limit.Name, st.Entity, st.RetryAfter, st.Requested, st.Limit.Capacity)
			}
		}
		return
	}
	if k.local() {
		c.refusedFromMemory(k)
		return
	}
	c.waits(k, e)
	promise := "P2"
	for _, part := range k.parts() {
		for _, key := range part.buckets() {
			if c.short(part, key, k.start) || c.short(part, key, k.end) {
				return
			}
			for _, r := range c.during(key, k.start, k.end) {
				if c.short(part, key, r.at-1) || c.short(part, key, r.at) {
					return
				}
				if r.after != nil && r.after.count > 1 {
					promise = "P5"
				}
			}
			if s := c.stateAt(key.shard(0), k.start); s != nil && s.count > 1 {
				promise = "P5"
			}
		}
	}
	if slices.ContainsFunc(e.Statuses, func(st limiter.Status) bool { return st.Exceeded && c.changing(k, st) }) {
		return // shards hold more by the old parameters than by those that decided
	}
	if slices.ContainsFunc(e.Statuses, func(st limiter.Status) bool { return c.awaitsPiece(k, st) }) {
		return
	}
	id := bucketKey{k.req.Entity, k.req.Resource}.shard(0)
	c.violate(promise, k.end, &id, "%s, and all the time everything asked for was there", k)
}

// awaitsPiece reports whether a refusal says that a bucket that does not exist would hold
// less than was asked, until another piece of a timetable, or a period into which it carries.
func (c *checker) awaitsPiece(k *call, st limiter.Status) bool {
	key := bucketKey{st.Entity, st.Resource}
	return st.Exceeded && (len(c.timetables) > 0 || c.odds.carries) && st.Requested >= st.Limit.Capacity && len(c.stocks(key, st.Limit.Name, k.start, k.end)) == 0
}

// short reports whether a bucket's existing shards lack some of a call's request at an
// instant.
func (c *checker) short(k *call, key bucketKey, at time.Duration) bool {
	now := c.clientMS(k.client, at)
	then := now         // a timetable may have less by the later of two readings
	if k.client.keeps { // an answer that corrected the clock may have come before the decision
		least, most := k.client.readings.within(k.start, k.end)
		now, then = c.trueMS(at+least), c.trueMS(at+most)
	}
	for name, tokens := range k.req.Consume {
		if shards := c.stocks(key, name, at, at); len(shards) > 0 && tokens > 0 && !c.onlyCounts(k, key, name, at) &&
			min(least(shards, now), least(shards, then)) < tokens*1000+c.reserved(k, key, name) {
			return true
		}
	}
	return false
}

// reserved is what other callers of the process request at the same time as a refused one.
// If they share writes, a write refuses a caller at once if those before it in the queue
// leave too little. They hold their requested tokens until they are answered, and so does
// an acquire that is returned because its parent refuses.
func (c *checker) reserved(k *call, key bucketKey, name string) (sum int64) {
	if !k.client.shares {
		return 0
	}
	for _, o := range c.byClient[k.client] {
		if o != k && o.kind.takes() && o.start <= k.end && k.start <= o.over() &&
			o.req.Resource == key.resource && (o.req.Entity == key.entity || cascading[o.req.Entity] == key.entity) {
			sum += o.req.Consume[name] * 1000
		}
	}
	return sum
}

// quoted returns the shards from which the wait of a refusal may be computed: as they were
// during the call. If callers share writes, it also has images without the tokens returned
// while a transaction of the process was in flight. A transaction returns no image, so the
// client computes the result from the images that it decided on, and assumes that
// concurrent returns come later.
func (c *checker) quoted(k *call, key bucketKey, name string) []stock {
	shards := c.stocks(key, name, k.start, k.end)
	if !k.client.shares {
		return shards
	}
	i := 0
	for n := range mostShards {
		id := key.shard(n)
		if i == len(shards) || !slices.ContainsFunc(shards[i], func(h held) bool { return h.shard == n }) {
			continue
		}
		for _, r := range c.during(key, k.start, k.end) {
			if l, ok := r.after.share(id, name); ok && r.id == id && r.joint && r.client == k.client {
				_, credited := c.moved(id, name, k.start, r.at)
				l.tk -= credited
				shards[i] = append(shards[i], held{l, r.after.rf, n})
			}
		}
		i++
	}
	return shards
}

// stocks returns the shards of a bucket that have a limit, each with all its states between
// two instants.
func (c *checker) stocks(key bucketKey, name string, from, to time.Duration) []stock {
	var shards []stock
	count := 1
	for i := 0; i < count; i++ {
		id := key.shard(i)
		var s stock
		add := func(st *state) {
			if l, ok := st.share(id, name); ok {
				s = append(s, held{l, st.rf, i})
				s = append(s, c.asHealed(l, st.rf, i, from, to)...)
				count = max(count, st.count)
			}
		}
		if i == 0 && len(c.buckets[id]) == 0 {
			return nil
		}
		add(c.stateAt(id, from))
		if from != to {
			for _, r := range c.during(key, from, to) {
				if r.id == id {
					add(r.after)
				}
			}
		}
		if i == 0 && s == nil {
			count = mostShards // maybe only shard 0 is missing
		}
		if s != nil {
			shards = append(shards, s)
		}
	}
	return shards
}

// waits is promise P4, for every limit that refused. By its shards' states during the call,
// the limit holds the request after the wait, and not before. Concurrent writes leave some
// latitude. If they changed the set of shards or the limit itself, they leave too much, and
// waits checks nothing.
func (c *checker) waits(k *call, e *limiter.ExceededError) {
	for _, st := range e.Statuses {
		if !st.Exceeded || st.RetryAfter == limiter.Never {
			continue
		}
		key, name := bucketKey{st.Entity, st.Resource}, st.Limit.Name
		id := key.shard(0)
		if !c.steady(key, name, st.Limit, k) || slices.ContainsFunc(k.faults, func(f fault) bool { return f.id.whole() == key }) {
			continue
		}
		shards := c.quoted(k, key, name)
		now, then := c.clientSpan(k.client, k.start, k.end)
		took := (k.end - k.start).Milliseconds() // a clock that jumped meanwhile went on from either reading
		now, then = min(now, then-took), max(then, now+took)
		first, last, comes := spanOf(shards, now, then, st.Requested*1000, st.Requested*1000+c.reserved(k, key, name))
		ms := st.RetryAfter.Milliseconds()
		if then+ms < first || comes && now+ms > last {
			c.violate("P4", k.end, &id, "%s: %s lacks something between %d and %d, and the wait is %d ms; it ends between %d and %d",
				k, name, now, then, ms, first, last)
		}
	}
}

// largest is the most that a limit ever holds, in millitokens. Limits that are quoted the
// same may differ in that by what they hold at other times: it is from the least to the most
// of those that the bucket had, or was to have, since a time to live before the call. It is
// not known if an operator topped the limit up, or if there is no bucket.
func (c *checker) largest(k *call, st limiter.Status) (least, most int64, known bool) {
	key := bucketKey{st.Entity, st.Resource}
	from := k.start - max(k.client.ttl, k.client.trust, 0) - storeTimeout
	exists, topped := false, false
	least = math.MaxInt64
	consider := func(l level) {
		topped = topped || l.topped != 0 && c.odds.granted
		if l.isQuoted(st.Limit) {
			least, most = min(least, l.most()), max(most, l.most())
		}
	}
	for i := range mostShards {
		if l, ok := c.stateAt(key.shard(i), k.end).level(st.Limit.Name); ok {
			exists = true
			consider(l)
		}
		if l, ok := c.stateAt(key.shard(i), from).level(st.Limit.Name); ok {
			consider(l)
		}
	}
	for _, r := range c.during(key, from, k.end) {
		if l, ok := r.after.level(st.Limit.Name); ok {
			consider(l)
		}
	}
	for _, v := range between(c.play.versions(key), from, k.end) {
		if l, ok := v.limits[st.Limit.Name]; ok {
			consider(l)
		}
	}
	return least, most, exists && !topped
}

// comparedNothing reports whether a call may rest on older configuration than the time to
// live: a read of it failed meanwhile, or so lately that the client did not try again.
func (c *checker) comparedNothing(k *call) bool {
	return slices.ContainsFunc(k.client.unread, func(at time.Duration) bool {
		return at >= k.start-storeTimeout-time.Second && at <= k.end
	})
}

// changing reports whether a bucket's shards differed in a limit around the time of a call.
// A change of configuration takes several writes, and the call may rest on images as old as
// its client trusts.
func (c *checker) changing(k *call, st limiter.Status) bool {
	key := bucketKey{st.Entity, st.Resource}
	return c.sharded[key] && c.differed(k, st) || c.variesOtherwise(k, key, st.Limit.Name) || c.comparedNothing(k)
}

// differed reports whether a shard had another capacity than is quoted. A bucket may grant a
// request by its old capacity while its parent refuses, and then quote the new one, which the
// client has read meanwhile.
func (c *checker) differed(k *call, st limiter.Status) bool {
	key := bucketKey{st.Entity, st.Resource}
	differs := func(s *state) bool {
		l, ok := s.level(st.Limit.Name)
		return s != nil && (!ok || l.varies == nil && l.cp != st.Limit.Capacity*1000 || l.varies != nil && !l.isQuoted(st.Limit))
	}
	from := k.start - max(0, k.client.trust) - storeTimeout
	for i := range mostShards {
		if differs(c.stateAt(key.shard(i), from)) {
			return true
		}
	}
	return slices.ContainsFunc(c.during(key, from, k.end), func(r *write) bool { return differs(r.after) })
}

// variesOtherwise reports whether a limit had a timetable lately, and then or now other
// parameters than on shard 0. What is quoted of it is what is in force, in whole tokens, so
// others may be quoted alike.
func (c *checker) variesOtherwise(k *call, key bucketKey, name string) bool {
	now, _ := c.stateAt(key.shard(0), k.start).level(name)
	return slices.ContainsFunc(between(c.play.versions(key), k.start-c.knows(k.client), k.end), func(v version) bool {
		is, has := v.limits[name]
		return has && (is.varies != nil || now.varies != nil) && !is.sameParams(now)
	})
}

// steady reports whether a bucket had all its shards during a call, each with the limit as
// quoted.
func (c *checker) steady(key bucketKey, name string, quoted limiter.Limit, k *call) bool {
	if c.variesOtherwise(k, key, name) {
		return false
	}
	n := 1
	for i := 0; i < n; i++ {
		s := c.stateAt(key.shard(i), k.start)
		l, ok := s.level(name)
		if !ok || !l.isQuoted(quoted) {
			return false
		}
		if n = max(n, s.count); s.count != n {
			return false
		}
	}
	for _, r := range c.during(key, k.start, k.end) {
		was, had := r.before.level(name)
		is, has := r.after.level(name)
		if !had || !has || !was.sameParams(is) || r.before.count != r.after.count {
			return false
		}
	}
	return true
}
