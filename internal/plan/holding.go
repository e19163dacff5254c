package plan

import (
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// Never is the wait for more tokens than limits can hold.
const Never time.Duration = math.MaxInt64

// A Holding is the balance of one limit on one shard.
type Holding struct {
	bucket.Limit
	Tokens, At int64
	Soft       bool
	Mode       store.Mode
	Bypassed   bool // so is the bucket
	Returns    int  // per cent, as configured
}

// mustSuffice reports whether the balance decides.
func (h *Holding) mustSuffice() bool { return !h.Soft && h.Mode == store.Enforce && !h.Bypassed }

// Holdings returns the holdings of a limit that an acquire would find, shard by
// shard.
func (t *Terms) Holdings(parts []Holding, limit string, shards []*store.Image, now int64) (params store.Params, _ []Holding) {
	for _, img := range Together(shards, nil, now) {
		if img == nil {
			continue
		}
		if h, p, ok := t.Holding(img, limit, now); ok {
			params, parts = p, append(parts, h)
		}
	}
	if len(shards) == 0 && t.Target != nil {
		if w := t.Target.Find(limit); w != nil {
			params = w.Params()
			part := Share(params, 0, 1, now)
			parts = append(parts, Holding{part, part.Capacity, now, w.Soft, w.Mode, t.bypasses(nil, now), w.Returns})
		}
	}
	return params, parts
}

// AreUnknownTo reports whether the terms have an amount of a limit that an acquire would
// find on none of the shards.
func (t *Terms) AreUnknownTo(shards []*store.Image) bool {
	var room [1]Holding
	for _, a := range t.Amounts {
		if _, parts := t.Holdings(room[:0], a.Limit, shards, 0); len(parts) == 0 {
			return true
		}
	}
	return false
}

// Holding returns the holding of a limit that an acquire would find on one shard. It
// is as on the item, with what goes back of lost processes, repaired to the wanted parameters, or new and full.
func (t *Terms) Holding(img *store.Image, limit string, now int64) (h Holding, params store.Params, ok bool) {
	var w *store.Limit
	if t.Target != nil {
		w = t.Target.Find(limit)
	}
	s, ok := img.Limit(limit)
	s.Tokens += returnsNow(img, limit, now)
	bypassed := t.bypasses(img, now)
	switch {
	case ok && w == nil:
		return Holding{ShareOf(img, &s), s.Tokens, img.RefilledAt, s.IsSoft() && s.Mode() == store.Enforce, s.Mode(), bypassed, 0}, *s.Params, true
	case ok && w.Params() == *s.Params:
		return Holding{ShareOf(img, &s), s.Tokens, img.RefilledAt, w.Soft, w.Mode, bypassed, w.Returns}, *s.Params, true
	case ok:
		part, capacity, delta, _ := edited(img, &s, w.Params(), now) // as the write that repairs it
		return Holding{part, min(s.Tokens+delta, capacity), max(now, img.RefilledAt), w.Soft, w.Mode, bypassed, w.Returns}, w.Params(), true
	case w != nil:
		part := Share(w.Params(), img.Shard, img.ShardCount, now)
		return Holding{part, part.Capacity, now, w.Soft, w.Mode, bypassed, w.Returns}, w.Params(), true
	}
	return Holding{}, store.Params{}, false
}

// bypasses reports whether an acquire would find a shard bypassed: by the shard itself, or by its
// configuration. A nil shard does not exist.
func (t *Terms) bypasses(img *store.Image, now int64) bool {
	return img != nil && img.IsBypassed(now) || t.Target != nil && t.AsIs == nil && t.Target.Switches.At(now).Bypassed
}

// IsPending reports whether a shard has other parameters of a limit than wanted. The next
// acquire repairs them.
func (t *Terms) IsPending(limit string, shards []*store.Image) bool {
	if t.Target == nil {
		return false
	}
	w := t.Target.Find(limit)
	return w != nil && slices.ContainsFunc(shards, func(img *store.Image) bool {
		if img == nil {
			return false
		}
		s, ok := img.Limit(limit)
		return ok && !isAs(&s, w)
	})
}

// Balance returns the tokens that the shards can be debited together. If there are
// none, it returns the sum of their debts, saturated at 64 bits. A shard in debt does
// not reduce what the others can be debited.
func Balance(parts []Holding, now int64) int64 {
	var held, owed int64
	for i := range parts {
		b := parts[i].Balance(parts[i].Tokens, parts[i].At, now)
		held += max(0, b)
		owed = max(owed, math.MinInt64-min(0, b)) + min(0, b)
	}
	if held == 0 {
		return owed
	}
	return held
}

// WaitFor returns the least time, in whole milliseconds, after which the parts together hold
// what is needed; none for a limit that need not suffice. Their sum only grows with time until
// a schedule changes, or a quota that carries renews, so in each piece a binary search finds
// it. It looks at as many pieces as [bucket.Limit.Wait] does.
func WaitFor(parts []Holding, now, need int64) time.Duration {
	if len(parts) > 0 && !parts[0].mustSuffice() {
		return 0
	}
	if len(parts) == 1 {
		return retryAfter(parts[0].Limit, parts[0].Tokens, parts[0].At, now, need)
	}
	if mostOf(parts) < need {
		return Never
	}
	if Balance(parts, now) >= need {
		return 0 // a quota may have less when it renews
	}
	parts = slices.Clone(parts)
	const last = math.MaxInt64 / int64(time.Millisecond)
	from, suffices := now, false
	for range bucket.MostPieces {
		to, capacity := last, int64(0)
		for i := range parts {
			p := &parts[i]
			to = min(to, p.Until(max(p.At, from))-1)
			is := p.Limit.At(max(p.At, from))
			capacity = min(capacity+is.Most(), math.MaxInt64/4)
		}
		suffices = suffices || capacity >= need
		if Balance(parts, to) >= need {
			return time.Duration(firstOf(parts, need, from, to)-now) * time.Millisecond
		}
		if to == last {
			return Never
		}
		from = to + 1
		if advance(parts, from) && mostOf(parts) < need { // a grant has ended
			return Never
		}
	}
	if !suffices {
		return Never
	}
	return time.Duration(from-now) * time.Millisecond
}

// advance brings parts to a later instant of a wait, and reports whether one of them has renewed.
func advance(parts []Holding, to int64) (renewed bool) {
	for i := range parts {
		p := &parts[i]
		renewed = renewed || p.Renews(p.At, to)
		p.Limit, p.Tokens, p.At = p.Later(p.Tokens, p.At, to)
	}
	return renewed
}

// mostOf is the most that the parts together ever hold.
func mostOf(parts []Holding) (most int64) {
	for i := range parts {
		most = min(most+parts[i].Most(), math.MaxInt64/4) // no sum overflows
	}
	return most
}

// firstOf is the first instant from lo to hi at which the parts hold what is needed. They
// hold it at hi, and their sum only grows.
func firstOf(parts []Holding, need, lo, hi int64) int64 {
	for lo < hi {
		if mid := lo + (hi-lo)/2; Balance(parts, mid) >= need {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// FullAfter returns the least time, in whole milliseconds, after which every part is
// full. It returns [Never] if that takes longer than a duration can say.
func FullAfter(parts []Holding, now int64) time.Duration {
	var wait time.Duration
	for i := range parts {
		p := &parts[i]
		if p.Renewal != nil && p.Varies != nil { // it lacks what was consumed until its period ends
			if is := p.Limit.At(max(p.At, now)); p.Balance(p.Tokens, p.At, now) < is.Renewed {
				wait = max(wait, time.Duration(p.Renewal.End(p.Opened, max(p.At, now))-now)*time.Millisecond)
			}
			continue
		}
		full := p.Limit.At(now).Capacity
		if p.Renewal != nil {
			full = min(full, p.Renewed)
		}
		wait = max(wait, retryAfter(p.Limit, p.Tokens, p.At, now, full))
	}
	return wait
}

// retryAfter is the exact wait for an amount, in whole milliseconds.
func retryAfter(l bucket.Limit, tokens, at, now, need int64) time.Duration {
	ms, ok := l.Wait(tokens, at, now, need)
	if !ok || ms > math.MaxInt64/int64(time.Millisecond) {
		return Never
	}
	return time.Duration(ms) * time.Millisecond
}
