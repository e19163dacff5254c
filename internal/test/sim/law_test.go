package sim_test

import (
	"maps"
	"math/bits"
	"time"
)

// earned is what a limit earns between two instants, in each piece of its timetable. A quota earns
// whatever it lacks, if its period ends in between.
func (l level) earned(a, b int64) (sum int64) {
	const plenty = 1 << 60
	if l.renewed(a, b) {
		return plenty
	}
	if l.inStep && b > a {
		return max(0, l.in(b).full-l.in(a).full)
	}
	for at := a; at < b; at = l.until(at) {
		sum += l.in(at).accrued(at, min(b, l.until(at)))
	}
	return sum
}

// accrued is what the parameters of a limit earn on the absolute grid: ⌊b·ra/rp⌋ − ⌊a·ra/rp⌋.
// Instants are in this century.
func (l level) accrued(a, b int64) int64 {
	if b <= a || l.rp <= 0 || l.ra <= 0 {
		return 0
	}
	line := func(t int64) uint64 {
		hi, lo := bits.Mul64(uint64(t), uint64(l.ra))
		q, _ := bits.Div64(hi, lo, uint64(l.rp))
		return q
	}
	return int64(line(b) - line(a))
}

// balance is what a limit holds at an instant: where a piece begins, it is cut to its capacity.
func (l level) balance(rf, now int64) int64 {
	if l.renewed(rf, now) {
		return l.turned(rf, now)
	}
	if l.renews != nil && l.varies != nil {
		return l.followed(rf, now)
	}
	p := l.in(rf)
	tk := min(p.cp, l.tk+p.accrued(rf, min(now, l.until(rf))))
	for at := l.until(rf); at <= now; at = l.until(at) {
		p = l.in(at)
		tk = min(p.cp, tk+p.accrued(at, min(now, l.until(at))))
	}
	return tk
}

// followed is what a quota with a timetable holds at a later instant of its period. Its balance follows the
// changes of the amount: with what was consumed, it is the amount in force.
//
//	holds 7 of 10, which become 5    2 of 5
//	holds 2 of 5, which become 10    7 of 10
//
// If it is out of step, somebody may have cut it, and it is only cut.
func (l level) followed(rf, now int64) int64 {
	was, is := l.in(rf), l.in(max(rf, now))
	tk := min(l.tk, was.cp)
	if l.inStep {
		tk += is.full - was.full
	}
	return min(tk, is.cp)
}

// least is what a take under a stamp may leave at a later instant: more has been earned by then. Of a quota with
// a timetable it is what there was at the stamp: a take decides by that, until a change.
func (l level) least(stamp, latest int64) int64 {
	if l.renews != nil && l.varies != nil {
		latest = stamp
	}
	return l.balance(stamp, latest)
}

// carried is what a limit holds at an instant under other parameters. What was consumed of a quota
// in its period is consumed of the quota that replaces it. A debt that a mode forgives stays forgiven.
func (l level) carried(rf, now int64, next level) int64 {
	return l.forgiven(l.brought(rf, now, next), next, now)
}

// brought is carried with the debt that a mode would forgive.
func (l level) brought(rf, now int64, next level) int64 {
	held := l.balance(rf, now)
	if l.renews != nil && next.renews != nil {
		more := next.in(now).full - l.in(now).full
		if l.varies != nil && !l.inStep && !l.renewed(rf, now) {
			more = min(more, 0) // what was cut would come back
		}
		held += more
	}
	return min(held, next.in(now).cp)
}

// trueMS is an instant of the run in milliseconds since the epoch.
func (w *world) trueMS(at time.Duration) int64 { return w.start.Add(at).UnixMilli() }

