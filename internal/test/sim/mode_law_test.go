package sim_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// This file has the laws of limits in a mode. They are soft limits, so the laws of these hold, too:
// nobody is refused, and what is consumed counts exactly. Besides, a limit in shadow is debited by
// what it would have admitted, and its balance is that of an enforced one. All other amounts count
// only, and so do all amounts of a limit that is off.

// inModeOf is a limit as it is for an entity. The share of entities that are in the mode must stay the
// same in all versions, so it is worked out here once more: FNV-1a of the name, with its bits mixed,
// modulo 100.
func inModeOf(entity string, l limiter.Limit) limiter.Limit {
	x := uint64(14695981039346656037)
	for _, b := range []byte(entity) {
		x = (x ^ uint64(b)) * 1099511628211
	}
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	if x ^= x >> 33; l.Percent != 0 && int(x%100) >= l.Percent {
		l.Mode = limiter.Enforce
	}
	l.Percent = 0
	return l
}

// forgiven is a balance after a write that leaves a limit in a mode, or ends it: a shadow owes one
// capacity at most, and enforcement begins without a debt.
func (l level) forgiven(held int64, next level, now int64) int64 {
	switch {
	case next.mode == "shadow":
		return max(held, -next.in(now).cp)
	case l.mode != "" && !next.isSoft():
		return max(0, held)
	}
	return held
}

// A decision is what a call takes of a limit, with all that extends or settles it.
type decision struct {
	call *call
	partKey
}

// decided is how the amounts of a decision were taken: some counted only, some were debited.
type decided struct{ counted, debited bool }

// with adds an amount that counts only, or is debited.
func (d decided) with(counts bool) decided {
	return decided{d.counted || counts, d.debited || !counts}
}

// decisionOf names the decision that a write of a call is a part of. A call that does not extend its
// lease returns what it has taken itself.
func decisionOf(r *write, name string) decision {
	of := r.call
	if of.of != nil && (!of.kind.takes() || of.admitted()) {
		of = of.of
	}
	return decision{of, partKey{r.id.whole(), name}}
}

// noteModes notes how a write takes each amount.
func (c *checker) noteModes(r *write) {
	if !c.odds.modes || r.call == nil || r.after == nil || r.other != nil || !r.call.kind.takes() {
		return
	}
	for _, name := range names(r.after, nil) {
		was, had := r.before.share(r.id, name)
		is, _ := r.after.share(r.id, name)
		if name == hidden || is.tc <= was.tc {
			continue
		}
		d := decisionOf(r, name)
		c.decided[d] = c.decided[d].with(had && c.movesNothing(r, was, is) || !had && is.tk == is.cp)
	}
}

// legalModes: a limit gets into a mode, and out of it, only by configuration that was in force within
// the time to live. A shard that is born or merged has its sibling's. The item notes the amounts that a
// limit in shadow would have refused. A merge adds the notes that it has seen.
func (c *checker) legalModes(r *write, bad func(string, ...any)) {
	if !c.odds.modes {
		return
	}
	a, b := r.before, r.after
	for _, name := range names(b, nil) {
		was, had := a.level(name)
		is := b.levels[name]
		switch {
		case name == hidden || r.client == nil:
		case r.merges():
			gone, _ := r.other.before.level(name)
			if is.mode != was.mode || is.mode != gone.mode || is.noted != was.noted+gone.noted {
				bad("%s in %q and %q, which would have refused %d and %d, is merged in %q with %d", name, was.mode, gone.mode, was.noted, gone.noted, is.mode, is.noted)
			}
		case a == nil && r.other != nil:
			if of, _ := r.other.after.level(name); is.mode != of.mode && r.other != r && !r.client.aggregator || is.noted != 0 {
				bad("%s is born in %q, its sibling is in %q, and would have refused %d", name, is.mode, of.mode, is.noted)
			}
		case is.mode == was.mode && had || !had && is.mode == "":
		case !c.wasInMode(r.id.whole(), name, is.mode, r.call.start-c.knows(r.client), r.at):
			bad("%s comes from %q into %q, and the configuration says otherwise", name, was.mode, is.mode)
		}
	}
}

// wasInMode reports whether a limit was in a mode by a configuration between two instants.
func (c *checker) wasInMode(key bucketKey, name, mode string, from, to time.Duration) bool {
	return slices.ContainsFunc(between(c.play.versions(key), from, to), func(v version) bool {
		l, has := v.limits[name]
		return has && l.mode == mode || !has && mode == ""
	})
}

