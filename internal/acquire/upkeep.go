package acquire

import (
	"context"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// startUpkeep does in the background the upkeep that a claim found due on its bucket. The
// acquire does not wait for it.
//
//   - It reads the configuration after three quarters of the time to live, so that
//     later claims on the bucket need not wait for it.
//   - It mends a set of shards whose images disagree about their number.
//   - It repairs all shards after one of them was repaired or made.
func (d *Driver) startUpkeep(ctx context.Context, c *Claim) {
	const early = 4 // a quarter of the time to live early
	if d.IsClosed() {
		return
	}
	up := d.Uptime()
	if w := c.acct.Wanted(); w != nil && d.Config.TTL() > 0 && up-w.Read >= d.Config.TTL()/early*(early-1) {
		d.Inspector.compare(ctx, c.acct, c.Bucket)
	}
	mends, repairs := c.acct.BeginMending(up), c.acct.BeginRepair()
	if !mends && !repairs {
		return
	}
	whole := &Claim{Bucket: c.Bucket, acct: c.acct, want: plan.Want{Fallback: c.want.Fallback}}
	d.InBackground(func() {
		if mends {
			d.Upkeep.MendNow(ctx, &whole.acct.Account, whole.Bucket)
		}
		if whole.acct.BeginRepair() || repairs {
			d.writer.repairRest(ctx, whole)
		}
	})
}

// repairRest repairs all shards of a bucket to what a claim wants.
func (wr *writer) repairRest(ctx context.Context, c *Claim) {
	ctx = wr.Detach(ctx)
	images, err := wr.upkeep.ReadShards(ctx, &c.acct.Account, c.Bucket)
	if err == nil {
		_, err = wr.repairIfNeeded(ctx, c, images)
	}
	if err != nil {
		wr.Logger.WarnContext(ctx, "shards of a bucket not repaired", "entity", c.Entity, "resource", c.Resource, "error", err)
	}
}

// repairShards repairs the shards of a bucket that differ from what a claim wants. The
// caller must have read the images before; repairShards reads the configuration now. In the
// other order, a repair would undo a change that came between the two reads:
//
//	this process   reads limit 10 ─────────────────────────── reads image: 5 ──▶ differs: writes 10
//	an operator                    sets 5 ──▶ image: 5
func (wr *writer) repairShards(ctx context.Context, c *Claim, images []*store.Image) error {
	w, err := wr.inspector.verifySoon(ctx, c.acct, c.Bucket)
	if err != nil {
		return err
	}
	c.adopt(w)
	now := wr.Now()
	images = slices.DeleteFunc(slices.Clone(images), func(img *store.Image) bool { return !c.Terms.Target.Differs(img, now) })
	errs := make([]error, len(images))
	wr.AtOnce(len(images), func(i int) {
		repair := &Claim{Bucket: images[i].Bucket, acct: c.acct, want: plan.Want{Fallback: c.want.Fallback}}
		p := pursuit{wr: wr, c: repair, img: images[i], sight: remembered, sure: w, pressing: true}
		// A shard that was lost meanwhile has been made again, modelled on another.
		if err := p.run(ctx); !errors.Is(err, errShardsChanged) {
			errs[i] = err
		}
	})
	return errors.Join(errs...)
}

// repairIfNeeded repairs the shards of a claim's bucket that differ from their
// configuration. If it reports differ, the caller must look at the shards again.
func (wr *writer) repairIfNeeded(ctx context.Context, c *Claim, images []*store.Image) (differ bool, err error) {
	c.look(nil) // the claim may have taken other images as they are
	c.adopt(c.acct.Wanted())
	now := wr.Now()
	if c.Terms.Target == nil || !slices.ContainsFunc(images, func(img *store.Image) bool { return c.Terms.Target.Differs(img, now) }) {
		return false, nil
	}
	err = wr.repairShards(ctx, c, images)
	if err != nil && !errors.Is(err, store.ErrDisabled) && wr.inspector.takeAsIs(ctx, c, images[0], err) {
		// Where a change has reached only some of the shards, nobody knows whether the limit is coming or going.
		if !slices.ContainsFunc(images, func(img *store.Image) bool { return plan.Lacks(img, c.Terms.Amounts) }) {
			return false, nil
		}
	}
	return true, err
}