func ceilMS(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// latestMS is the latest time that a clock can have shown when a write was applied.
func (c *checker) latestMS(r *write) int64 {
	if r.client.strays {
		return c.clientMS(r.client, r.at)
	}
	return c.trueMS(r.at) + ceilMS(max(0, c.hi))
}

// legal: an applied write is a legal step of a token bucket.
func (c *checker) legal(r *write) {
	bad := func(format string, args ...any) { c.violate("bucket", r.at, &r.id, format, args...) }
	a, b := r.before, r.after
	switch {
	case r.op == patches:
		return
	case b == nil:
		if r.client != nil && r.client.name != "admin" && !r.client.operates && !r.retires() {
			bad("a client deleted the item")
		}
		return
	}
	if len(b.half) > 0 {
		bad("half-written: %v is missing or no number", b.half)
		return
	}
	stamped := a
	if a == nil && r.other != nil {
		stamped = r.other.before // a shard is born with its sibling's stamp
	}
	if r.merges() && r.other.before.rf > a.rf {
		stamped = r.other.before
	}
	latest := c.latestMS(r)
	counted := r.countedOnly()
	if b.rf > latest && (stamped == nil || b.rf > stamped.rf+1) && b.rf != stamped.skipped(latest) {
		bad("stamped %d ms ahead of the fastest clock", b.rf-latest)
	}
	for _, name := range names(a, b) {
		if now, ok := b.share(r.id, name); ok && now.tk > now.cp && !r.leavesOverfull(name) {
			bad("%s holds %d of %d", name, now.tk, now.cp)
		}
	}
	c.legalCount(r, bad)
	c.legalStamps(r, bad)
	c.legalModes(r, bad)
	if c.legalMarks(r, bad); r.call != nil && r.call.marks {
		return
	}
	legalPeriods(r, bad)
	switch {
	case a == nil && r.other != nil:
		c.legalBirth(r, bad)
		return
	case a == nil:
		c.legalNew(r, bad)
		return
	case r.other != nil && r.other.before == nil:
		c.legalGift(r, bad)
		return
	case r.merges():
		c.legalMerge(r, bad)
		return
	case r.isGrant():
		c.legalGrant(r, bad)
		return
	}
	if a.count != b.count && r.client != nil && r.client.aggregator {
		if b.rf != a.rf || !maps.Equal(a.levels, b.levels) {
			bad("was changed besides its number of shards")
		}
		return
	}
	if b.rf < a.rf {
		c.legalHeal(r, bad)
		return
	}
	for _, name := range names(a, b) {
		was, had := a.share(r.id, name)
		is, has := b.share(r.id, name)
		switch {
		case !has: // removed completely
		case !had && is.mode != "" && !counted:
			is.tc -= was.tc
			legalOpeningInMode(name, is, bad)
		case !had:
			if is.tc -= was.tc; counted { // it may have been there before
				is.tc = is.cp - is.tk
			}
			legalOpening(name, is, bad)
		case counted && name != hidden && is.tc != was.tc && c.movesNothing(r, was, is):
			// It is of no balance.
		case name != hidden && is.tc > was.tc && c.knewBypass(r):
			bad("%s was debited %d, and the client had seen the bypass until %d", name, is.tc-was.tc, a.bypass)
		case name == hidden:
			cost := int64(1000)
			if r.client.aggregator {
				cost = 0
			}
			legalHidden(was, is, a.rf, b.rf, cost, bad)
		case a.rf != b.rf && is.tk == was.tk && is.tc == was.tc && is.sameParams(was) && !r.client.hasSeen(r, name):
			// A refill of a bucket that was full knows nothing of a limit that was added meanwhile.
		case c.concernsMode(r, name, was, is):
			c.legalInMode(r, name, was, is, bad)
		case a.rf == b.rf && was.opened == is.opened && (was.opened != noSession || was.tk == is.tk || r.settlesEnded(name)):
			legalMove(name, was, is, b.rf, latest, r.enforces(is), bad)
		default:
			legalRefill(name, was, is, a.rf, b.rf, r.enforces(is), bad)
		}
	}
}

// leavesOverfull reports whether an item holds more than its share of a limit because a
// peer raised its number of shards without creating the other shard.
func (w *write) leavesOverfull(name string) bool {
	was, had := w.before.share(w.id, name)
	is, _ := w.after.share(w.id, name)
	doubles := had && w.client != nil && w.client.aggregator && w.after.count == 2*w.before.count
	return had && name != hidden && is.tk <= was.tk && (was.tk > was.cp || doubles)
}

// legalNew: a new item is full except for its first debit, with a stamp from a clock.
func (c *checker) legalNew(r *write, bad func(string, ...any)) {
	for name := range r.after.levels {
		l, _ := r.after.level(name)
		if l = l.of(0, 1).in(r.after.rf); r.after.bypass != 0 && name != hidden {
			l.tc = 0 // it only counts
		}
		if l.mode != "" {
			legalOpeningInMode(name, l, bad)
			continue
		}
		legalOpening(name, l, bad)
	}
	if r.id.shard != "0" || r.after.count != 1 {
		bad("shard %s of %d is made out of nothing", r.id.shard, r.after.count)
	}
	for i := 1; i < mostShards; i++ {
		if sibling := r.id.whole().shard(i); c.alive[sibling] != nil {
			bad("made full while %v lives", sibling)
		}
	}
	if earliest := c.trueMS(r.at) + int64(min(0, c.lo)/time.Millisecond) - 1 - worst.Milliseconds(); r.after.rf < earliest {
		bad("made with a stamp %d ms behind the slowest clock", earliest-r.after.rf)
	}
}

func legalOpening(name string, l level, bad func(string, ...any)) {
	if l.tk+l.tc != l.cp || l.tc < 0 || l.tk < 0 && !l.isSoft() {
		bad("%s opens at %d with %d consumed and a capacity of %d", name, l.tk, l.tc, l.cp)
	}
}

// legalHidden: each write costs one token of the hidden limit, except an aggregator's. What
// the limit earns is an estimate, never too high.
func legalHidden(was, is level, from, to, cost int64, bad func(string, ...any)) {
	if is.tc-was.tc != cost {
		bad("the write counts as %d of %s", is.tc-was.tc, hidden)
	}
	gained := is.tk - was.tk + cost
	if most := was.earned(from, to); gained > most || gained < 0 && was.tk <= was.cp {
		bad("%s gained %d, earned is %d", hidden, gained, most)
	}
}

// legalMove: without a new stamp nothing is earned. A debit is whole; if it is enforced, the
// balance and the earnings since the stamp cover it. A credit may be cut.
func legalMove(name string, was, is level, stamp, latest int64, enforced bool, bad func(string, ...any)) {
	debit, moved := is.tc-was.tc, is.tk-was.tk
	if was.tk > was.cp && is.tk <= was.cp && moved != -debit {
		moved = is.tk - was.cp // the excess that a peer left above the share was cut
	}
	switch {
	case !is.sameParams(was):
		bad("%s got other parameters under the old stamp", name)
	case debit >= 0 && moved != -debit:
		bad("%s: %d consumed, the balance moved by %d", name, debit, moved)
	case debit > 0 && is.least(stamp, latest) < 0 && enforced:
		bad("%s was debited %d with %d there and %d earned", name, debit, was.tk, was.earned(stamp, latest))
	case debit > 0 && is.renews != nil && is.tk < 0 && enforced:
		bad("%s was debited %d with %d there, before its period ends", name, debit, was.tk)
	case debit < 0 && (moved < 0 || moved > -debit):
		bad("%s: %d returned, the balance moved by %d", name, -debit, moved)
	}
}

// legalRefill: with a new stamp the limit earns by the grid at the old rate, up to the
// capacity. Then the new parameters apply, then the debit.
func legalRefill(name string, was, is level, from, to int64, enforced bool, bad func(string, ...any)) {
	debit := is.tc - was.tc
	want := was.carried(from, to, is) - debit
	legalRenewal(name, was, is, from, to, debit, bad)
	switch {
	case is.tk != want && debit >= 0:
		bad("%s: %d at %d is %d at %d after a debit of %d, must be %d", name, was.tk, from, is.tk, to, debit, want)
	case debit < 0 && (is.tk > want || is.tk < want+debit):
		bad("%s: %d at %d is %d at %d after a credit of %d, must be at most %d", name, was.tk, from, is.tk, to, -debit, want)
	case debit > 0 && is.tk < 0 && enforced:
		bad("%s was debited %d with %d there", name, debit, want+debit)
	}
}

// legalRenewal: a quota may hold above its share what it carried and what it was topped up by. A
// session begins with a debit.
func legalRenewal(name string, was, is level, from, to, debit int64, bad func(string, ...any)) {
	if topped := was.toppedAt(from, to); is.renews != nil && is.topped != topped {
		bad("%s may hold %d above its share at %d, must be %d", name, is.topped, to, topped)
	}
	if is.inStep && !was.inStep && was.varies != nil && was.renews != nil && !was.renewed(from, to) {
		bad("%s has not followed all changes since %d, and is said to have at %d", name, from, to)
	}
	if opens := was.opens(from, to, debit, is); is.opened != opens {
		bad("the balance of %s is of the session of %d at %d, must be of that of %d", name, is.opened, to, opens)
	}
}

// onlyTakes reports whether a call's writes only take. If callers share writes, a call that
// returns its tokens also carries the settlements of others.
func (c *call) onlyTakes() bool { return c.kind.takes() && !c.client.w.odds.crowds }
