package sim_test

import (
	"slices"
	"time"
)

// renewed reports whether a limit is a quota that begins a period after an instant and up to
// another.
func (l level) renewed(rf, now int64) bool {
	return l.renews != nil && now > rf && l.renews.next(rf) <= now
}

// end is when the period ends that a balance with a stamp is of; 0 if the limit is no quota.
func (l level) end(rf int64) int64 {
	if l.renews == nil {
		return 0
	}
	return l.renews.next(rf)
}

// legalPeriods: no take crosses an edge, because an item with quotas or timetables says until
// when its parameters are valid: until the first of their periods or pieces ends. Each edit
// of a timetable moves that back by a millisecond, until then.
func legalPeriods(r *write, bad func(string, ...any)) {
	const edits = 100
	var first int64
	for _, l := range r.after.levels {
		end := l.end(r.after.rf)
		if l.varies != nil {
			end = l.varies.next(r.after.rf)
		}
		if end != 0 && (first == 0 || end < first) {
			first = end
		}
	}
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
	if a := r.before; a != nil && a.rf == r.after.rf && r.debits() && r.call.onlyTakes() && a.vu != 0 && a.vu <= r.client.earliestMS(r) {
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

// A period is a period of a quota.
type period struct {
	of  *recurrence
	end int64
}

// taken is what was taken of a quota in a period.
type taken struct {
	net, amount int64
	given       int64 // by operators
	leaps       int64
	acts        map[int]bool
	// back is how often each shard came back to the quota, from a rate or another calendar.
	back map[int]int64
}

// onePeriod is promise P11, over all shards of a bucket: in a period, as the stamps say, a quota
// gives its amount and what comes back, whatever clocks say, and whoever races and retries.
//
//	admitted − returned ≤ amount + top-ups + what resets gave
//
// What is taken while the quota is soft counts on both sides, since it may come back. If an
// operator changes the amount, the largest one counts. A limit that was a rate in the
// meantime, or renewed by another calendar, has earned by that. So it gives the amount once
// more for each time that it became this quota again. As with rates, so does an act of an
// operator that adds the limit, or deletes the bucket. A clock far ahead begins a period
// early. When that is found out, the next tokens come with the edge. So the period gives the
// amount once more.
func (c *checker) onePeriod(id bucketID, name string, flows []flow) {
	sums, had := map[period]*taken{}, map[period]map[int]bool{}
	for _, f := range flows {
		if f.is.renews == nil {
			continue
		}
		p := period{f.is.renews, f.end}
		sum := sums[p]
		if sum == nil {
			sum = &taken{acts: map[int]bool{}, back: map[int]int64{}}
			sums[p], had[p] = sum, map[int]bool{}
		}
		sum.amount = max(sum.amount, f.is.cp)
		switch {
		case f.was.renews == f.is.renews:
			sum.amount = max(sum.amount, f.was.cp)
		case had[p][f.shard]:
			sum.back[f.shard]++
		}
		if f.was.renews != f.is.renews {
			sum.given += f.is.topped // under the other calendar
		}
		had[p][f.shard] = true
		if f.leaps && f.ended != f.end {
			sum.leaps++
		}
		if f.granted != 0 {
			sum.acts[f.granted] = true
		}
		sum.given += f.given
		if sum.net += f.admitted - f.returned; sum.net > sum.allowed() {
			c.violate("P11", time.Duration(f.at), &id, "%s admitted %d in the period until %d, allowed is %d", name, sum.net, f.end, sum.allowed())
			return
		}
	}
}

// allowed is what a quota may give in a period.
func (t *taken) allowed() int64 {
	times := 1 + t.leaps + int64(len(t.acts))
	var back int64
	for _, n := range t.back {
		back = max(back, n)
	}
	return t.amount*(times+back) + t.given
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
