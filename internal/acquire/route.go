package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
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

// A writer debits claims, each on its own bucket. Who writes when is decided in three steps:
// which shard (route), which caller of this process (the lane), and which process (the
// condition of the write, and turns).
//
// Invariant: a claim is debited once and whole, by one write or one transaction, or not at
// all. A write whose answer was lost is not sent again, because it may have been applied.
// The caller then gets an error, and the bucket earns the tokens again in time.
type writer struct {
	sharing

	upkeep    *upkeep.Driver
	inspector *Inspector
	trust     time.Duration // how long an image may refuse; negative is never
}

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
func (wr *writer) route(ctx context.Context, c *Claim, left <-chan struct{}) error {
	var tried []int // found short, or throttled
	var resting []int
	short := 0 // the number of tried shards that were short
	var failure error
	for routes := 0; routes < maxRoutes; routes++ {
		next, shard := memory.Together, 0
		if failure != nil || !c.acct.IsScarce(c.Terms.Amounts, wr.Uptime()) {
			next, shard = c.acct.Choose(&c.Terms, tried, resting, wr.Moment(), wr.trust, wr.Rand)
		}
		var err error
		switch {
		case next == memory.Resting && short == 0:
			if err := wr.waitForWrites(ctx, c, left); err != nil {
				return err
			}
			resting, routes = nil, routes-1
			continue
		case next != memory.Alone && short == 0 && failure != nil:
			return failure
		case next == memory.Nowhere && short == 0:
			return wr.countBraked(c)
		case next != memory.Alone, short > maxRetries:
			next = memory.Together
			err = wr.gather(ctx, c, left)
		default:
			c.Shard = shard
			err = wr.debit(ctx, c, left)
		}
		switch {
		case errors.Is(err, errShardsChanged):
			tried, resting, short = nil, nil, 0
		case errors.Is(err, errNoWritesLeft):
			resting, routes = append(resting, shard), routes-1
		case errors.Is(err, store.ErrThrottled):
			failure = err
			tried = append(tried, shard)
			if next == memory.Together || c.acct.ShardCount() == 1 && !wr.probe(ctx, c, left) {
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
func (wr *writer) waitForWrites(ctx context.Context, c *Claim, left <-chan struct{}) error {
	const writeEarnedIn = time.Millisecond // by the hidden write limit of a shard
	changed, err := wr.double(ctx, c.acct, c.Bucket, left)
	if changed || err != nil {
		return err
	}
	return process.Sleep(ctx, left, writeEarnedIn)
}

// probe finds out whether a bucket whose only known shard was throttled has other
// shards.
func (wr *writer) probe(ctx context.Context, c *Claim, left <-chan struct{}) bool {
	_, err := c.acct.Reshaping().Do(ctx, left, func() {
		b := c.Bucket
		b.Shard = 1
		if loaded, err := wr.Store.Load(ctx, &store.Load{Bucket: &b}); err == nil && loaded.Image != nil {
			c.acct.Remember(loaded.Image, wr.Moment())
		}
	})
	return err == nil && c.acct.ShardCount() > 1
}

// double doubles the shards of a bucket, because they earn too few writes. It reports whether
// there are more now. A bucket that cannot have more is worth a warning.
func (wr *writer) double(ctx context.Context, acct *account, b store.Bucket, left <-chan struct{}) (changed bool, err error) {
	count := acct.ShardCount()
	if count < store.MaxShards {
		changed, err = wr.upkeep.Double(ctx, &acct.Account, b, count, left)
		if changed || process.IsTurnedAway(err) {
			err = nil
		}
	} else if acct.Warn() {
		wr.Logger.WarnContext(ctx, "bucket is written to faster than its shards sustain",
			"warning", store.SaturatedWarning{Entity: b.Entity, Resource: b.Resource})
	}
	return changed, err
}

// doubleOrWait handles an item that has used its hidden write limit, and has its next write
// after wait. It doubles the bucket if that helps. It returns nil after the wait, if it
// can do no more.
func (wr *writer) doubleOrWait(ctx context.Context, acct *account, img *store.Image, wait time.Duration, left <-chan struct{}) error {
	if count := acct.ShardCount(); count >= store.MaxShards || img.IsEvaluable() && !img.HasValidUntil && acct.MayDouble(wr.Uptime(), memory.DoublingPause) {
		if changed, err := wr.double(ctx, acct, img.Bucket, left); changed || err != nil {
			return cmp.Or(err, errShardsChanged)
		}
	}
	if acct.ShardCount() > 1 {
		return errNoWritesLeft
	}
	return process.Sleep(ctx, left, wait)
}

// debit carries a claim out against the bucket item that it was routed to.
func (wr *writer) debit(ctx context.Context, c *Claim, left <-chan struct{}) error {
	c.short, c.portions = false, nil
	if err := wr.debitInLane(ctx, c, left); err != nil || !c.Granted {
		return err
	}
	if wait := c.until - wr.Uptime(); wait > 0 {
		return process.Sleep(ctx, left, wait)
	}
	return nil
}
