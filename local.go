package limiter

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// refuseLocally refuses a request from memory, if the remembered images of its buckets
// show that it would be refused. It returns nil if the limiter must ask the store.
//
// The last image of a bucket, refilled to now, shows the most that the bucket can hold,
// unless somebody returned tokens or merged shards. So such an image may refuse, for a
// short time; it never admits. There must be an image of every shard, compared with its
// configuration within the time to live. No item may need a write. Then the answer is
// the same as the store's, with the same wait.
func (l *Limiter) refuseLocally(req *Request) error {
	if l.trust < 0 {
		return nil
	}
	m := l.moment()
	of, hopeless := l.isHopeless(req, m)
	if !hopeless {
		return nil
	}
	e := &ExceededError{Statuses: make([]Status, 0, len(req.Consume))}
	var room [1]*store.Image
	for i, acct := range of {
		if acct == nil {
			continue
		}
		if w := acct.wanted(); i > 0 && w != nil && w.IsUnlimited() {
			continue
		}
		images, all := acct.appendImages(room[:0], m.up, l.trust)
		if !all {
			return nil
		}
		c, limits := claim{Bucket: images[0].Bucket, acct: acct}, images[0].Limits
		for k := range limits {
			if tokens, asked := req.Consume[limits[k].Name]; asked {
				e.Statuses = c.appendStatus(e.Statuses, store.Amount{Limit: limits[k].Name, Milli: tokens * milli}, 0, images, m.now)
			}
		}
	}
	if !slices.ContainsFunc(e.Statuses, func(s Status) bool { return s.Exceeded }) {
		return nil // tokens were returned meanwhile
	}
	l.counts.refused.Add(1)
	return e
}

// appendImages appends the last images of all shards. all says that none is missing or
// older than age.
func (a *account) appendImages(images []*store.Image, up, age time.Duration) (_ []*store.Image, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.count {
		img := a.imageLocked(i, up, age)
		if img == nil {
			return images, false
		}
		images = append(images, img)
	}
	return images, a.count > 0
}

// isHopeless reports whether a request would be refused, by what is remembered. It also
// returns the accounts that it used: the entity's, and its parent's if the entity
// cascades. It allocates nothing.
func (l *Limiter) isHopeless(req *Request, m moment) (of [2]*account, hopeless bool) {
	acct, ok := l.accounts.get(accountKey{req.Entity, req.Resource})
	if !ok {
		return of, false
	}
	of[0] = acct
	short, parent, ok := l.recall(acct, req, false, m)
	if !ok || parent == "" {
		return of, ok && short
	}
	if of[1], ok = l.accounts.get(accountKey{parent, req.Resource}); !ok {
		return of, false
	}
	parentShort, _, ok := l.recall(of[1], req, true, m)
	return of, ok && (short || parentShort)
}

// recall reports whether the last images show that a bucket is short for a request, and
// the parent to which it cascades. It is not ok if the images cannot tell. An optional
// bucket may lack limits, or have none.
func (l *Limiter) recall(a *account, req *Request, optional bool, m moment) (short bool, parent string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.wants
	switch {
	case w == nil || w.Disabled || !l.isYoung(w, m.up):
		return false, "", false
	case w.IsUnlimited() && optional:
		return false, "", true
	case w.IsUnlimited() && !isIn(req.Fallback, req.Consume):
		return false, "", false
	}
	in := w.Limits
	if w.IsUnlimited() {
		in = req.Fallback
	}
	if !a.isAsWantedLocked(w, in, m, l.trust) {
		return false, "", false
	}
	limits, found := a.shards[0].img.Limits, 0
	for k := range limits {
		tokens, asked := req.Consume[limits[k].Name]
		if !asked {
			continue
		}
		found++
		if short || tokens <= 0 {
			continue
		}
		held, ok := a.heldLocked(k, m.now)
		if !ok {
			return false, "", false
		}
		short = held < tokens*milli
	}
	if found < len(req.Consume) && !optional {
		return false, "", false
	}
	return short, plan.CascadeOf(a.newest), true
}

// isAsWantedLocked reports whether there is an image of every shard, as young as age,
// and no shard needs a write to have the given limits.
func (a *account) isAsWantedLocked(w *plan.Wanted, limits []Limit, m moment, age time.Duration) bool {
	if a.count == 0 || a.uneven {
		return false
	}
	for i := range a.count {
		img := a.imageLocked(i, m.up, age)
		if img == nil || !plan.IsPlain(img, m.now) || img.ShardCount != a.count || w.DiffersWith(limits, img) {
			return false
		}
	}
	return true
}

// isIn reports whether limits has every limit that a request names.
func isIn(limits []Limit, consume map[string]int64) bool {
	for name := range consume {
		if plan.Find(limits, name) == nil {
			return false
		}
	}
	return true
}

// heldLocked is what the shards hold together of the limit at index k, by their last
// images, all of which must exist. It is false if the images do not all have that limit
// at that index: then they are not of one configuration.
func (a *account) heldLocked(k int, now int64) (held int64, ok bool) {
	name := a.shards[0].img.Limits[k].Name
	for i := range a.count {
		img := a.shards[i].img
		if k >= len(img.Limits) || i > 0 && img.Limits[k].Name != name {
			return 0, false
		}
		s := &img.Limits[k]
		held += max(0, plan.ShareOf(img, s.Params).Balance(s.Tokens, img.RefilledAt, now))
	}
	return held, true
}
