package acquire

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// debit carries a claim out against the bucket item that it was routed to.
func (d *Driver) debit(ctx context.Context, c *Claim, left <-chan struct{}) error {
	c.short, c.portions = false, nil
	return d.sharing.debit(ctx, c, left)
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
		return errShardsChanged // a merge deleted the shard since it was drawn
	}
	return p.run(ctx)
}
