package sim_test

import (
	"slices"
	"time"
)

// renewed reports whether a limit is a quota that begins a period after an instant and up to
// another.
func (l level) renewed(rf, now int64) bool {
	return l.renews != nil && (now > rf || l.opened != 0) && l.end(rf) <= now
}

// end is when the period ends that a balance with a stamp is of; 0 if the limit is no quota.
func (l level) end(rf int64) int64 {
	switch {
	case l.renews == nil:
		return 0
	case l.renews.session != 0:
		return l.opened + l.renews.session
	}
	return l.renews.next(rf)
}

// edits is how often timetables may be edited between two changes, in milliseconds by which that
// moves back until when parameters are valid.
const edits = 100

// edge is when the first period or piece of an item's limits ends after an instant; 0 if they have
// none.
func (s *state) edge(at int64) (first int64) {
	for _, l := range s.levels {
		end := l.end(at)
		if change := l.until(at); l.varies != nil && (end == 0 || change < end) {
			end = change
		}
		if end != 0 && (first == 0 || end < first) {
			first = end
		}
	}
	return first
}

// skipped is the edge that a write to an item may be of a moment before it. Edits have moved back
// until when the parameters are valid, and that has passed.
func (s *state) skipped(at int64) int64 {
	if s == nil || s.vu == 0 || s.vu > at || s.edge(at)-s.vu >= edits {
		return 0
	}
	return s.edge(at)
}

// legalPeriods: no take crosses an edge, because an item with quotas or timetables says until
// when its parameters are valid: until the first of their periods or pieces ends. Each edit
// of a timetable moves that back by a millisecond, until then. While a session rests, that has
// passed at the stamp, and each write is a refill.
func legalPeriods(r *write, bad func(string, ...any)) {
	first := r.after.edge(r.after.rf)
	least, seen := first, r.before
	if seen == nil && r.other != nil {
		seen = r.other.before
	}
	if r.after.varies() || seen.varies() {
		least = first - edits
		if seen != nil && seen.vu > r.after.rf {
			least = min(least, seen.vu-1)
		}
	}
	changed := r.before == nil || r.before.rf != r.after.rf || r.before.vu != r.after.vu
	if first != 0 && changed && (r.after.vu < least || r.after.vu > first) {
		bad("valid until %d, and its first period or piece ends at %d", r.after.vu, first)
	}
	if a := r.before; a != nil && a.rf == r.after.rf && a.vu == r.after.vu && r.debits() && r.call.onlyTakes() && !r.countedOnly() && a.vu > a.rf && a.vu <= r.client.earliestMS(r) {
		bad("a take at %d, when the parameters were valid until %d", r.client.earliestMS(r), a.vu)
	}
}

// varies reports whether an item has a limit with a timetable.
func (s *state) varies() bool {
	return slices.ContainsFunc(names(s, nil), func(name string) bool { return s.levels[name].varies != nil })
}

// debits reports whether a write of a call takes anything of a limit.
func (w *write) debits() bool {
	return w.call != nil && slices.ContainsFunc(names(w.after, nil), func(name string) bool {
		was, _ := w.before.level(name)
		return name != hidden && w.after.levels[name].tc > was.tc
	})
}

// earliestMS is the earliest reading of a client's clock on which a write can rest.
func (c *client) earliestMS(r *write) int64 {
	from := max(0, r.sent-storeTimeout)
	if c.keeps {
		least, _ := c.readings.within(from, r.sent)
		return c.w.trueMS(from + least)
	}
	return c.w.trueMS(from + min(c.offset(c.w.clockAt(from)), c.offset(c.w.clockAt(r.sent))))
}

// hardRates returns the flows of a limit in the times when no write finds or leaves it as a
// quota, or soft.
func hardRates(flows []flow) (all [][]flow) {
	for len(flows) > 0 {
		n := slices.IndexFunc(flows, func(f flow) bool {
			return f.was.renews != nil || f.is.renews != nil || f.was.isSoft() || f.is.isSoft()
		})
		switch {
		case n < 0:
			return append(all, flows)
		case n > 0:
			all = append(all, flows[:n])
		}
		flows = flows[n+1:]
	}
	return all
}

// wentBack reports whether an item went back to an earlier period since an instant, and a
// write comes in that one.
func (c *checker) wentBack(r *write, since time.Duration) bool {
	return slices.ContainsFunc(c.during(r.id.whole(), since, r.at), func(w *write) bool {
		return w.id == r.id && w.heals()
	})
}

// ofItsPeriod is promise P10 of quotas: what a call returns reaches a balance of the period in
// which the call took it, or none. If the stamp was far ahead, and the call's own process moved
// it back with the answer, the process takes the earlier period for that of the call. The item
// came back to that one empty, and what reaches it was taken of what the fast clock has gained.
func (c *checker) ofItsPeriod(k *call) {
	writes := slices.Clone(c.byCall[k])
	for _, s := range c.settled[k] {
		writes = append(writes, c.byCall[s]...)
	}
	took := map[partKey][]int64{}
	for _, returns := range []bool{false, true} {
		for _, r := range writes {
			if r.failed || r.before == nil && returns || r.after == nil || r.other != nil {
				continue
			}
			for name, is := range r.after.levels {
				was, had := r.before.share(r.id, name)
				part, _ := r.after.share(r.id, name)
				key, debit := partKey{r.id.whole(), name}, is.tc-was.tc
				switch {
				case is.renews == nil:
				case debit > 0 && !returns:
					took[key] = append(took[key], is.end(r.after.rf))
				case debit < 0 && returns && had && part.tk > was.carried(r.before.rf, r.after.rf, part) && !slices.Contains(took[key], is.end(r.after.rf)) && !c.wentBack(r, k.start):
					c.violate("P10", r.at, &r.id, "%s: %s was taken in periods until %v, and comes back in the one until %d", k, name, took[key], is.end(r.after.rf))
				}
			}
		}
	}
}