// concernsMode reports whether a write finds or leaves a limit in a mode, or settles what was taken
// of one. In crowds, it is not known whose amounts a write carries.
func (c *checker) concernsMode(r *write, name string, was, is level) bool {
	if !c.odds.modes || r.call == nil || r.client == nil {
		return false
	}
	settled := is.tc < was.tc || !r.call.kind.takes()
	return was.mode != "" || is.mode != "" || settled && (c.odds.crowds || c.decided[decisionOf(r, name)].counted || c.offSince(r, name) != never)
}

// legalOpeningInMode: a new limit is full, and decides its first amount, too.
func legalOpeningInMode(name string, l level, bad func(string, ...any)) {
	counts := l.mode == "off" && l.tc > 0 || l.mode == "shadow" && l.tc > l.cp
	noted := int64(0)
	if counts && l.mode == "shadow" {
		noted = l.tc
	}
	if counts {
		l.tc = 0
	}
	if l.noted != noted {
		bad("%s opens in %s, would have refused %d, and notes %d", name, l.mode, noted, l.noted)
	}
	legalOpening(name, l, bad)
}

// legalInMode: of a limit in shadow, a request is debited whole if the limit held it in what the client
// had seen, and else counts only and is noted. Of one that is off, it counts only. No request leads the
// balance below one capacity. An amount that counted only moves no balance when it is settled or
// returned, whatever the mode is by then.
func (c *checker) legalInMode(r *write, name string, was, is level, bad func(string, ...any)) {
	a, b := r.before, r.after
	debit, noted, had := is.tc-was.tc, is.noted-was.noted, was.tk
	fresh := a.rf == b.rf && was.opened == is.opened && (was.opened != noSession || was.tk == is.tk)
	switch {
	case fresh && (!was.sameParams(is) || was.mode != is.mode):
		bad("%s got other parameters, or from %q into %q, under the old stamp", name, was.mode, is.mode)
		return
	case !fresh && r.client.aggregator: // it knows nothing of modes
		plain, next := was, is
		plain.mode, next.mode = "", ""
		had = plain.carried(a.rf, b.rf, next)
	case !fresh:
		if had = was.carried(a.rf, b.rf, is); is.mode == "shadow" && is.tk < had-max(0, debit) && c.sawNoDebt(r, name, is) {
			had = was.brought(a.rf, b.rf, is)
		}
	case is.mode == "shadow" && is.tk > had-debit && is.tk >= -is.cp:
		had = was.forgiven(had, is, b.rf) // a refill that keeps the stamp forgives, too
	}
	if was.mode != is.mode {
		noted = is.noted // the note begins anew
	}
	moved := is.tk - had
	if fresh && was.tk > was.cp && is.tk <= was.cp && moved != -debit {
		moved = is.tk - was.cp // the excess that a peer left above the share was cut
	}
	how := c.decided[decisionOf(r, name)]
	if !fresh {
		uses := debit
		if moved == 0 {
			uses = 0 // what only counts begins no session
		}
		legalRenewal(name, was, is, a.rf, b.rf, uses, bad)
	}
	switch {
	case debit > 0 && r.call.onlyTakes():
		c.legalTakeInMode(r, name, is, debit, moved, noted, bad)
	case debit >= 0 && (moved < -debit || moved > 0), debit < 0 && (moved < 0 || moved > -debit):
		bad("%s in %q: %d consumed, the balance moved by %d from %d", name, is.mode, debit, moved, had)
	case c.odds.crowds:
		if noted < 0 || noted > max(0, debit) {
			bad("%s in %q notes %d of %d", name, is.mode, noted, debit)
		}
	case noted != 0:
		bad("%s in %q notes %d, and nobody asks for it", name, is.mode, noted)
	case how.counted && !how.debited && moved != 0:
		bad("%s in %q: what counted only is settled by %d, and the balance moved by %d", name, is.mode, debit, moved)
	case debit > 0 && !how.debited && is.mode == "off" && c.offSince(r, name) == always:
		if moved != 0 {
			bad("%s is off: %d are settled, and the balance moved by %d", name, debit, moved)
		}
	case debit > 0 && !how.debited && moved == 0 && c.offSince(r, name) != never: // as it was asked for
	case debit > 0 && !how.counted && moved != -debit && !c.ledTo(r, name, is, debit):
		bad("%s in %q: %d consumed, the balance moved by %d from %d", name, is.mode, debit, moved, had)
	}
	if least := min(had, -is.cp); is.mode == "shadow" && is.tk < least && !c.overdraws(r, name, is, moved) {
		bad("%s in shadow is led to %d, must be %d at least", name, is.tk, least)
	}
}

