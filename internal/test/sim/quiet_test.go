package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// quiet checks the promises for times when nobody else consumes: a bucket in use follows
// its configuration, and a quoted wait is exact. Nothing fails here, requests take
// nanoseconds, and clocks keep their errors.
func (p *play) quiet() {
	now := p.w.now()
	p.w.calm.Store(&now)
	r := p.w.dice.stream("quiet")
	alive := slices.DeleteFunc(slices.Clone(p.cast), func(c *client) bool { return c.standsStill() || c.reliable || c.aggregator || c.follows || c.strays })
	if len(alive) == 0 {
		return
	}
	slices.SortFunc(alive, func(a, b *client) int { return compare(a.name, b.name) })
	c := pick(r, alive...)
	time.Sleep(max(p.ttl, 0) + p.w.spread() + time.Second) // by a clock that may have just been set
	targets := []bucketID{
		{"key-a", "api", "0"}, {"key-b", "chat", "0"}, {"key-c", "api", "0"}, {"project", "chat", "0"}, {"solo", "api", "0"},
	}
	r.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	if p.w.odds.hot {
		targets[0] = p.spots[0].shard(0)
	}
	for _, id := range targets[:2] {
		p.live(c, id)
		p.exact(c, id, r)
		if p.w.odds.patient {
			p.admitsWaiter(c, id, p.configured(id.entity, id.resource))
		}
	}
}

// probe is an acquire that begins and ends within one millisecond of the client's clock.
func (p *play) probe(c *client, req limiter.Request) *call {
	const half = 500 * time.Microsecond
	phase := time.Duration(c.time().Nanosecond()) % time.Millisecond
	time.Sleep((half - phase + time.Millisecond) % time.Millisecond)
	p.probes++
	k := &call{name: fmt.Sprintf("%s/probe#%d", c.name, p.probes), kind: acquiring, client: c, req: req}
	ctx := k.begin(p.w)
	var err error
	k.lease, err = c.limiter.Acquire(ctx, req)
	k.finish(p.w, err)
	return k
}

// live is a promise about configuration: a bucket in use has it within the time to live. It
// leaves the buckets settled for the checks that follow.
func (p *play) live(c *client, id bucketID) {
	want := p.configured(id.entity, id.resource)
	if len(want) == 0 {
		return
	}
	req := limiter.Request{Entity: id.entity, Resource: id.resource, Consume: map[string]int64{}}
	for _, l := range want {
		req.Consume[l.Name] = 0 // so that the parent is in use too, if it has any of them
	}
	k := p.probe(c, req)
	time.Sleep(time.Second)
	for _, b := range append(id.whole().all(), bucketKey{cascading[id.entity], id.resource}.all()...) {
		s, used := p.w.stateFor(k, b)
		want := map[string]level{}
		for _, l := range p.configured(b.entity, b.resource) {
			want[l.Name] = levelOf(inModeOf(b.entity, l))
		}
		if s == nil || len(want) == 0 || !used {
			continue // not in use: a parent need not have the requested limit
		}
		for _, name := range names(s, &state{levels: want}) {
			if is := s.levels[name]; (!is.sameParams(want[name]) || !is.isAs(want[name])) && name != hidden {
				p.w.violate("P7", p.w.now(), &b, "%s: a time to live after the last change %s is %+v, configured is %+v", k.name, name, is, want[name])
			}
		}
	}
}

// exact is the promise about waits: a request is refused a millisecond before its wait
// ends, and admitted then. It has no wait only if it exceeds a limit's capacity.
func (p *play) exact(c *client, id bucketID, r *rand.Rand) {
	limits := p.configured(id.entity, id.resource)
	if len(limits) == 0 {
		return
	}
	req := limiter.Request{Entity: id.entity, Resource: id.resource, Consume: map[string]int64{}}
	for range 1 + r.IntN(2) {
		l := pick(r, limits...)
		req.Consume[l.Name] = 1 + r.Int64N(l.Capacity+l.Carries.Rollover)
		if chance(r, 0.05) {
			req.Consume[l.Name] += l.Capacity
		}
	}
	for range 6 {
		at := c.time().UnixMilli()
		k := p.probe(c, req)
		at = max(at, c.time().UnixMilli())
		if k.admitted() {
			continue
		}
		e := k.refusal()
		if e == nil {
			return // one of the buckets has no configured limit: an error, without a wait
		}
		p.hold(c, id, k, e, at)
		return
	}
}

// longest is the longest wait that is exact in any case: one that passes more than a thousand
// pieces of a timetable, of which two are an hour, is not.
const longest = 500 * time.Hour

