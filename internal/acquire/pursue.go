package acquire

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// stands reports whether the outcome of a claim still holds for w. If it does, the
// claim takes w over, and its statuses quote it.
func (c *Claim) stands(w *plan.Wanted) bool {
	if c.Terms.AsIs {
		return !w.Disabled
	}
	now := c.want.Under(w)
	if w.Disabled || !slices.Equal(now.Unknown, c.Terms.Unknown) || slices.ContainsFunc(c.decidedOn(), now.Target.Differs) {
		return false
	}
	c.Terms = now
	return true
}

// decidedOn returns the images on which a claim was decided.
func (c *Claim) decidedOn() (images []*store.Image) {
	switch {
	case c.Granted && len(c.portions) > 0:
		for _, p := range c.portions {
			images = append(images, p.Image)
		}
	case c.Refused && c.images != nil:
		images = slices.DeleteFunc(slices.Clone(c.images), func(img *store.Image) bool { return img == nil })
	case c.image != nil:
		images = []*store.Image{c.image}
	}
	return images
}

// pursue debits a claim. If the last comparison of the bucket is older than the time
// to live, pursue compares it again while it debits. The answer waits for both. If
// the parameters no longer hold, the driver returns what it took by them and decides
// the request again.
//
// If a comparison fails or takes too long, the bucket's answer holds: the bucket was
// reached, so the request is metered. The driver tries the comparison again later.
func (d *Driver) pursue(ctx context.Context, c *Claim, left <-chan struct{}) error {
	const revisions = 4
	for range revisions {
		last := c.acct.Wanted()
		cmp := d.compareIfDue(ctx, c, last)
		if answered, err := d.answerUnasked(ctx, c, cmp, left); answered || err != nil {
			return err
		}
		if err := d.route(ctx, c, left); err != nil {
			return err
		}
		if w := c.acct.Wanted(); cmp == nil && w == last { // the comparison may have come due meanwhile
			cmp = d.compareIfDue(ctx, c, w)
		}
		if !d.await(ctx, cmp, left) || c.stands(c.acct.Wanted()) {
			d.startUpkeep(ctx, c)
			return nil
		}
		if err := d.takeBack(ctx, c); err != nil {
			return err
		}
		c.renew()
	}
	return fmt.Errorf("debit %s of %s: its limits changed %d times meanwhile: %w", c.Resource, c.Entity, revisions, store.ErrConflict)
}

// answerUnasked answers a claim without asking the bucket, if the bucket is disabled
// or is not to have the limits that the claim names.
func (d *Driver) answerUnasked(ctx context.Context, c *Claim, cmp *comparison, left <-chan struct{}) (answered bool, err error) {
	if c.acct.IsDisabled(d.Uptime(), d.Config.TTL(), d.Config.Epoch()) {
		return true, disabledError(c.Bucket)
	}
	w := c.acct.Wanted()
	if c.adopt(w); w == nil || !w.Disabled && !c.want.TakesNothing(&c.Terms) {
		return false, nil
	}
	if !d.Config.IsYoung(w, d.Uptime()) {
		if cmp == nil {
			cmp = d.compare(ctx, c.acct, c.Bucket)
		}
		if !d.await(ctx, cmp, left) && !w.Disabled {
			return false, nil // the remembered configuration is too old to answer by
		}
		w = c.acct.Wanted()
		c.adopt(w)
	}
	switch {
	case w.Disabled:
		return true, disabledError(c.Bucket)
	case c.want.TakesNothing(&c.Terms):
		c.Parent = plan.PayerOf(&w.Owner)
		return true, nil
	}
	return false, nil
}

// isDisabled reports whether a bucket is known to be disabled, by its configuration
// or by a stamp on an item. Both count for the time to live of configuration.
func (d *Driver) isDisabled(acct *account, up time.Duration) bool {
	w := acct.Wanted()
	return w != nil && w.Disabled && d.Config.IsYoung(w, up) || acct.IsDisabled(up, d.Config.TTL(), d.Config.Epoch())
}
