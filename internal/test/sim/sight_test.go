package sim_test

import (
	"context"
	"slices"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A sighting is a bucket item as a client saw it.
type sighting struct {
	at    time.Duration // when the item was in this state
	shown time.Duration // when the client received it
	state *state        // nil if there was no item
	// worked: the client only learned that its transaction was applied, and computes the
	// resulting item itself.
	worked bool
	asked  bool  // only for the balance: the client remembers no image of that
	read   *call // that read it; nil if a write showed it
}

// mayBeForgotten reports whether the client may remember no image of it: the call that read it had ended.
func (s *sighting) mayBeForgotten() bool {
	return s.read != nil && s.read.end != 0 && s.read.end <= s.shown
}

// see records what an answer to a call shows to a client.
func (c *client) see(w *world, from *call, writes []*write, read map[bucketID]sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range writes {
		c.seen[r.id] = append(c.seen[r.id], sighting{at: r.at, shown: w.now(), state: r.after, worked: r.joint})
	}
	for id, s := range read {
		s.shown, s.asked, s.read = w.now(), from.kind == asking, from
		c.seen[id] = append(c.seen[id], s)
	}
}

// look lets the engine carry out a read and records what it finds.
func (w *world) look(ctx context.Context, ids []bucketID, do func(context.Context) error) (map[bucketID]sighting, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := do(ctx); err != nil {
		return nil, err
	}
	return w.sightLocked(ids), nil
}

// sight returns the current state of some items.
func (w *world) sight(ids []bucketID) map[bucketID]sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sightLocked(ids)
}

func (w *world) sightLocked(ids []bucketID) map[bucketID]sighting {
	if len(ids) == 0 {
		return nil
	}
	seen := make(map[bucketID]sighting, len(ids))
	for _, id := range ids {
		seen[id] = sighting{at: w.now(), state: w.items[id]}
	}
	return seen
}

// hasSeen reports whether a client had seen a limit on an item, in its present life, when it
// sent a write.
func (c *client) hasSeen(r *write, name string) bool {
	is, _ := r.before.level(name)
	return slices.ContainsFunc(c.seen[r.id], func(s sighting) bool {
		l, has := s.state.level(name)
		return s.shown <= r.sent && has && l.life == is.life
	})
}

// settlesEnded reports whether a write settles, and a session of a limit was under way when its client last saw the
// item. The client does not know that somebody has ended it, and settles a balance that the next session replaces.
func (w *write) settlesEnded(name string) bool {
	if w.call == nil || w.call.kind.takes() {
		return false
	}
	for _, s := range slices.Backward(w.client.seen[w.id]) {
		if s.shown <= w.sent {
			l, has := s.state.level(name)
			return has && l.opened != noSession
		}
	}
	return false
}

// A stock is the set of possible states of one shard of a limit.
type stock []held

// held is a stored balance.
type held struct {
	level
	rf    int64
	shard int
}

// most and least are the extremes of what a set of shards can give at an instant. A shard's
// debt does not reduce what the others can give.
func most(shards []stock, now int64) int64  { return extreme(shards, now, slices.Max[[]int64]) }
func least(shards []stock, now int64) int64 { return extreme(shards, now, slices.Min[[]int64]) }

func extreme(shards []stock, now int64, choose func([]int64) int64) (sum int64) {
	var balances []int64
	for _, s := range shards {
		balances = balances[:0]
		for _, h := range s {
			balances = append(balances, h.balance(h.rf, now))
		}
		sum += max(0, choose(balances))
	}
	return sum
}

// reaches is the first millisecond, from an instant on, at which shards hold what is needed,
// by one of the extremes; false if that is more than a year away, or many pieces. What they
// held before says nothing: they may have lost it since, when the period of a top-up ended.
func reaches(shards []stock, have func([]stock, int64) int64, from, need int64) (int64, bool) {
	const year, pieces = int64(365 * 24 * time.Hour / time.Millisecond), 60
	lo, end := from, from+year
	for range pieces {
		hi := end
		if at, turns := turn(shards, lo); turns {
			hi = min(at-1, end)
		}
		if have(shards, hi) >= need {
			for lo < hi {
				if mid := lo + (hi-lo)/2; have(shards, mid) >= need {
					hi = mid
				} else {
					lo = mid + 1
				}
			}
			return lo, true
		}
		if lo = hi + 1; hi == end {
			return 0, false
		}
	}
	return 0, false
}

