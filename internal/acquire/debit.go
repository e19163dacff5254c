package acquire

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// debit carries a claim out against the bucket item that it was routed to. Concurrent
// callers that want to write to the same item share the write.
func (d *Driver) debit(ctx context.Context, c *Claim, left <-chan struct{}) error {
	c.short, c.portions = false, nil
	if d.places.Base == 0 {
		return d.debitAlone(ctx, c, left)
	}
	img := c.acct.Image(c.Shard, d.Uptime(), memory.ImageAge)
	c.adopt(c.acct.Wanted())
	fits := img != nil && c.Terms.Fits(img)
	ps := lane.Places{Base: 1} // the first caller finds out for the others
	if fits {
		ps = d.placesFor(c, img)
	}
	ln := &c.acct.at(c.Shard).takes
	t := &ticket{Claim: c}
	switch told, err := ln.Attend(ctx, t, ps, left); {
	case err != nil:
		return outOfLine(err)
	case told == lane.Done:
		d.Counts.Carried.Add(1)
		return t.Err
	case told == lane.Solo:
		return d.debitAlone(ctx, c, left)
	}
	defer func() { ln.Leave(d.placesFor(c, c.acct.Image(c.Shard, d.Uptime(), memory.ImageAge))) }()
	if err := d.holdBack(ctx, c, left); err != nil {
		return err
	}
	img = c.acct.Image(c.Shard, d.Uptime(), memory.ImageAge)
	if c.adopt(c.acct.Wanted()); img != nil && c.Terms.Fits(img) {
		crowd := ln.Along(t, mostShared, c.alike(img))
		if len(crowd) > 1 || c.acct.IsSharedShard(c.Shard, d.Uptime()) {
			d.debitCrowd(ctx, ln, crowd, img, left)
			return t.Err
		}
	}
	err := d.debitAlone(ctx, c, left)
	if ps.Base == 1 && c.acct.Image(c.Shard, d.Uptime(), memory.ImageAge) == nil {
		ln.Disperse() // one after the other, they would find out no more
	}
	return err
}

// alike returns a filter for the claims of one bucket that can be added up with c, on
// an item as it is. The filter makes them adopt the configuration of c.
func (c *Claim) alike(img *store.Image) func(*Claim) bool {
	return func(other *Claim) bool {
		other.adopt(c.Terms.Configured)
		return other.Terms.Fits(img)
	}
}

// common returns a claim that stands for all claims that can be added up with c.
func (c *Claim) common() *Claim {
	return &Claim{Bucket: c.Bucket, acct: c.acct, Terms: plan.Terms{Configured: c.Terms.Configured, Target: c.Terms.Target}}
}

// debitAlone carries a claim out against one bucket item. It needs one write if the
// memory of the item is right, and one more for each thing that the memory had wrong.
// It decides each of these on the image that the refusal carried. It ends with the
// claim granted, refused or found short on this shard, or with an error. On error,
// nothing of the claim is known to be debited.
//
// left is closed when the caller has gone; then debitAlone begins no further write.
func (d *Driver) debitAlone(ctx context.Context, c *Claim, left <-chan struct{}) error {
	p := pursuit{d: d, c: c, acct: c.acct, left: left}
	p.img = p.acct.Image(c.Shard, d.Uptime(), memory.ImageAge)
	if p.img == nil && p.acct.HasRetired(c.Shard) {
		return errRerouted // a merge deleted the shard since it was drawn
	}
	return p.run(ctx)
}
