package sim_test

import (
	"slices"
	"time"
)

// legalCount: an item's number of shards is a power of two, which a doubling doubles and a
// merge halves. No two existing shards cover the same part of the bucket: shard i of n
// covers the numbers that are i modulo n. So at every instant the shares sum to at most the
// limit.
func (c *checker) legalCount(r *write, bad func(string, ...any)) {
	n := r.after.count
	if n < 1 || n > mostShards || n&(n-1) != 0 || r.id.number() >= n {
		bad("believes in %d shards", n)
		return
	}
	if a := r.before; a != nil && n != a.count && n != 2*a.count && (!r.merges() || 2*n != a.count) {
		bad("from %d shards to %d in one write", a.count, n)
	}
	for i := range mostShards {
		id := r.id.whole().shard(i)
		s := c.alive[id]
		if r.other != nil && id == r.other.id {
			s = r.other.after
		}
		if s == nil || id == r.id {
			continue
		}
		if m := min(n, s.count); r.id.number()%m == i%m {
			bad("one of %d shards, and so overlaps with %v, one of %d", n, id, s.count)
		}
	}
}

// legalBirth: a shard is born with a whole write allowance and nothing consumed. It holds
// what its sibling gives in the same transaction, with the sibling's stamp. Without a
// sibling it holds nothing.
func (c *checker) legalBirth(r *write, bad func(string, ...any)) {
	b := r.after
	sibling := r.id.whole().shard((r.id.number() + b.count/2) % b.count)
	for name, l := range b.levels {
		switch {
		case name == hidden:
			legalOpening(name, l, bad)
		case l.tc != 0 || r.other == r && l.tk < 0:
			bad("%s is born with %d, %d consumed", name, l.tk, l.tc)
		case r.other == r && l.tk != 0:
			bad("%s is born with %d of nobody's", name, l.tk)
		}
	}
	if b.count < 2 {
		bad("born as the only shard")
	}
	c.accruesFromBirth(r, bad)
	switch {
	case r.other != r && (r.other.id != sibling || r.other.after == nil):
		bad("born of %v, its sibling is %v", r.other.id, sibling)
	case r.other != r && r.other.after.rf != b.rf:
		bad("born with a stamp %d ms from its sibling's", b.rf-r.other.after.rf)
	case r.other == r && c.alive[sibling] != nil:
		bad("born empty beside its sibling %v", sibling)
	case r.other == r && r.id.shard != "0" && (c.alive[r.id.whole().shard(0)] == nil || c.alive[r.id.whole().shard(0)].count != b.count):
		bad("born empty among %d shards, shard 0 knows of %v", b.count, c.alive[r.id.whole().shard(0)])
	}
}

// legalGift: the shard that is born opens with what its sibling loses, except, per limit, a
// millitoken for which neither has room. A sibling that keeps its share accrues first.
// Without accruing, a moved stamp loses the tokens accrued since, so it moves only by the
// time of a few requests.
func (c *checker) legalGift(r *write, bad func(string, ...any)) {
	a, b, born := r.before, r.after, r.other.after
	if b.count != born.count {
		bad("knows of %d shards, the one born of it of %d", b.count, born.count)
	}
	passed := time.Duration(b.rf-a.rf) * time.Millisecond
	brief := passed <= c.spread()+storeTimeout
	if !brief && a.count != b.count {
		bad("what was accrued in %v is lost to a birth", passed)
	}
	for _, name := range names(a, born) {
		was, had := a.level(name)
		is, has := b.level(name)
		given, ok := born.level(name)
		switch {
		case !had || !has || !ok:
			bad("%s is not on both", name)
		case name == hidden:
			legalHidden(was, is, a.rf, b.rf, 1000, bad)
		case !was.sameParams(is) || !was.sameParams(given):
			bad("%s got other parameters by a birth", name)
		case was.tc != is.tc:
			bad("%s: a birth consumed %d", name, is.tc-was.tc)
		default:
			least, most := was.tk, was.tk
			part, _ := a.share(r.id, name)
			if a.count == b.count {
				most = part.balance(a.rf, b.rf)
				if !brief {
					least = most
				}
				if was.tk > part.cp { // a peer doubled it
					least, most = min(was.tk, part.cp+given.tk), was.tk
				}
			}
			if part.renewed(a.rf, b.rf) {
				if least = most; a.count != b.count {
					bad("%s: the period of what was given away ended at %d, and the new stamp is %d", name, was.renews.next(a.rf), b.rf)
				}
			}
			if a.count != b.count && was.tk > part.cp { // a client then doubled it too
				half, _ := b.share(r.id, name)
				least = half.cp + given.tk
			}
			if sum := is.tk + given.tk; sum > most || sum < min(least, most)-1 {
				bad("%s: %d at %d is %d at %d after %d were given away", name, was.tk, a.rf, is.tk, b.rf, given.tk)
			}
		}
	}
}

// isOverfull reports whether an item holds more than its share of any limit.
func (s *state) isOverfull(id bucketID) bool {
	return slices.ContainsFunc(names(s, nil), func(name string) bool {
		l, _ := s.share(id, name)
		return name != hidden && l.tk > l.cp
	})
}

// accruesFromBirth: a shard that replaces a lost one earns nothing for earlier times, when
// the lost one may have been drained.
func (c *checker) accruesFromBirth(r *write, bad func(string, ...any)) {
	earliest := c.trueMS(r.at) + int64(min(0, c.lo)/time.Millisecond) - 1 - worst.Milliseconds()
	doubled := r.other != r && (r.other.before.count != r.other.after.count || r.other.before.isOverfull(r.other.id))
	if !doubled && r.after.rf < earliest {
		bad("is to earn from %d ms before it is born", earliest-r.after.rf)
	}
}
