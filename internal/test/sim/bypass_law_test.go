package sim_test

import (
	"slices"

	limiter "github.com/zeroae/zae-limiter-go"
)

// This file has the laws of bypasses. A bypass is a stamp on an item, until which everything
// is admitted and counted, and no balance moves. A lease of such a use is settled so.

// bypassed is until when an item counts only; 0 if it does not, or if there is none.
func (s *state) bypassed() int64 {
	if s == nil {
		return 0
	}
	return s.bypass
}

// countedOnly reports whether a write of a client may move no balance: the item had a stamp
// that had not passed by some reading of the client's clock, it gets one, or the write
// settles what was taken so.
func (w *write) countedOnly() bool {
	if w.client == nil || w.call == nil || w.after == nil {
		return false
	}
	return w.before.bypassed() > w.client.earliestMS(w) || w.after.bypass > w.client.earliestMS(w) || w.call.of != nil && w.call.of.bypassed[w.id]
}

// knewBypass reports whether a take comes from a client that had seen last that the item is
// bypassed, and until when it still is. A take of one that had not is admitted by the
// balance.
func (c *checker) knewBypass(w *write) bool {
	if w.call == nil || w.call.kind != acquiring || w.before.bypassed() <= c.latestMS(w) {
		return false
	}
	seen := w.client.seen[w.id]
	i := slices.IndexFunc(seen, func(s sighting) bool { return s.shown > w.sent })
	if i < 0 {
		i = len(seen)
	}
	return i > 0 && seen[i-1].state.bypassed() == w.before.bypass && seen[i-1].state.life == w.before.life
}

// movesNothing reports whether a limit holds after a write what it would hold anyway.
func (c *checker) movesNothing(r *write, was, is level) bool {
	if r.before == nil {
		return is.tk == is.cp
	}
	if r.before.rf == r.after.rf {
		return is.tk == was.tk
	}
	return is.tk == was.carried(r.before.rf, r.after.rf, is)
}

// legalBypass: only while the levels say that a bucket is bypassed, by configuration of the
// time to live, does a client stamp an item so, for 48 to 60 seconds at most. It removes a
// stamp that has passed, or that the levels do not say.
func (c *checker) legalBypass(r *write, bad func(string, ...any)) {
	was, is := r.before.bypassed(), r.after.bypass
	if was == is || r.client == nil || r.call == nil || r.other != nil {
		return
	}
	known := between(c.play.versions(r.id.whole()), r.call.start-c.knows(r.client), r.at)
	says := func(counts bool) bool {
		return slices.ContainsFunc(known, func(v version) bool { return v.counts == counts })
	}
	switch latest := max(r.after.rf, c.latestMS(r)); {
	case is != 0 && !says(true):
		bad("it is bypassed until %d, and no level says so", is)
	case is > latest+stampsMost:
		bad("it is bypassed until %d, must be at most until %d", is, latest+stampsMost)
	case is == 0 && was > latest && !says(false):
		bad("its bypass until %d was removed, and all levels say it", was)
	}
}

// bypasses: a bucket that was bypassed all the time refuses nobody.
func (s *season) bypasses(k *call, e *limiter.ExceededError, bad func(string, ...any)) {
	for _, st := range e.Statuses {
		known := s.known(k, bucketKey{st.Entity, st.Resource})
		if st.Exceeded && !slices.ContainsFunc(known, func(v version) bool { return !v.counts }) {
			bad("it is refused by %s of %s, which is bypassed", st.Limit.Name, st.Entity)
		}
	}
}

// noteBypass notes on which items a call took what moved no balance.
func (w *write) noteBypass() {
	if w.failed || w.call == nil || w.after == nil || w.call.kind != acquiring || w.before.bypassed() == 0 && w.after.bypass == 0 {
		return
	}
	if w.call.bypassed == nil {
		w.call.bypassed = map[bucketID]bool{}
	}
	w.call.bypassed[w.id] = true
}