// turn is the next instant at which shards may lose what they hold: a timetable's, or the end
// of a period for which a quota was topped up.
func turn(shards []stock, at int64) (first int64, turns bool) {
	for _, s := range shards {
		for _, h := range s {
			var next int64
			switch {
			case h.varies != nil:
				next = h.varies.next(max(at, h.rf))
			case h.topped != 0 && h.end(h.rf) > at:
				next = h.end(h.rf)
			default:
				continue
			}
			if !turns || next < first {
				first, turns = next, true
			}
		}
	}
	return first, turns
}

// spanOf is from when to when shards may have what is needed, after an instant between two.
// The larger amount counts for the end. It is not known if they turn between the two, other
// than that they have it then.
func spanOf(shards []stock, from, to, need, more int64) (first, last int64, comes bool) {
	first, _ = reaches(shards, most, from, need)
	last, comes = reaches(shards, least, from, more)
	if at, turns := turn(shards, from); turns && at <= to {
		again, ok := reaches(shards, least, to, more)
		last, comes = max(last, again), comes && ok
	}
	return first, last, comes
}

// shown returns the n shards of a bucket as a client saw them within its trust, which no clock
// bends: every image of each. A client remembers one of them. False if there is a shard that it has not seen
// for so long.
func (c *checker) shown(k *call, key bucketKey, name string, n int) ([]stock, bool) {
	shards := make([]stock, n)
	for i := range shards {
		id := key.shard(i)
		for _, s := range k.client.seen[id] {
			if s.shown > k.start || k.start-s.shown > k.client.trust || s.state == nil || s.state.count != n {
				continue
			}
			l, ok := s.state.share(id, name)
			if !ok {
				continue
			}
			shards[i] = append(shards[i], held{l, s.state.rf, i})
			shards[i] = append(shards[i], c.asHealed(l, s.state.rf, i, s.at, k.start)...)
			if s.worked {
				// The client's estimate does not include writes that were applied in
				// between.
				taken, credited := c.moved(id, name, s.at-k.client.trust-storeTimeout, s.at)
				less, more := l, l
				less.tk, more.tk = l.tk-credited, l.tk+taken
				shards[i] = append(shards[i], held{less, s.state.rf, i}, held{more, s.state.rf, i})
			}
		}
		if len(shards[i]) == 0 {
			return nil, false
		}
	}
	return shards, true
}

// local reports whether a call was answered without a request to the store: any request
// takes time.
func (c *call) local() bool { return c.answered && c.end == c.start }

// refusedFromMemory: a refusal without a round trip rests on images of every shard. Its
// client saw them no longer ago than it may trust, and their earnings until now do not
// suffice. The wait follows from the same images.
func (c *checker) refusedFromMemory(k *call) {
	if k.client.trust < 0 {
		c.violate("P4", k.end, nil, "%s, without asking", k)
		return
	}
	if !slices.ContainsFunc(k.parts(), func(part *call) bool { return c.remembered(part, k.refusal()) }) {
		id := bucketKey{k.req.Entity, k.req.Resource}.shard(0)
		c.violate("P5", k.end, &id, "%s, without asking, and nothing it had seen within %v is a reason", k, k.client.trust)
	}
}

// remembered checks the waits of a refusal from memory for one resource, and reports whether what
// its client had seen is a reason.
func (c *checker) remembered(k *call, e *limiter.ExceededError) (reason bool) {
	now := c.clientMS(k.client, k.start)
	for _, key := range k.buckets() {
		for name, tokens := range k.req.Consume {
			if tokens == 0 || c.onlyCounts(k, key, name, k.start) {
				continue
			}
			known := false
			var first, last int64
			for n := 1; n <= mostShards; n *= 2 {
				shards, ok := c.shown(k, key, name, n)
				if !ok {
					continue
				}
				reason = reason || least(shards, now) < tokens*1000
				from, to, comes := spanOf(shards, now, now, tokens*1000, tokens*1000)
				if !comes {
					to = 1 << 62
				}
				if !known {
					first, last = from, to
				}
				known, first, last = true, min(first, from), max(last, to)
			}
			for _, st := range e.Statuses {
				ms := st.RetryAfter.Milliseconds()
				if !known || (bucketKey{st.Entity, st.Resource}) != key || st.Limit.Name != name || !st.Exceeded || tokens > st.Limit.Capacity {
					continue
				}
				if at := now + ms; at < first || at > last {
					id := key.shard(0)
					c.violate("P4", k.end, &id, "%s: %s from memory at %d: the wait is %d ms, by what was seen it ends between %d and %d", k, name, now, ms, first, last)
				}
			}
		}
	}
	return reason
}

// clientMS is a client's clock at an instant, in milliseconds.
func (c *checker) clientMS(of *client, at time.Duration) int64 {
	if of.keeps {
		return c.trueMS(at + of.readings.at(at))
	}
	return c.trueMS(at + of.offset(c.clockAt(at)))
}
