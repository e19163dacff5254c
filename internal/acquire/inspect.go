package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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

// LookAtAll looks at the buckets of an entity and, if it cascades, of its parent. The claims
// ask for one token of every limit that the buckets have, or are to have. A disabled
// bucket is looked at, too. parent is nil if the entity does not cascade.
func (d *Driver) LookAtAll(ctx context.Context, entity, resource string) (child, parent *Claim, err error) {
	req := &Request{Entity: entity, Resource: resource}
	child = d.claim(req)
	if err := d.inspectAll(ctx, child); err != nil {
		return nil, nil, err
	}
	if child.Parent == "" {
		return child, nil, nil
	}
	parent = d.parentClaim(req, child.Parent)
	if err := d.inspectAll(ctx, parent); err != nil {
		return nil, nil, err
	}
	return child, parent, nil
}

// inspectAll is [Driver.inspect] for every limit.
func (d *Driver) inspectAll(ctx context.Context, c *Claim) error {
	if err := d.see(ctx, c); err != nil {
		return err
	}
	if err := c.mysterious(); err != nil {
		return err
	}
	c.Terms.AskEach(c.images)
	return nil
}

// InForce returns the configuration that holds for the buckets of an entity and, if it
// cascades, of its parent, read within the time to live. parent is nil if the entity does
// not cascade.
func (d *Driver) InForce(ctx context.Context, entity, resource string) (own, parent *plan.Wanted, err error) {
	if own, err = d.configured(ctx, entity, resource); err != nil {
		return nil, nil, err
	}
	if payer := plan.PayerOf(&own.Owner); payer != "" {
		parent, err = d.configured(ctx, payer, resource)
	}
	return own, parent, err
}

// configured reads the configuration of one bucket. It fails if this version cannot
// evaluate the limits.
func (d *Driver) configured(ctx context.Context, entity, resource string) (*plan.Wanted, error) {
	w, _, err := d.Config.Resolve(ctx, entity, resource, nil)
	if err == nil && !w.IsEvaluable() {
		err = unsupported(store.Bucket{Entity: entity, Resource: resource}, w.Features)
	}
	return w, err
}

// inspect gives a claim the shards of its bucket, and the bucket as an acquire would find
// it: repaired to its configuration, or made anew.
func (d *Driver) inspect(ctx context.Context, c *Claim) error {
	if err := d.see(ctx, c); err != nil {
		return err
	}
	if c.IsDisabled() {
		return disabledError(c.Bucket)
	}
	if err := c.mysterious(); err != nil {
		return err
	}
	if c.Terms.AreUnknownTo(c.images) {
		return unsupported(c.Bucket, cmp.Or(c.Terms.Target.Features, c.first().Features))
	}
	return nil
}

// mysterious is the error of a bucket that does not exist, and that this version cannot
// make.
func (c *Claim) mysterious() error {
	if w := c.Terms.Target; c.first() == nil && !w.IsEvaluable() {
		return unsupported(c.Bucket, w.Features)
	}
	return nil
}

// first is the first shard that a claim was shown, nil if there is none.
func (c *Claim) first() *store.Image {
	if i := slices.IndexFunc(c.images, func(img *store.Image) bool { return img != nil }); i >= 0 {
		return c.images[i]
	}
	return nil
}

// IsDisabled reports whether an operator has disabled the bucket of a claim that was only
// looked at.
func (c *Claim) IsDisabled() bool {
	img := c.first()
	return c.Terms.Target.Disabled || img != nil && img.Disabled
}

// see gives a claim the shards of its bucket, its configuration and its parent.
func (d *Driver) see(ctx context.Context, c *Claim) error {
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
	if w := c.Terms.Target; len(shards) > 0 && (!w.IsEvaluable() || !shards[0].IsEvaluable()) {
		c.Parent = plan.CascadeOf(shards[0]) // a foreign item is not repaired: its own cascade holds
	} else {
		c.Parent = plan.PayerOf(&w.Owner)
	}
	c.Looked, c.images, c.At = true, plan.WholeSet(shards), d.Now()
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
