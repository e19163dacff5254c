package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// maxRetries is how many other shards a claim tries after the first one cannot
	// serve it. After that, the limiter looks at all shards together.
	maxRetries = 2
	// maxRoutes bounds how often a claim is routed. To reach it, the set of shards must
	// change every time.
	maxRoutes = 12
)

// route debits a claim from any shard of a bucket that can serve it. A claim is refused
// only if all shards together cannot serve it.
func (l *Limiter) route(ctx context.Context, c *claim, left <-chan struct{}) error {
	var tried []int // found short, or throttled
	var busy []int
	short := 0 // the number of tried shards that were short
	var failure error
	for routes := 0; routes < maxRoutes; routes++ {
		next, shard := memory.Together, 0
		if failure != nil || !c.acct.IsScarce(c.terms.Amounts, l.uptime()) {
			next, shard = c.acct.Choose(&c.terms, tried, busy, l.moment(), l.trust, l.rand)
		}
		var err error
		switch {
		case next == memory.Resting && short == 0:
			if err := l.allBusy(ctx, c, left); err != nil {
				return err
			}
			busy, routes = nil, routes-1
			continue
		case next != memory.Alone && short == 0 && failure != nil:
			return failure
		case next == memory.Nowhere && short == 0:
			return l.isBraked(c)
		case next != memory.Alone, short > maxRetries:
			next = memory.Together
			err = l.gather(ctx, c, left)
		default:
			c.Shard = shard
			err = l.debit(ctx, c, left)
		}
		switch {
		case errors.Is(err, errRerouted):
			tried, busy, short = nil, nil, 0
		case errors.Is(err, errBusy):
			busy, routes = append(busy, shard), routes-1
		case errors.Is(err, ErrThrottled):
			failure = err
			tried = append(tried, shard)
			if next == memory.Together || c.acct.ShardCount() == 1 && !l.probe(ctx, c, left) {
				return err
			}
		case err != nil || !c.short:
			return err
		default:
			tried = append(tried, shard)
			short++
		}
	}
	return fmt.Errorf("debit %s of %s: its shards changed %d times: %w", c.Resource, c.Entity, maxRoutes, ErrConflict)
}

// isBraked is the error of a claim that is not sent, because the shards that could
// serve it were throttled just now.
func (l *Limiter) isBraked(c *claim) error {
	l.counts.braked.Add(1)
	return fmt.Errorf("debit %s of %s: its partition was throttled just now: %w: %w", c.Resource, c.Entity, ErrThrottled, ErrUnavailable)
}

// allBusy handles a claim for which every shard that could serve it must first earn its
// next write. The bucket then needs more shards, however recently it was doubled.
func (l *Limiter) allBusy(ctx context.Context, c *claim, left <-chan struct{}) error {
	if count := c.acct.ShardCount(); count < MaxShards {
		switch changed, err := l.widen(ctx, &c.acct.Account, c.Bucket, count, left); {
		case changed:
			return nil
		case err != nil && !isTurnedAway(err):
			return err
		}
	} else if c.acct.Warn() {
		l.warnSaturated(ctx, c.Bucket)
	}
	return sleep(ctx, left, busyWait)
}

// errRerouted says that the set of a bucket's shards has changed, so that the claim
// must choose again.
var errRerouted = errors.New("the shards have changed")

// errBusy says that a shard has used its hidden write limit for now, and that there are
// other shards.
var errBusy = errors.New("the shard is busy")

// busyWait is the time in which a shard's hidden write limit earns one write.
const busyWait = time.Millisecond

// probe finds out whether a bucket whose only known shard was throttled has other
// shards.
func (l *Limiter) probe(ctx context.Context, c *claim, left <-chan struct{}) bool {
	_, err := c.acct.Reshaping.Do(ctx, left, func() {
		b := c.Bucket
		b.Shard = 1
		if loaded, err := l.store.Load(ctx, &store.Load{Bucket: &b}); err == nil && loaded.Image != nil {
			c.acct.Remember(loaded.Image, l.moment())
		}
	})
	return err == nil && c.acct.ShardCount() > 1
}

// answered records the result of a write to a shard: a throttle pulls the shard's
// brake, an answer eases it.
func (l *Limiter) answered(ctx context.Context, acct *memory.Account, b Bucket, err error, sent time.Duration) {
	if err == nil {
		acct.EaseBrake(b.Shard)
		return
	}
	if !errors.Is(err, ErrThrottled) {
		return
	}
	l.counts.throttled.Add(1)
	acct.PullBrake(b.Shard, sent, l.uptime(), l.rand)
	l.relieveThrottled(ctx, acct, b, err)
}

// turnedAway records which items of a transaction were throttled, if any.
func (l *Limiter) turnedAway(ctx context.Context, acct *memory.Account, joint store.Joint, err error, sent time.Duration, bucket func(i int) Bucket) {
	if throttled := slices.ContainsFunc(joint.Refusals, func(r store.Refusal) bool { return r.Throttled }); !throttled && !errors.Is(err, ErrThrottled) {
		return
	}
	l.counts.throttled.Add(1)
	for i, r := range joint.Refusals {
		if r.Throttled {
			acct.PullBrake(bucket(i).Shard, sent, l.uptime(), l.rand)
		}
	}
	l.relieveThrottled(ctx, acct, bucket(0), err)
}

// relieveThrottled begins to double a bucket if the partition of one of its items
// throttles.
func (l *Limiter) relieveThrottled(ctx context.Context, acct *memory.Account, b Bucket, err error) {
	if !errors.Is(err, ErrHotPartition) {
		return
	}
	l.widenInBackground(ctx, acct, b)
}