// legalTakeInMode: a request of one caller is debited, or counts only.
func (c *checker) legalTakeInMode(r *write, name string, is level, debit, moved, noted int64, bad func(string, ...any)) {
	least, most, known := int64(0), int64(0), false
	if !c.odds.dated && !c.odds.stepped { // otherwise it is not known when it was decided
		least, most, known = c.heldBy(r, name, is)
	}
	switch {
	case moved != 0 && moved != -debit:
		bad("%s in %q: %d consumed, the balance moved by %d", name, is.mode, debit, moved)
	case is.mode == "" && !is.isSoft() && (moved != -debit || is.tk < 0 || noted != 0):
		bad("%s is enforced from now on: %d consumed, the balance moved by %d to %d", name, debit, moved, is.tk)
	case is.mode == "" && (moved != -debit || noted != 0):
		bad("%s is soft from now on: %d consumed, the balance moved by %d", name, debit, moved)
	case is.mode == "":
	case is.mode == "off" && (moved != 0 || noted != 0):
		bad("%s is off: %d consumed, the balance moved by %d, and it notes %d", name, debit, moved, noted)
	case is.mode == "off":
	case moved == 0 && noted != debit, moved != 0 && noted != 0:
		bad("%s in shadow: %d consumed, the balance moved by %d, and it notes %d", name, debit, moved, noted)
	case known && moved == 0 && least >= debit:
		bad("%s in shadow counts %d only, and held %d at least, by what the client had seen", name, debit, least)
	case known && moved != 0 && most < debit:
		bad("%s in shadow is debited %d, and held %d at most, by what the client had seen", name, debit, most)
	case moved != 0 && is.tk < -is.cp:
		bad("%s in shadow is debited %d, down to %d of %d", name, debit, is.tk, is.cp)
	}
}

// heldBy is what an item held of a limit by what the client of a write had seen of it: by the last image
// before its call, and all since. It is not known of a client that computed one itself, or has seen
// none of this life, nor of a stamp far ahead.
func (c *checker) heldBy(r *write, name string, is level) (least, most int64, known bool) {
	for _, s := range slices.Backward(r.client.seen[r.id]) {
		if s.shown > r.sent || s.asked {
			continue
		}
		l, has := s.state.share(r.id, name)
		if !has || s.worked || s.state.life != r.before.life || l.life != is.life || c.isFarAhead(s.state, r.sent) {
			return 0, 0, false
		}
		for _, now := range []int64{r.client.earliestMS(r), c.latestMS(r), r.after.rf} {
			held := l.carried(s.state.rf, now, is)
			if !known {
				least, most = held, held
			}
			known, least, most = true, min(least, held), max(most, held)
		}
		if s.shown < r.call.start && !s.mayBeForgotten() {
			taken, returned := c.movedBy(r, name, s.at)
			return least - taken, most + returned, known
		}
	}
	return 0, 0, false
}

// movedBy is what the process of a write took from its item and returned to it since an instant, by
// writes that it had sent by then: it counts with those that are under way.
func (c *checker) movedBy(r *write, name string, since time.Duration) (taken, returned int64) {
	for _, w := range c.byClientAt(r, since) {
		was, _ := w.before.level(name)
		is, _ := w.after.level(name)
		taken += max(0, is.tc-was.tc)
		returned += max(0, was.tc-is.tc)
	}
	return taken, returned
}

// byClientAt are the writes of a write's process to its item that were applied after an instant, and
// sent before the write was applied.
func (c *checker) byClientAt(r *write, since time.Duration) (all []*write) {
	for _, w := range c.log {
		if w.id == r.id && w.client == r.client && w != r && !w.failed && w.after != nil && w.at >= since && w.sent <= r.at {
			all = append(all, w)
		}
	}
	return all
}

// A frequency is how often something was so.
type frequency int

const (
	never frequency = iota
	sometimes
	always
)

// offSince is how often a limit of an item has been off since the lease was taken that a write settles.
func (c *checker) offSince(r *write, name string) frequency {
	if r.call.of == nil {
		return never
	}
	var states []*state
	if before := c.stateAt(r.id, r.call.of.start); before != nil {
		states = append(states, before)
	}
	for _, w := range c.during(r.id.whole(), r.call.of.start, r.at) {
		if w.id == r.id {
			states = append(states, w.after)
		}
	}
	isOff := func(s *state) bool {
		l, has := s.level(name)
		return has && l.mode == "off"
	}
	switch {
	case !slices.ContainsFunc(states, isOff):
		return never
	case slices.ContainsFunc(states, func(s *state) bool { return !isOff(s) }):
		return sometimes
	}
	return always
}

