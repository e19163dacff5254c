package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Look looks at the buckets of a request, without a debit. parent is nil if the entity
// does not cascade.
func (d *Driver) Look(ctx context.Context, req *Request) (child, parent *Claim, err error) {
	child = d.claim(req)
	if err := d.inspect(ctx, child); err != nil {
		return nil, nil, err
	}
	if child.Parent == "" {
		return child, nil, nil
	}
	parent = d.parentClaim(req, child.Parent)
	if err := d.inspect(ctx, parent); err != nil {
		return nil, nil, err
	}
	return child, parent, nil
}

// inspect gives a claim the shards of its bucket, and the bucket as an acquire would find
// it: repaired to its configuration, or made anew.
func (d *Driver) inspect(ctx context.Context, c *Claim) error {
	var shards []*store.Image
	var errs [2]error
	d.AtOnce(len(errs), func(i int) {
		if i == 0 {
			shards, errs[i] = d.wholeBucket(ctx, c)
		} else {
			errs[i] = d.inform(ctx, c)
		}
	})
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	exists := len(shards) > 0
	switch w := c.Terms.Target; {
	case w.Disabled || exists && shards[0].Disabled:
		return disabledError(c.Bucket)
	case !exists && !w.IsEvaluable():
		return unsupported(c.Bucket, w.Features)
	case exists && (!w.IsEvaluable() || !shards[0].IsEvaluable()):
		c.Parent = plan.CascadeOf(shards[0]) // a foreign item is not repaired: its own cascade holds
	default:
		c.Parent = plan.PayerOf(&w.Owner)
	}
	c.Looked, c.images, c.At = true, plan.WholeSet(shards), d.Now()
	if c.Terms.AreUnknownTo(c.images) {
		return unsupported(c.Bucket, cmp.Or(c.Terms.Target.Features, shards[0].Features))
	}
	return nil
}

// wholeBucket reads all shards of a claim's bucket.
func (d *Driver) wholeBucket(ctx context.Context, c *Claim) ([]*store.Image, error) {
	shards, err := d.Store.Buckets(ctx, c.Entity, c.Resource, c.acct.ShardCount())
	if err == nil && len(shards) > 0 && !plan.IsWhole(shards) { // or the read crossed a merge
		shards, err = d.Store.Buckets(ctx, c.Entity, c.Resource, plan.CountOf(shards))
	}
	if err != nil {
		return nil, fmt.Errorf("read the bucket of %s for %s: %w", c.Entity, c.Resource, err)
	}
	return shards, nil
}

// inform gives a claim the wanted bucket, read within the time to live.
func (d *Driver) inform(ctx context.Context, c *Claim) error {
	w := c.acct.Wanted()
	if w == nil || !d.Config.IsYoung(w, d.Uptime()) {
		var err error
		if w, _, err = d.Config.Resolve(ctx, c.Entity, c.Resource, nil); err != nil {
			return err
		}
		c.acct.Want(w)
	}
	c.adopt(w)
	return nil
}
