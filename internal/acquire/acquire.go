package acquire

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// Acquire debits the entity and its parent. If the driver remembers the parent, it
// pursues both claims at once. Each claim runs on its own: a side that was debited
// stays debited while the other side refills. If a remembered parent is out of date, the
// driver refunds it.
//
// Acquire returns the claims as they were decided, and the error of either. The caller
// refunds them with [Driver.Refund] unless both were granted. parent is nil if the
// entity does not cascade. left is closed when the caller has gone.
func (d *Driver) Acquire(ctx context.Context, req *Request, left <-chan struct{}) (child, parent *Claim, err error) {
	child = d.claim(req)
	remembered := child.acct.Owner(d.Uptime(), memory.ImageAge)
	if err := d.knownDisabled(req, child.acct, remembered); err != nil {
		return child, nil, err
	}
	parent, childErr, parentErr := d.pursueBoth(ctx, req, child, remembered, left)
	if childErr == nil && child.Parent != remembered {
		d.Refund(ctx, parent)
		parent, parentErr = nil, nil
		if child.Parent != "" && !child.Refused {
			parent = d.parentClaim(req, child.Parent)
			parentErr = d.pursue(ctx, parent, left)
		}
	}
	if child.Refused && parent == nil && child.Parent != "" {
		// The wait is the longer of the two.
		parent = d.parentClaim(req, child.Parent)
		parentErr = d.inspect(ctx, parent)
	}
	return child, parent, errors.Join(childErr, parentErr)
}

// knownDisabled fails if the bucket of the entity, or of its remembered parent, is
// known to be disabled. Otherwise the driver would debit the other bucket and have
// to refund it.
func (d *Driver) knownDisabled(req *Request, acct *account, parent string) error {
	switch up := d.Uptime(); {
	case d.isDisabled(acct, up):
		return &store.DisabledError{Entity: req.Entity, Resource: req.Resource}
	case parent != "" && d.isDisabled(d.account(parent, req.Resource), up):
		return &store.DisabledError{Entity: parent, Resource: req.Resource}
	}
	return nil
}

// pursueBoth debits the entity's claim and, if a parent is remembered, the parent's.
func (d *Driver) pursueBoth(ctx context.Context, req *Request, child *Claim, remembered string, left <-chan struct{}) (parent *Claim, childErr, parentErr error) {
	if remembered == "" {
		return nil, d.pursue(ctx, child, left), nil
	}
	parent = d.parentClaim(req, remembered)
	errs := [2]error{}
	d.AtOnce(2, func(i int) { errs[i] = d.pursue(ctx, [...]*Claim{child, parent}[i], left) })
	return parent, errs[0], errs[1]
}

// claim makes the claim of a request on its entity's bucket.
func (d *Driver) claim(req *Request) *Claim {
	asked := claimAmounts(req.Consume)
	c := &Claim{
		Bucket: store.Bucket{Entity: req.Entity, Resource: req.Resource}, acct: d.account(req.Entity, req.Resource),
		want: plan.Want{Asked: asked},
	}
	if len(req.Fallback) > 0 {
		c.want.Fallback = slices.SortedFunc(slices.Values(req.Fallback), func(a, b store.Limit) int { return strings.Compare(a.Name, b.Name) })
	}
	c.Terms = c.want.Under(nil)
	return c
}

// parentClaim makes the claim of a request on the bucket of the entity's parent, if
// the parent has limits.
func (d *Driver) parentClaim(req *Request, parent string) *Claim {
	asked := claimAmounts(req.Consume)
	c := &Claim{
		Bucket: store.Bucket{Entity: parent, Resource: req.Resource}, acct: d.account(parent, req.Resource),
		want: plan.Want{Asked: asked, Optional: true},
	}
	c.Terms = c.want.Under(nil)
	return c
}

// Shards returns the images that decided a claim, by shard number, as far as they are
// remembered.
func (c *Claim) Shards(up time.Duration) []*store.Image {
	switch {
	case c.images != nil:
		return c.images
	case c.image == nil:
		return nil
	case c.image.ShardCount == 1:
		return []*store.Image{c.image}
	}
	// Images from before or after a doubling have other shares.
	last, _ := c.acct.Images(up, memory.ImageAge)
	images := make([]*store.Image, c.image.ShardCount)
	for i, img := range last {
		if img != nil && img.ShardCount == len(images) {
			images[i] = img
		}
	}
	images[c.image.Shard] = c.image
	return images
}

// parts returns the amounts that a claim has debited, shard by shard.
func (c *Claim) parts() []plan.Portion {
	if len(c.portions) > 0 {
		return c.portions
	}
	return []plan.Portion{{Image: c.image, Amounts: c.Terms.Amounts}}
}

// Refund returns the amounts that claims have debited, if any. It credits all their
// shards at once, and then credits other shards with the tokens that find no room
// there. It gets the time of a call anew, because the call's own time may already be
// up. If the store turns a return away, Refund repeats it in the background, after
// the caller has its answer. If nobody can tell whether a return was applied, the
// tokens stay debited, which is the safe side.
func (d *Driver) Refund(ctx context.Context, claims ...*Claim) {
	claims = slices.DeleteFunc(claims, func(c *Claim) bool { return c == nil || !c.Granted })
	if len(claims) == 0 {
		return
	}
	ctx = d.Detach(ctx)
	for _, c := range claims {
		d.refundOne(ctx, c)
	}
}

func (d *Driver) refundOne(ctx context.Context, c *Claim) {
	c.Granted = false
	parts := c.parts()
	spare := make([][]store.Amount, len(parts))
	d.AtOnce(len(parts), func(i int) {
		img, back := parts[i].Image, make([]store.Amount, 0, len(parts[i].Amounts))
		for _, a := range parts[i].Amounts {
			back = append(back, store.Amount{Limit: a.Limit, Milli: -a.Milli})
		}
		var err error
		if spare[i], err = d.adjust(ctx, img, back); process.IsTurnedAway(err) {
			d.InBackground(func() {
				d.LogKept(ctx, c.Bucket, d.Insist(ctx, func(ctx context.Context) error { return d.giveBack(ctx, img, back) }))
			})
		} else {
			d.LogKept(ctx, c.Bucket, err)
		}
	})
	d.LogKept(ctx, c.Bucket, d.passOn(ctx, parts[0].Image, total(spare)))
}

// giveBack returns amounts to the shard that they were taken from. It credits other
// shards with the tokens that find no room there.
func (d *Driver) giveBack(ctx context.Context, img *store.Image, back []store.Amount) error {
	over, err := d.adjust(ctx, img, back)
	if err != nil {
		return err
	}
	return d.passOn(ctx, img, over)
}

// LogKept logs that tokens were not returned, because of err.
func (d *Driver) LogKept(ctx context.Context, b store.Bucket, err error) {
	if err != nil {
		d.Logger.WarnContext(ctx, "tokens were not returned", "entity", b.Entity, "resource", b.Resource, "error", err)
	}
}
