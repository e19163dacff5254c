package sim_test

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// This file has the laws of moves between parents. That a call is charged to a parent of its
// time is a law of configuration, see [season.granted]. What it took returns to whom it took
// from.

// move gives an entity another parent, or none.
func (o operator) move(id, parent string) {
	from, cascade := o.w.now(), store.Yes
	if parent == "" {
		cascade = store.No
	}
	cause := dynamo.Cause{Key: strings.ReplaceAll(o.name, "#", "-") + ".move"}
	o.carryOn(func(ctx context.Context, c *client) error {
		_, err := c.store.SetParent(ctx, id, dynamo.Move{Parent: parent, Cascade: cascade, Cause: cause}, nil)
		return err
	})
	o.parents = append(o.parents, parentage{from, o.w.now(), parent})
	for _, b := range o.itemsOf(func(b bucketID) bool { return b.entity == id }) {
		o.w.mu.Lock()
		s := o.w.items[b]
		late := o.w.madeLateLocked(b, s)
		o.w.mu.Unlock()
		if s.payer != parent && !late {
			o.w.violate("move", o.w.now(), &b, "after %s its parent is %q, and is to be %q", o.name, s.payer, parent)
		}
	}
}

// holdOn keeps the lease of a call until a later one, so that moves come in between, and then
// rolls it back. It returns the call that holds a lease.
func (s *season) holdOn(k, held *call, r *rand.Rand) *call {
	switch {
	case held != nil && chance(r, 0.2):
		back := &call{name: held.name + "/rollback", kind: returning, client: held.client, req: held.req, of: held, want: map[string]int64{}}
		ctx := back.begin(s.w)
		back.finish(s.w, held.lease.Rollback(ctx))
		return nil
	case held == nil && k.admitted():
		return k
	}
	return held
}

// returnedWhole: nobody is credited what a call did not take of him, and a rolled-back call
// leaves nothing, in the buckets of all parents that the entity has had.
func (s *season) returnedWhole(c *checker, k *call) {
	parts := c.parts(k)
	for _, key := range sortedParts(parts) {
		p, id := parts[key], key.shard(0)
		if p.least < 0 {
			c.violate("P3", k.start, &id, "%s: %s was credited %d that was never debited", k, key.name, -p.least)
		}
		for _, back := range c.settled[k] {
			if back.kind == returning && back.answered && back.err == nil && p.net != 0 && c.lasts(key, p) && !c.odds.faulty() {
				c.violate("P10", back.end, &id, "%s was rolled back, and %s stays debited %d", k, key.name, p.net)
			}
		}
	}
}

// marking is the context of an operator who has marked the items below a level, or of an
// entity.
func (o operator) marking() context.Context {
	return context.WithValue(context.Background(), callKey{}, &call{name: o.name, kind: administering, client: o.admin, marks: true})
}