// turnsLooked is how many turns of timetables a wait passes at least, after the longest of
// its limits', if the limits never have the request at the same time by then.
const turnsLooked = 32

// isTogether reports whether a refused request is held within the turns at which its wait
// looks, so that the wait is exact. Each limit may hold its part in turn, and all of them
// never:
//
//	key-a    rpm x0.3 in minutes 0 to 29
//	project  rpm has 2 in minutes 30 to 59
//
// A wait without an end at which the request is held must pass the turns.
func (p *play) isTogether(k *call, id bucketID, e *limiter.ExceededError, at int64) bool {
	first := at + longestOf(e).Milliseconds()
	last := first
	for range turnsLooked {
		next := int64(math.MaxInt64)
		for _, t := range p.w.timetables {
			next = min(next, t.next(last))
		}
		if next == math.MaxInt64 {
			return true
		}
		last = next
	}
	keys := []bucketKey{id.whole(), {cascading[id.entity], id.resource}}
	if p.w.earliest(keys, k.req, at, last) < last {
		return true
	}
	if end := at + e.RetryAfter().Milliseconds(); end < last {
		p.w.violate("P4", k.start, &id, "%s was told to wait until %d, and all of it is not there before %d", k.name, end, last)
	}
	return false
}

// hold checks one quoted wait. at is the client's clock when it was quoted.
func (p *play) hold(c *client, id bucketID, k *call, e *limiter.ExceededError, at int64) {
	wait := e.RetryAfter()
	never, differ, expires := false, false, int64(0)
	capacities := map[string]int64{}
	for _, b := range append(id.whole().all(), bucketKey{cascading[id.entity], id.resource}.all()...) {
		s, _ := p.w.stateFor(k, b)
		for name, tokens := range k.req.Consume {
			l, ok := s.level(name)
			key := b.whole().String() + name
			differ = differ || ok && (capacities[key] != 0 && capacities[key] != l.cp || l.topped != 0 && p.w.odds.granted)
			if ok {
				capacities[key] = l.cp
			}
			if ok && tokens*1000 > l.most() && !l.isSoft() {
				never = true
			}
		}
		if s != nil && s.ttl != 0 && (expires == 0 || s.ttl < expires) {
			expires = s.ttl
		}
	}
	if differ {
		return // nobody has used the shards since the configuration changed
	}
	if never != (wait == limiter.Never) {
		p.w.violate("P4", k.start, &id, "%s asks for%s and is told to wait %v", k.name, k.amounts(), wait)
	}
	if never || wait == limiter.Never {
		return
	}
	ms := wait.Milliseconds()
	if len(p.w.timetables) > 0 && wait > longest {
		return // it may end before the request is admitted, and its caller is told to wait again
	}
	if !p.isTogether(k, id, e, at) {
		return
	}
	if expires != 0 && at+ms >= expires*1000-1000 {
		return // the bucket will have expired, and be created again, full
	}
	until := func(ms int64) {
		time.Sleep(time.UnixMilli(ms).Sub(c.time()) + 1)
	}
	if ms > 1 {
		until(at + ms - 1)
		if p.reshaped(k, id.whole()) || p.reshaped(k, bucketKey{cascading[id.entity], id.resource}) {
			return // the quoted wait is of other shares, whose fractions differ
		}
		if p.skips(id.whole(), at+ms-1) || p.skips(bucketKey{cascading[id.entity], id.resource}, at+ms-1) {
			return // edits had moved the end of a piece back
		}
		before := p.probe(c, k.req)
		if e := before.refusal(); e == nil || e.RetryAfter() != time.Millisecond {
			p.w.violate("P4", before.start, &id, "%s was told to wait %v, and 1 ms earlier: %s", k.name, wait, before.outcome())
			return
		}
	}
	until(at + ms)
	if then := p.probe(c, k.req); !then.admitted() {
		p.w.violate("P4", then.start, &id, "%s was told to wait %v, and then: %s", k.name, wait, then.outcome())
	}
}

// skips reports whether a shard is a moment before an edge, and already counts as after it.
func (p *play) skips(key bucketKey, at int64) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return slices.ContainsFunc(key.all(), func(b bucketID) bool { return p.w.items[b].skipped(at) != 0 })
}

// reshaped reports whether shards were created, lost or renumbered since a call began, or
// since its client may have last seen them.
func (p *play) reshaped(k *call, key bucketKey) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	since := k.start - max(0, k.client.trust)
	return slices.ContainsFunc(p.w.log, func(r *write) bool {
		return r.at >= since && r.id.whole() == key && !r.failed && (r.before == nil || r.after == nil || r.before.count != r.after.count)
	})
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