// sightsOf are the states of an item that a settlement may rest on.
func (c *checker) sightsOf(r *write, name string, is level) (all []int64) {
	for _, s := range append([]sighting{{state: r.before}}, r.client.seen[r.id]...) {
		if l, has := s.state.share(r.id, name); has && s.shown <= r.at {
			held := l.tk
			if r.before.rf != r.after.rf {
				held = l.carried(s.state.rf, r.after.rf, is)
			}
			all = append(all, held)
		}
	}
	return all
}

// sawNoDebt reports whether a limit owed less than one capacity by an image, of the stamp that a write
// requires, that its client had seen. Others have led it lower since: a write forgives what it sees.
func (c *checker) sawNoDebt(r *write, name string, is level) bool {
	return slices.ContainsFunc(r.client.seen[r.id], func(s sighting) bool {
		l, has := s.state.share(r.id, name)
		return has && s.shown <= r.at && s.state.rf == r.before.rf && l.brought(s.state.rf, r.after.rf, is) >= -is.cp
	})
}

// ledTo reports whether a settlement would have led a limit in shadow below one capacity, by some
// image of the item, so that the rest is not owed.
func (c *checker) ledTo(r *write, name string, is level, debit int64) bool {
	return is.mode == "shadow" && slices.ContainsFunc(c.sightsOf(r, name, is), func(held int64) bool { return held-debit < -is.cp })
}

// overdraws reports whether a settlement led no lower than one capacity by some image of the item:
// others have debited meanwhile.
func (c *checker) overdraws(r *write, name string, is level, moved int64) bool {
	return !r.call.onlyTakes() && slices.ContainsFunc(c.sightsOf(r, name, is), func(held int64) bool { return held+moved >= -is.cp })
}

// toldOfModes: a lease says which limits in shadow would have refused its request: those that counted
// it. None of them is said to refuse.
func (c *checker) toldOfModes(k *call) {
	if !c.odds.modes || !k.admitted() || c.odds.crowds {
		return
	}
	for _, st := range k.statuses {
		if st.Limit.Mode == limiter.Enforce {
			continue
		}
		for _, part := range k.parts() {
			if part.req.Resource != st.Resource {
				continue
			}
			key := bucketKey{st.Entity, st.Resource}
			how, known := c.tookOf(part, partKey{key, st.Limit.Name})
			if id := key.shard(0); st.Exceeded || known && (st.WouldRefuse && !how.counted || !st.WouldRefuse && st.Limit.Mode == limiter.Shadow && !st.Bypassed && !how.debited) {
				c.violate("shadow", k.end, &id, "%s is told of %v, refusing %t, would refuse %t; it was counted %t and debited %t", part, st.Limit, st.Exceeded, st.WouldRefuse, how.counted, how.debited)
			}
		}
	}
}

// tookOf is how a call itself took of a limit.
func (c *checker) tookOf(k *call, key partKey) (how decided, known bool) {
	for _, r := range c.byCall[k] {
		if r.failed || r.after == nil || r.other != nil || r.id.whole() != key.bucketKey {
			continue
		}
		was, had := r.before.share(r.id, key.name)
		is, _ := r.after.share(r.id, key.name)
		if is.tc > was.tc {
			how, known = how.with(had && c.movesNothing(r, was, is) || !had && is.tk == is.cp), true
		}
	}
	return how, known
}

// shadows counts the limits in shadow that note a request.
func (w *write) shadows() (n int) {
	for _, name := range names(w.after, nil) {
		was, _ := w.before.level(name)
		if is := w.after.levels[name]; !w.failed && w.other == nil && is.noted > was.noted {
			n++
		}
	}
	return n
}

// TestSimWithModes plays a few seeds with limits in shadow and limits that are off. Some of the first
// would have refused.
func TestSimWithModes(t *testing.T) {
	t.Parallel()
	const seeds = 12
	var shadowed atomic.Int64
	playSeeds(t, seeds, func(s uint64) odds {
		o := oddsOf(s)
		o.modes = true
		return o
	}, func(res result) {
		shadowed.Add(int64(res.shadowed))
	})
	if n := shadowed.Load(); n < 5*seeds {
		t.Errorf("in %d seeds, limits in shadow would have refused %d times", seeds, n)
	}
}
