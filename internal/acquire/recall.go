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

// WaitsUntil is until when a caller that comes at an uptime waits for its turn at a shared
// bucket and for tokens that the bucket has not earned yet. The rest of its time is for
// writes.
func (d *Driver) WaitsUntil(ctx context.Context, up time.Duration) time.Duration {
	if !d.writer.isQueued() {
		return 0
	}
	most := d.Time()
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, d.Until(deadline))
	}
	return up + most*4/5 // a call has at least seven eighths
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

// Recall reports whether a request would be refused, by what was seen up to trust ago. payer
// is what it asks of the parent. It also returns the images that show it: of the entity's
// bucket, and of its parent's if the entity cascades and the parent has limits. They use the
// room given for them. It does not know if the images cannot tell. It allocates nothing,
// unless a bucket has several shards.
func (d *Driver) Recall(room *[2][1]*store.Image, req, payer *Request, trust time.Duration) (seen [2][]*store.Image, refuses, knows bool) {
	if trust < 0 {
		return seen, false, false
	}
	images, short, parent, ok := d.recall(room[0][:0], req.Entity, req, false, trust)
	if seen[0] = images; !ok || parent == "" {
		return seen, ok && short, ok
	}
	images, parentShort, _, ok := d.recall(room[1][:0], parent, payer, true, trust)
	seen[1] = images
	return seen, ok && (short || parentShort), ok
}

// recall reports whether the last images show that an entity's bucket is short for a request.
// It appends them, and returns the parent to which the bucket cascades. It is not ok if the
// images cannot tell. An optional bucket may lack limits, or have none.
func (d *Driver) recall(images []*store.Image, entity string, req *Request, optional bool, trust time.Duration) (seen []*store.Image, short bool, parent string, ok bool) {
	acct, ok := d.accounts.cache.Get(memory.Key{Entity: entity, Resource: req.Resource})
	if !ok {
		return images, false, "", false
	}
	w := acct.Wanted()
	switch {
	case w == nil || w.IsDisabled(req.At.Now) || !d.Config.IsYoung(w, req.At.Up):
		return images, false, "", false
	case w.IsUnlimited() && optional:
		return images, false, "", true
	case w.IsUnlimited() && !isIn(req.Fallback, req.Consume):
		return images, false, "", false
	}
	in := w.Limits
	if w.IsUnlimited() {
		in = plan.LimitsOf(req.Entity, req.Fallback)
	}
	ahead := acct.Ahead(req.At.Up, req.By)
	if ahead > 0 {
		if _, room := acct.NextTurn(); acct.waiting() >= room {
			ahead = 0
		}
	}
	return acct.Recall(images, w, in, req.Consume, optional, req.At, trust, ahead)
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
