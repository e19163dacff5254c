package acquire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// maxRetries is how many other shards a claim tries after the first one cannot
	// serve it. After that, the driver looks at all shards together.
	maxRetries = 2
	// maxRoutes bounds how often a claim is routed. To reach it, the set of shards must
	// change every time.
	maxRoutes = 12
)

// route debits a claim from any shard of a bucket that can serve it. A claim is refused
// only if all shards together cannot serve it.
//
// To ask one shard after the other would be simple: an exhausted bucket of 32 shards would
// then cost 32 refused writes for each refusal. So the images choose the shard, a claim
// tries only a few of them, and then looks at all shards at the same time:
//
//	choose ──▶ debit ──▶ granted
//	  ▲          ├─ short: another shard, at most maxRetries ──▶ gather: debit several, or refuse
//	  │          ├─ no hidden tokens: the shard rests; all rest: double, or wait
//	  │          ├─ throttled: another shard; the last failure counts if none is left
//	  └──────────┴─ the set of shards changed: all that was tried is forgotten
//
// Others may double, merge or make shards at every step. A claim notices that by the item
// that it writes to, never by its memory: an image says how many shards there are.
func (d *Driver) route(ctx context.Context, c *Claim, left <-chan struct{}) error {
	var tried []int // found short, or throttled
	var resting []int
	short := 0 // the number of tried shards that were short
	var failure error
	for routes := 0; routes < maxRoutes; routes++ {
		next, shard := memory.Together, 0
		if failure != nil || !c.acct.IsScarce(c.Terms.Amounts, d.Uptime()) {
			next, shard = c.acct.Choose(&c.Terms, tried, resting, d.Moment(), d.trust, d.Rand)
		}
		var err error
		switch {
		case next == memory.Resting && short == 0:
			if err := d.waitForWrites(ctx, c, left); err != nil {
				return err
			}
			resting, routes = nil, routes-1
			continue
		case next != memory.Alone && short == 0 && failure != nil:
			return failure
		case next == memory.Nowhere && short == 0:
			return d.countBraked(c)
		case next != memory.Alone, short > maxRetries:
			next = memory.Together
			err = d.gather(ctx, c, left)
		default:
			c.Shard = shard
			err = d.debit(ctx, c, left)
		}
		switch {
		case errors.Is(err, errShardsChanged):
			tried, resting, short = nil, nil, 0
		case errors.Is(err, errNoWritesLeft):
			resting, routes = append(resting, shard), routes-1
		case errors.Is(err, store.ErrThrottled):
			failure = err
			tried = append(tried, shard)
			if next == memory.Together || c.acct.ShardCount() == 1 && !d.probe(ctx, c, left) {
				return err
			}
		case err != nil || !c.short:
			return err
		default:
			tried = append(tried, shard)
			short++
		}
	}
	return fmt.Errorf("debit %s of %s: its shards changed %d times: %w", c.Resource, c.Entity, maxRoutes, store.ErrConflict)
}

// waitForWrites handles a claim for which every shard that could serve it must first earn its
// next write. The bucket then needs more shards, however recently it was doubled.
func (d *Driver) waitForWrites(ctx context.Context, c *Claim, left <-chan struct{}) error {
	if count := c.acct.ShardCount(); count < store.MaxShards {
		switch changed, err := d.Upkeep.Double(ctx, &c.acct.Account, c.Bucket, count, left); {
		case changed:
			return nil
		case err != nil && !process.IsTurnedAway(err):
			return err
		}
	} else if c.acct.Warn() {
		d.warnSaturated(ctx, c.Bucket)
	}
	return process.Sleep(ctx, left, writeEarnedIn)
}

// writeEarnedIn is the time in which a shard's hidden write limit earns one write.
const writeEarnedIn = time.Millisecond

// probe finds out whether a bucket whose only known shard was throttled has other
// shards.
func (d *Driver) probe(ctx context.Context, c *Claim, left <-chan struct{}) bool {
	_, err := c.acct.Reshaping.Do(ctx, left, func() {
		b := c.Bucket
		b.Shard = 1
		if loaded, err := d.Store.Load(ctx, &store.Load{Bucket: &b}); err == nil && loaded.Image != nil {
			c.acct.Remember(loaded.Image, d.Moment())
		}
	})
	return err == nil && c.acct.ShardCount() > 1
}

// doubleOrWait handles an item that has used its hidden write limit, and has its next write
// after wait. It doubles the bucket if that helps. It returns nil after the wait, if it
// can do no more.
func (d *Driver) doubleOrWait(ctx context.Context, acct *memory.Account, img *store.Image, wait time.Duration, left <-chan struct{}) error {
	count := acct.ShardCount()
	if count >= store.MaxShards && acct.Warn() {
		d.warnSaturated(ctx, img.Bucket)
	}
	if img.IsEvaluable() && !img.HasValidUntil && acct.MayDouble(d.Uptime(), memory.DoublingPause) {
		switch changed, err := d.Upkeep.Double(ctx, acct, img.Bucket, count, left); {
		case err == nil && changed:
			return errShardsChanged
		case err != nil && !errors.Is(err, store.ErrThrottled) && !errors.Is(err, store.ErrConflict):
			return err
		}
	}
	if acct.ShardCount() > 1 {
		return errNoWritesLeft
	}
	return process.Sleep(ctx, left, wait)
}

func (d *Driver) warnSaturated(ctx context.Context, b store.Bucket) {
	d.Logger.WarnContext(ctx, "bucket is written to faster than its shards sustain",
		"warning", store.SaturatedWarning{Entity: b.Entity, Resource: b.Resource})
}

// debit carries a claim out against the bucket item that it was routed to.
func (d *Driver) debit(ctx context.Context, c *Claim, left <-chan struct{}) error {
	c.short, c.portions = false, nil
	if err := d.sharing.debit(ctx, c, left); err != nil || !c.Granted {
		return err
	}
	if wait := c.until - d.Uptime(); wait > 0 {
		return process.Sleep(ctx, left, wait)
	}
	return nil
}

// WaitsUntil is until when a caller waits, by the uptime, for its turn at a shared bucket and
// for tokens that the bucket has not earned yet. The rest of its time is for writes.
func (d *Driver) WaitsUntil(ctx context.Context) time.Duration {
	if !d.sharing.isQueued() {
		return 0
	}
	most := d.Time()
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, d.Until(deadline))
	}
	return d.Uptime() + most*4/5 // a call has at least seven eighths
}

// gather debits a claim from several shards at once, because the tried shards could
// not serve it, or because it exceeds any share. It ends with the claim granted, or
// refused because all shards together hold too little.
func (d *Driver) gather(ctx context.Context, c *Claim, left <-chan struct{}) error {
	c.short = false
	return d.sharing.gather(ctx, c, left)
}
