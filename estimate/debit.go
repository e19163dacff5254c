package estimate

import (
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// acquire carries out an acquire: the claim on the entity's bucket and on its parent's. If
// the process remembers the parent, both are sent at once.
func (s *simulation) acquire(p *process, it *item, amounts []int64, done func(granted bool)) {
	child := p.knows(it)
	if s.refusesFromMemory(p, child, amounts) {
		done(false)
		return
	}
	own := &claim{k: child, amounts: amounts, cause: causeAdmitted}
	if it.parent == nil {
		s.pursue(own, done)
		return
	}
	parent := &claim{k: p.knows(it.parent), amounts: amounts, cause: causeParents}
	if !s.isKnown(child, 0) {
		s.pursue(own, func(granted bool) { s.acquireParent(parent, granted, done) })
		return
	}
	left, granted := 2, [2]bool{}
	end := func(i int) func(bool) {
		return func(ok bool) {
			granted[i] = ok
			if left--; left > 0 {
				return
			}
			switch {
			case granted[0] == granted[1]:
				done(granted[0])
			case granted[0]:
				s.refund(own, done)
			default:
				s.refund(parent, done)
			}
		}
	}
	s.pursue(own, end(0))
	s.pursue(parent, end(1))
}

// acquireParent carries on with the parent of an entity that was not known to cascade.
func (s *simulation) acquireParent(parent *claim, granted bool, done func(bool)) {
	if !granted { // the refusal tells the longer wait
		s.inspect(parent.k, causeRefused, func() { done(false) })
		return
	}
	s.pursue(parent, func(ok bool) {
		if ok {
			done(true)
			return
		}
		// The child's side is returned.
		s.books.add(causeRefused, parent.k.item.units, 0)
		s.after(s.o.Latency, func() { done(false) })
	})
}

// refund returns what one side took.
func (s *simulation) refund(c *claim, done func(bool)) {
	back := make([]int64, len(c.amounts))
	for i, n := range c.amounts {
		back[i] = -n
	}
	s.adjust(&claim{k: c.k, amounts: back, shard: c.shard, cause: causeRefused, done: func(bool) { done(false) }})
}

// refusesFromMemory reports whether the last images show that a request would be refused.
func (s *simulation) refusesFromMemory(p *process, k *known, amounts []int64) bool {
	const trust = time.Second
	short := false
	for k != nil {
		if !s.isYoung(k) || len(k.views) != len(k.item.shards) {
			return false
		}
		for i := range k.views {
			if s.now-k.views[i].image.seen > trust {
				return false
			}
		}
		for j, n := range amounts {
			held := int64(0)
			for i := 0; n > 0 && i < len(k.views); i++ {
				held += max(0, s.balance(k, i, j))
			}
			short = short || held < n
		}
		if k.item.parent == nil {
			return short
		}
		k = p.knows(k.item.parent)
	}
	return short
}

// pursue carries a claim out on a bucket, and compares the bucket with its configuration
// when that is due.
func (s *simulation) pursue(c *claim, done func(bool)) {
	left, outcome := 1, false
	end := func() {
		if left--; left == 0 {
			done(outcome)
		}
	}
	if !s.isYoung(c.k) && c.k.views[0].image.seen != never {
		left++
		s.compare(c.k, end)
	}
	c.done = func(granted bool) {
		if outcome = granted; s.now-c.k.read >= s.o.ConfigTTL*3/4 {
			s.compare(c.k, nil)
		}
		end()
	}
	s.route(c)
}

// route chooses a shard for a claim: a random one that is not known to be short.
func (s *simulation) route(c *claim) {
	const mostTried = 2
	k := c.k
	if k.item.exists {
		k.grow(len(k.item.shards))
	}
	var open []int
	for i := range k.views {
		if len(k.views) == 1 || !s.isKnown(k, i) || s.fits(k, i, c.amounts) {
			open = append(open, i)
		}
	}
	if len(open) == 0 || c.tried > mostTried {
		s.gather(c)
		return
	}
	c.shard = open[s.dice.below(len(open))]
	s.enter(c)
}

// fits reports whether the image of a shard serves amounts by now.
func (s *simulation) fits(k *known, shard int, amounts []int64) bool {
	for j, n := range amounts {
		if n > 0 && s.balance(k, shard, j) < n {
			return false
		}
	}
	return true
}

// gather debits all shards of a bucket together, or refuses.
func (s *simulation) gather(c *claim) {
	k, it := c.k, c.k.item
	s.request(c.cause, 0, float64(len(it.shards)), func() {
		for i := range it.shards {
			s.see(k, i, s.accrue(it, i), s.now)
		}
		for j, n := range c.amounts {
			held := int64(0)
			for i := range it.shards {
				held += max(0, it.shards[i].tokens[j])
			}
			if n > held {
				c.done(false)
				return
			}
		}
		const transaction = 2 // units, for each that a write costs
		s.request(c.cause, transaction*it.units*float64(len(it.shards)), 0, func() {
			for i := range it.shards {
				sh := s.accrue(it, i)
				for j, n := range c.amounts {
					sh.tokens[j] -= n / int64(len(it.shards))
					sh.stored[j] = sh.tokens[j]
				}
				s.wrote(k, i, sh)
			}
			c.done(true)
		})
	})
}

// isShared reports whether a process has seen writes of others to a shard lately.
func (s *simulation) isShared(k *known, shard int) bool {
	const memory = time.Second
	return s.now-k.views[shard].othersAt <= memory
}

// placesFor is how many writes to a shard a process has under way.
func (s *simulation) placesFor(k *known, shard int) places {
	switch {
	case !s.isKnown(k, shard) || s.isShared(k, shard):
		return places{base: 1}
	case 2*s.writesLeft(k, shard) >= store.WritesPerSecond:
		return places{base: inFlight, more: inFlight}
	}
	return places{base: inFlight}
}

// inFlight is the limiter's default of writes under way to one item.
const inFlight = 2

// writesLeft is what an image of a shard has left of the hidden write limit by now.
func (s *simulation) writesLeft(k *known, shard int) int64 {
	img := &k.views[shard].image
	return min(store.WritesPerSecond, img.writes+max(0, s.millis(s.now)-img.planned))
}

// enter lets a claim queue for its shard.
func (s *simulation) enter(c *claim) {
	q := c.k.views[c.shard].takes
	leads, next := q.enter(c, s.placesFor(c.k, c.shard))
	if leads {
		s.lead(c)
	}
	if next != nil {
		s.lead(next)
	}
}

// lead writes for a claim and those behind it. It begins after all that happens at this
// instant: callers that have just been served come back first.
func (s *simulation) lead(c *claim) {
	s.after(0, func() {
		s.after(s.pauseOf(c), func() {
			k := c.k
			if !s.isKnown(k, c.shard) {
				s.look(c)
				return
			}
			s.serve(k, c.shard, k.views[c.shard].takes.along(c), false, 0)
		})
	})
}

// leave gives the place of a write to the next claim.
func (s *simulation) leave(k *known, shard int) {
	if next := k.views[shard].takes.leave(s.placesFor(k, shard)); next != nil {
		s.lead(next)
	}
}

// look reads a bucket that a process does not know, with its configuration, and makes it if
// it does not exist.
func (s *simulation) look(c *claim) {
	const one = 0.5 // read units of an item
	k, it := c.k, c.k.item
	reads, configured := one, func() {}
	if !s.isYoung(k) {
		var levels float64
		levels, configured = s.readLevels(k, s.o.ConfigTTL, one)
		reads += levels
	}
	sent, cause := s.now, causeNew
	if it.exists {
		cause = causeConfig // it is new to this process only, or was forgotten
	}
	s.request(cause, 0, reads, func() {
		configured()
		if it.exists {
			k.grow(len(it.shards))
			s.see(k, c.shard, s.accrue(it, c.shard), sent)
			s.serve(k, c.shard, k.views[c.shard].takes.along(c), false, 0)
			return
		}
		reads, configured := s.readLevels(k, 0, 2*one) // and the search for shards
		s.request(causeNew, 0, reads+one, func() {
			configured()
			s.create(c)
		})
	})
}

// create makes a bucket with a claim debited.
func (s *simulation) create(c *claim) {
	const indexes = 3 // entries of an item in indexes
	k, it, sent := c.k, c.k.item, s.now
	s.books.add(causeNew, indexes, 0)
	s.books.less(causeNew) // one request has both
	s.request(c.cause, it.units, 0, func() {
		if !it.exists {
			s.born(it)
		}
		sh := s.accrue(it, 0)
		sh.take(c.amounts)
		s.wrote(k, 0, sh)
		s.see(k, 0, sh, sent)
		c.done(true)
		s.leave(k, c.shard)
	})
}

// serve decides a crowd on the image of a shard. fresh says that the image has just come.
func (s *simulation) serve(k *known, shard int, crowd []*claim, fresh bool, tries int) {
	if fresh {
		crowd = s.refuseShort(k, shard, crowd)
	}
	if len(crowd) == 0 {
		s.leave(k, shard)
		return
	}
	if fresh && s.writesLeft(k, shard) < 1 {
		s.waitForWrites(k, shard, crowd, tries)
		return
	}
	admitted := s.admit(k, shard, crowd)
	if len(admitted) == 0 {
		admitted = crowd // the image may be behind: the write finds out
		if s.isShared(k, shard) {
			admitted = crowd[:1]
		}
	}
	s.write(k, shard, admitted, without(crowd, admitted), fresh, tries)
}

// refuseShort refuses those that a fresh image cannot serve, and returns the others.
func (s *simulation) refuseShort(k *known, shard int, crowd []*claim) (rest []*claim) {
	for _, c := range crowd {
		switch {
		case s.fits(k, shard, c.amounts):
			rest = append(rest, c)
		case len(k.item.shards) > 1:
			c.tried++
			s.route(c)
		default:
			c.done(false)
		}
	}
	return rest
}

// admit returns those of a crowd that the image serves together, in their order. A process
// leaves a part of what a shared item holds to the others.
func (s *simulation) admit(k *known, shard int, crowd []*claim) (admitted []*claim) {
	sums := make([]int64, len(k.item.limits))
	part := int64(1)
	if s.isShared(k, shard) {
		part = k.partOf(shard)
	}
next:
	for _, c := range crowd {
		for j, n := range c.amounts {
			if n > 0 && sums[j]+n > s.balance(k, shard, j) {
				continue next
			}
			if n > 0 && len(admitted) > 0 && sums[j]+n > s.balance(k, shard, j)/part {
				return admitted
			}
		}
		for j, n := range c.amounts {
			sums[j] += n
		}
		admitted = append(admitted, c)
	}
	return admitted
}

func without(crowd, others []*claim) (rest []*claim) {
	if len(crowd) == len(others) {
		return nil
	}
	out := map[*claim]bool{}
	for _, c := range others {
		out[c] = true
	}
	for _, c := range crowd {
		if !out[c] {
			rest = append(rest, c)
		}
	}
	return rest
}

// write sends one write for the admitted claims. It takes effect after half of the latency.
// fresh says that it is planned on an image that has just come.
func (s *simulation) write(k *known, shard int, admitted, rest []*claim, fresh bool, tries int) {
	it, sent, cause := k.item, s.now, admitted[0].cause
	sums := make([]int64, len(it.limits))
	for _, c := range admitted {
		for j, n := range c.amounts {
			sums[j] += n
		}
	}
	depends := s.dependenceOf(k, shard, sums, fresh)
	k.views[shard].sent = s.now
	s.after(s.o.Latency/2, func() {
		sh := s.accrue(it, shard)
		sh.earn(s.millis(sent))
		applied, lacks := true, false
		for j, n := range sums {
			lacks = lacks || n > 0 && sh.tokens[j] < n
		}
		switch {
		case lacks:
			applied, cause = false, causeRefused
		case sh.writes < 1:
			applied, cause = false, causeContention
		case depends.isRefused(s, k, sh):
			applied, cause = false, causeContention
		}
		s.books.add(cause, it.units, 0)
		if applied {
			sh.take(sums)
			depends.applied(s, k, sh)
			s.wrote(k, shard, sh)
		}
		after := sh.copied()
		s.after(s.o.Latency-s.o.Latency/2, func() {
			s.see(k, shard, after, sent)
			s.hear(k, shard, applied)
			if !applied {
				s.repeat(k, shard, append(admitted, rest...), lacks, tries+1)
				return
			}
			for _, c := range admitted {
				c.done(true)
			}
			s.serve(k, shard, rest, true, 0)
		})
	})
}

// wrote notes a write that was applied to a shard.
func (s *simulation) wrote(k *known, i int, sh *shard) {
	k.views[i].own++
	sh.count++
	s.stream.record(k.item, i)
}

// adjust settles amounts on a shard, together with what other callers settle.
func (s *simulation) adjust(c *claim) {
	p := places{base: inFlight}
	q := c.k.views[c.shard].credits
	if leads, _ := q.enter(c, p); leads {
		s.credit(c)
	}
}

func (s *simulation) credit(first *claim) {
	k, sent := first.k, s.now
	q := k.views[first.shard].credits
	crowd := q.along(first)
	s.books.add(first.cause, k.item.units, 0)
	s.after(s.o.Latency/2, func() {
		sh := s.accrue(k.item, first.shard)
		sh.earn(s.millis(sent))
		sums := make([]int64, len(sh.tokens))
		for _, c := range crowd {
			for j, n := range c.amounts {
				sums[j] += n
			}
		}
		sh.take(sums)
		for j, l := range k.item.limits {
			if l.Capacity > 0 {
				sh.tokens[j] = min(sh.tokens[j], l.Share(first.shard, len(k.item.shards)).Capacity)
			}
		}
		s.wrote(k, first.shard, sh)
		after := sh.copied()
		s.after(s.o.Latency-s.o.Latency/2, func() {
			s.see(k, first.shard, after, sent)
			for _, c := range crowd {
				c.done(true)
			}
			if next := q.leave(places{base: inFlight}); next != nil {
				s.after(0, func() { s.credit(next) })
			}
		})
	})
}
