package limiter

import (
	"context"
	"errors"
)

// checkInBackground compares a bucket with its configuration, and its entity's
// record, once three quarters of the time to live have passed since that was
// last done, so that a bucket in use never lags by more than the whole of it.
// The acquire that finds the comparison due does not wait for it.
//
// Where configuration is not kept, every claim compares the shard that it is
// served by; what is left are the others.
func (l *Limiter) checkInBackground(ctx context.Context, c *claim, acct *account) {
	const early = 4 // a quarter of the time to live early
	now, epoch := l.now(), l.epoch.Load()
	before := now - l.ttl.Milliseconds()*(early-1)/early
	if l.ttl == 0 {
		if c.want == nil || !acct.lags(c.want, now) {
			return
		}
		before = now - settling
	}
	if !acct.beginCheck(before, epoch) {
		return
	}
	img := c.image
	l.background.Go(func() {
		defer acct.endCheck()
		ctx := l.patience.detach(ctx)
		if err := l.check(ctx, img, acct, epoch); err != nil {
			l.logger.WarnContext(ctx, "bucket not compared with its configuration",
				"entity", img.Entity, "resource", img.Resource, "error", err)
		}
	})
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
