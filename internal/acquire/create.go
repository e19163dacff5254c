package acquire

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// create makes the bucket with the claim already debited, from the current
// configuration. If only this shard of the bucket is missing, create makes the shard
// instead.
func (p *pursuit) create(ctx context.Context) (done bool, err error) {
	d, c := p.d, p.c
	p.acct.Forget(c.Shard)
	if p.acct.ShardCount() > 1 || c.Shard > 0 {
		return p.mend(ctx)
	}
	w, err := p.prepare(ctx)
	switch {
	case err != nil:
		return true, err
	case w == nil:
		return p.mend(ctx)
	case w.Disabled:
		return true, p.disabled()
	case w.Foreign != "":
		return true, &store.UnsupportedError{Entity: c.Entity, Resource: c.Resource, Feature: w.Foreign}
	}
	if c.adopt(w); c.want.TakesNothing(&c.Terms) {
		p.end()
		return true, nil
	}
	c.Parent = plan.PayerOf(&w.Owner)
	n := d.newBucket(c, p.Now)
	if img := plan.ImageOf(n); c.exceeds(img) {
		c.Refused, c.images, c.At = true, []*store.Image{img}, p.Now
		return true, nil
	}
	for i := range n.Limits {
		limit := &n.Limits[i]
		limit.Consumed = plan.AmountOf(c.Terms.Amounts, limit.Limit)
		limit.Tokens -= limit.Consumed
	}
	out, err := d.Send(ctx, &p.acct.Account, c.Bucket, memory.StampUse{Moves: true}, p.Moment, func(ctx context.Context) (store.Outcome, error) { return d.Store.Create(ctx, n) })
	return p.wrote(out, err, true)
}

// prepare reads at the same time all that a bucket is made from: its configuration,
// and whether shards of it exist. It returns nil if shards exist.
func (p *pursuit) prepare(ctx context.Context) (w *plan.Wanted, err error) {
	d, acct, of, sought := p.d, p.acct, p.c.Bucket, p.sought // keeps p itself on the stack
	var siblings []*store.Image
	var errs [2]error
	d.AtOnce(len(errs), func(i int) {
		switch {
		case i == 0:
			w, errs[i] = d.Verify(ctx, &acct.Account, of)
		case !sought:
			siblings, errs[i] = d.Store.Buckets(ctx, of.Entity, of.Resource, 0)
		}
	})
	if errs[1] != nil {
		errs[1] = fmt.Errorf("look for shards of %s of %s: %w", p.c.Resource, p.c.Entity, errs[1])
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	p.sought, p.Moment = true, p.d.Moment()
	if len(siblings) > 0 {
		p.acct.Recount(siblings, p.Moment)
		return nil, nil
	}
	return w, nil
}

// mend makes a missing shard, and lets the claim choose again. A shard that cannot
// be made, because of a peer's stamps on its siblings, holds nothing.
func (p *pursuit) mend(ctx context.Context) (done bool, err error) {
	exists, err := p.d.Upkeep.Mend(ctx, &p.acct.Account, p.c.Bucket, p.left)
	switch {
	case err != nil:
		return true, err
	case exists && p.acct.Image(p.c.Shard, p.Up, memory.ImageAge) == nil && p.c.Shard < p.acct.ShardCount():
		p.c.short = true
		return true, nil
	}
	return true, errShardsChanged
}

// newBucket returns the wanted bucket, full except for the write that makes it.
func (d *Driver) newBucket(c *Claim, now int64) *store.Create {
	n := &store.Create{Bucket: c.Bucket, Now: now, ShardCount: 1, Owner: c.Terms.Target.Owner, Writes: plan.FirstWrite()}
	var life int64
	for _, limit := range c.Terms.Target.Limits {
		p := limit.Params()
		life = max(life, plan.LifeOf(&store.LimitState{Params: p}, 0, 1, d.Multiplier))
		n.Limits = append(n.Limits, store.NewLimit{
			NamedParams: store.NamedParams{Limit: limit.Name, Params: p},
			Tokens:      p.Capacity,
		})
	}
	if c.Terms.Target.Expires {
		n.ExpiresAt = plan.ExpiresAt(life, now, d.Multiplier)
	}
	return n
}

// exceeds reports whether a claim is more than the balances of an image.
func (c *Claim) exceeds(img *store.Image) bool {
	return slices.ContainsFunc(c.Terms.Amounts, func(a store.Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Milli > s.Tokens && a.Milli > 0
	})
}
