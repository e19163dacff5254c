package acquire

import (
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// RefusesFromMemory reports whether a request would be refused, by what is remembered. It
// also returns the memories that it used: the entity's, and its parent's if the entity
// cascades. It allocates nothing.
func (d *Driver) RefusesFromMemory(req *Request, m memory.Moment) (of [2]*memory.Account, refuses bool) {
	if d.trust < 0 {
		return of, false
	}
	acct, ok := d.accounts.Get(memory.Key{Entity: req.Entity, Resource: req.Resource})
	if !ok {
		return of, false
	}
	of[0] = &acct.Account
	short, parent, ok := d.recall(of[0], req, false, m)
	if !ok || parent == "" {
		return of, ok && short
	}
	if acct, ok = d.accounts.Get(memory.Key{Entity: parent, Resource: req.Resource}); !ok {
		return of, false
	}
	of[1] = &acct.Account
	parentShort, _, ok := d.recall(of[1], req, true, m)
	return of, ok && (short || parentShort)
}

// LastImages appends the last images of all shards. all says that none is missing, or too
// old to refuse.
func (d *Driver) LastImages(images []*store.Image, acct *memory.Account, m memory.Moment) (_ []*store.Image, all bool) {
	return acct.AppendImages(images, m.Up, d.trust)
}

// recall reports whether the last images show that a bucket is short for a request, and
// the parent to which it cascades. It is not ok if the images cannot tell. An optional
// bucket may lack limits, or have none.
func (d *Driver) recall(a *memory.Account, req *Request, optional bool, m memory.Moment) (short bool, parent string, ok bool) {
	w := a.Wanted()
	switch {
	case w == nil || w.Disabled || !d.Config.IsYoung(w, m.Up):
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
	return a.IsShort(w, in, req.Consume, optional, m, d.trust)
}

// isIn reports whether limits has every limit that a request names.
func isIn(limits []store.Limit, consume map[string]int64) bool {
	for name := range consume {
		if plan.Find(limits, name) == nil {
			return false
		}
	}
	return true
}
