package acquire

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Buckets is the number of buckets that the driver remembers.
func (d *Driver) Buckets() int { return d.accounts.cache.Len() }

// Memory is what the driver remembers of a bucket.
func (d *Driver) Memory(b store.Bucket) *memory.Account {
	return &d.accounts.of(b.Entity, b.Resource).Account
}

// WaitsUntil is until when a caller waits, by the uptime, for its turn at a shared bucket and
// for tokens that the bucket has not earned yet. The rest of its time is for writes.
func (d *Driver) WaitsUntil(ctx context.Context) time.Duration {
	if !d.writer.isQueued() {
		return 0
	}
	most := d.Time()
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, d.Until(deadline))
	}
	return d.Uptime() + most*4/5 // a call has at least seven eighths
}

// Trust is how long an image may refuse; negative is never.
func (d *Driver) Trust() time.Duration { return d.accounts.trust }

// Payer is the parent to which an entity cascades, by what is remembered; "" if there is
// none, or nothing is remembered.
func (d *Driver) Payer(entity, resource string) string {
	acct, ok := d.accounts.cache.Get(memory.Key{Entity: entity, Resource: resource})
	if !ok {
		return ""
	}
	if w := acct.Wanted(); w != nil {
		return plan.PayerOf(&w.Owner)
	}
	return acct.Owner(d.Uptime(), memory.ImageAge)
}

// RefusesFromMemory reports whether a request would be refused, by what was seen up to
// trust ago. payer is what it asks of the parent. It also returns the memories that it used:
// the entity's, and its parent's if the entity cascades. It does not know if these cannot
// tell. It allocates nothing.
func (d *Driver) RefusesFromMemory(req, payer *Request, m memory.Moment, trust time.Duration) (of [2]*memory.Account, refuses, knows bool) {
	if trust < 0 {
		return of, false, false
	}
	acct, ok := d.accounts.cache.Get(memory.Key{Entity: req.Entity, Resource: req.Resource})
	if !ok {
		return of, false, false
	}
	of[0] = &acct.Account
	short, parent, ok := d.recall(acct, req, false, m, trust)
	if !ok || parent == "" {
		return of, ok && short, ok
	}
	if acct, ok = d.accounts.cache.Get(memory.Key{Entity: parent, Resource: req.Resource}); !ok {
		return of, false, false
	}
	of[1] = &acct.Account
	parentShort, _, ok := d.recall(acct, payer, true, m, trust)
	return of, ok && (short || parentShort), ok
}

// recall reports whether the last images show that a bucket is short for a request, and
// the parent to which it cascades. It is not ok if the images cannot tell. An optional
// bucket may lack limits, or have none.
func (d *Driver) recall(acct *account, req *Request, optional bool, m memory.Moment, trust time.Duration) (short bool, parent string, ok bool) {
	w := acct.Wanted()
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
	var ahead time.Duration
	if _, room := acct.NextTurn(); acct.waiting() < room {
		ahead = acct.Ahead(m.Up, req.By)
	}
	return acct.IsShort(w, in, req.Consume, optional, m, trust, ahead)
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
