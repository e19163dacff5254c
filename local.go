package limiter

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/memory"
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
		if w := acct.Wanted(); i > 0 && w != nil && w.IsUnlimited() {
			continue
		}
		images, all := acct.AppendImages(room[:0], m.Up, l.trust)
		if !all {
			return nil
		}
		c, limits := claim{Bucket: images[0].Bucket, acct: acct}, images[0].Limits
		for k := range limits {
			if tokens, asked := req.Consume[limits[k].Name]; asked {
				e.Statuses = c.appendStatus(e.Statuses, store.Amount{Limit: limits[k].Name, Milli: tokens * milli}, 0, images, m.Now)
			}
		}
	}
	if !slices.ContainsFunc(e.Statuses, func(s Status) bool { return s.Exceeded }) {
		return nil // tokens were returned meanwhile
	}
	l.counts.refused.Add(1)
	return e
}

// isHopeless reports whether a request would be refused, by what is remembered. It also
// returns the accounts that it used: the entity's, and its parent's if the entity
// cascades. It allocates nothing.
func (l *Limiter) isHopeless(req *Request, m memory.Moment) (of [2]*account, hopeless bool) {
	acct, ok := l.accounts.Get(memory.Key{Entity: req.Entity, Resource: req.Resource})
	if !ok {
		return of, false
	}
	of[0] = acct
	short, parent, ok := l.recall(&acct.Account, req, false, m)
	if !ok || parent == "" {
		return of, ok && short
	}
	if of[1], ok = l.accounts.Get(memory.Key{Entity: parent, Resource: req.Resource}); !ok {
		return of, false
	}
	parentShort, _, ok := l.recall(&of[1].Account, req, true, m)
	return of, ok && (short || parentShort)
}

// recall reports whether the last images show that a bucket is short for a request, and
// the parent to which it cascades. It is not ok if the images cannot tell. An optional
// bucket may lack limits, or have none.
func (l *Limiter) recall(a *memory.Account, req *Request, optional bool, m memory.Moment) (short bool, parent string, ok bool) {
	w := a.Wanted()
	switch {
	case w == nil || w.Disabled || !l.isYoung(w, m.Up):
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
	return a.IsShort(w, in, req.Consume, optional, m, l.trust)
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
