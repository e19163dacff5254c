package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
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
// all. A write whose answer was lost is sent again under its sequence, and applied once (ADR 060). If
// no answer comes in time, the caller gets an error. The tokens go back once an image tells.
type writer struct {
	sharing

	upkeep    *upkeep.Driver
	inspector *Inspector
	settler   *Settler
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
	s := search{wr: wr, c: c, left: left}
	return s.run(ctx)
}

// A search is a claim on its way among the shards of its bucket.
type search struct {
	wr   *writer
	c    *Claim
	left <-chan struct{}

	routes  int   // how often the claim was routed
	tried   []int // shards that were short, or throttled
	resting []int
	short   int   // the number of tried shards that were short
	failure error // of the last throttled shard
}

// run routes the claim until it is decided.
func (s *search) run(ctx context.Context) error {
	for ; s.routes < maxRoutes; s.routes++ {
		on, shard := s.choose()
		var err error
		switch {
		case on == memory.Resting && s.short == 0:
			if err := s.wr.waitForWrites(ctx, s.c, s.left); err != nil {
				return err
			}
			s.resting, s.routes = nil, s.routes-1
			continue
		case on != memory.Alone && s.short == 0 && s.failure != nil:
			return s.failure
		case on == memory.Nowhere && s.short == 0:
			return s.wr.countBraked(s.c)
		case on != memory.Alone, s.short > maxRetries:
			on = memory.Together
			err = s.wr.gather(ctx, s.c, s.left)
		default:
			s.c.Shard = shard
			err = s.wr.debit(ctx, s.c, s.left)
		}
		if decided, err := s.meet(ctx, on, err); decided {
			return err
		}
	}
	return fmt.Errorf("debit %s of %s: its shards changed %d times: %w", s.c.Resource, s.c.Entity, maxRoutes, store.ErrConflict)
}

// goOn is run after the claim was routed once, and met err there.
func (s *search) goOn(ctx context.Context, on memory.Choice, err error) error {
	if decided, err := s.meet(ctx, on, err); decided {
		return err
	}
	s.routes++
	return s.run(ctx)
}

// choose chooses a shard, or all together.
func (s *search) choose() (on memory.Choice, shard int) {
	if acct := s.c.acct; s.failure != nil || !acct.IsScarce(s.c.Terms.Amounts, s.wr.Uptime()) {
		return acct.Choose(&s.c.Terms, s.tried, s.resting, s.wr.Moment(), s.wr.trust, s.wr.Rand)
	}
	return memory.Together, 0
}

// meet takes in what the claim met on the shard that it was routed to, or on all together. It
// reports whether the claim is decided.
func (s *search) meet(ctx context.Context, on memory.Choice, err error) (decided bool, _ error) {
	switch {
	case errors.Is(err, errShardsChanged):
		s.tried, s.resting, s.short = nil, nil, 0
	case errors.Is(err, errNoWritesLeft):
		s.resting, s.routes = append(s.resting, s.c.Shard), s.routes-1
	case errors.Is(err, store.ErrThrottled):
		s.failure = err
		s.tried = append(s.tried, s.c.Shard)
		if on == memory.Together || s.c.acct.ShardCount() == 1 && !s.wr.probe(ctx, s.c, s.left) {
			return true, err
		}
	case err != nil || !s.c.short:
		return true, err
	default:
		s.tried = append(s.tried, s.c.Shard)
		s.short++
	}
	return false, nil
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
	if count := acct.ShardCount(); count >= store.MaxShards || plan.WasPlain(img, img.RefilledAt) && acct.MayDouble(wr.Uptime(), memory.DoublingPause) {
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
	return wr.earned(ctx, c, wr.debitInLane(ctx, c, left), left)
}

// earned waits until a bucket has earned what a claim took ahead. err is the error of the
// claim.
func (wr *writer) earned(ctx context.Context, c *Claim, err error, left <-chan struct{}) error {
	if err != nil || !c.Granted {
		return err
	}
	if wait := c.until - wr.Uptime(); wait > 0 {
		return process.Sleep(ctx, left, wait)
	}
	return nil
}
