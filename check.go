package limiter

import (
	"cmp"
	"context"
	"errors"
)

// keepUp does in the background what a claim found to be due about its bucket:
// first it completes a set of shards that images disagree about, then it compares
// the bucket with its configuration. The acquire does not wait for it.
func (l *Limiter) keepUp(ctx context.Context, c *claim, served bool) {
	if l.underWay.isClosed() {
		return
	}
	acct, b, img, epoch := c.acct, c.Bucket, c.image, l.epoch.Load()
	if want := cmp.Or(c.want, c.fits); served && img != nil && want != nil && want.differs(img) {
		acct.doubt() // what was compared was an old image of it
	}
	mends := acct.beginMending(l.now())
	checks := served && !c.override && img != nil && l.beginCheck(c, epoch)
	if !mends && !checks {
		return
	}
	l.inBackground(func() {
		ctx := l.patience.detach(ctx)
		if mends {
			l.mendNow(ctx, acct, b)
		}
		if !checks {
			return
		}
		defer acct.endCheck()
		if err := l.check(ctx, img, acct, epoch); err != nil {
			l.logger.WarnContext(ctx, "bucket not compared with its configuration",
				"entity", img.Entity, "resource", img.Resource, "error", err)
		}
	})
}

// beginCheck claims a comparison of a bucket with its configuration, and of its
// entity's record, if three quarters of the time to live have passed since that
// was last done, so that a bucket in use never lags by more than the whole of it.
//
// Where configuration is not kept, every claim compares the shard that it is
// served by; what is left are the others.
func (l *Limiter) beginCheck(c *claim, epoch uint64) bool {
	const early = 4 // a quarter of the time to live early
	now := l.now()
	if l.ttl == 0 {
		return c.want != nil && c.acct.lags(c.want, now) && c.acct.beginCheck(now-settling, epoch)
	}
	return c.acct.beginCheck(now-l.ttl.Milliseconds()*(early-1)/early, epoch)
}

// check brings a bucket to its configuration if the two differ. Limits of a
// peer's that this version cannot evaluate, or none at all, leave it as it is.
func (l *Limiter) check(ctx context.Context, img *Image, acct *account, epoch uint64) error {
	r, err := l.config.refresh(ctx, img.Entity, img.Resource)
	if err != nil {
		return err
	}
	if r.foreign == "" && img.Foreign == "" && len(r.limits) > 0 {
		if err := l.bringTo(ctx, acct, img, &r); err != nil {
			return err
		}
	}
	acct.wasChecked(r.fetched, epoch, false)
	return nil
}

// bringTo repairs every shard of a bucket that differs from a configuration,
// until none does: one may be split meanwhile.
func (l *Limiter) bringTo(ctx context.Context, acct *account, img *Image, r *resolved) error {
	const passes = 3
	images := []*Image{img}
	for range passes {
		if sharded := max(acct.shardCount(), img.ShardCount); sharded > 1 {
			var err error
			if images, err = l.readManyShards(ctx, acct, img.Bucket, sharded); err != nil {
				return err
			}
		}
		differed, err := l.repairAll(ctx, acct, images, func(img *Image) *claim {
			repair := &claim{want: l.wantedOf(r)}
			if o := ownerFrom(r); mayRestamp(img, r.meta) {
				repair.want.owner = &o
			}
			return repair
		})
		if err != nil || !differed || acct.shardCount() == 1 {
			return err
		}
	}
	return nil
}

// repairAll brings every shard to what a claim for it wants. It reports whether any
// was different.
func (l *Limiter) repairAll(ctx context.Context, acct *account, images []*Image, of func(*Image) *claim) (differed bool, err error) {
	var repairs []*claim
	for _, img := range images {
		if c := of(img); c.want.differs(img) {
			c.Bucket, c.acct, c.pressing = img.Bucket, acct, true
			repairs = append(repairs, c)
		}
	}
	errs := make([]error, len(repairs))
	l.atOnce(len(repairs), func(i int) {
		// One that was lost meanwhile has been made again, like another.
		if err := l.debitAlone(ctx, repairs[i], nil); !errors.Is(err, errRerouted) {
			errs[i] = err
		}
	})
	return len(repairs) > 0, errors.Join(errs...)
}

// isDue reports whether the time has passed within which a bucket that refuses
// must have been compared with its configuration.
func (l *Limiter) isDue(acct *account, now int64) bool {
	return acct.due(now-l.ttl.Milliseconds()+1, l.epoch.Load())
}

// isUnlimited reports whether a bucket is known, within the time to live of
// configuration, to have no limits.
func (l *Limiter) isUnlimited(acct *account, now int64) bool {
	return acct.isUnlimited(now-l.ttl.Milliseconds(), l.epoch.Load())
}

// mayRestamp reports whether a record is of the same entity as the bucket's
// stamp, and not older: reads are eventually consistent.
func mayRestamp(img *Image, e *Entity) bool {
	return e != nil && e.Generation >= img.ParentGeneration &&
		(img.Incarnation == "" || img.Incarnation == e.Incarnation)
}
