package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
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
		next, shard := together, 0
		if failure != nil || !c.acct.isScarce(c, l.uptime()) {
			next, shard = c.acct.choose(c, tried, busy, l.moment(), l.trust, l.rand)
		}
		var err error
		switch {
		case next == resting && short == 0:
			if err := l.allBusy(ctx, c, left); err != nil {
				return err
			}
			busy, routes = nil, routes-1
			continue
		case next != alone && short == 0 && failure != nil:
			return failure
		case next == nowhere && short == 0:
			return l.isBraked(c)
		case next != alone, short > maxRetries:
			next = together
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
			if next == together || c.acct.shardCount() == 1 && !l.probe(ctx, c, left) {
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
	if count := c.acct.shardCount(); count < MaxShards {
		switch changed, err := l.widen(ctx, c.acct, c.Bucket, count, left); {
		case changed:
			return nil
		case err != nil && !isTurnedAway(err):
			return err
		}
	} else if c.acct.warn() {
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

// A choice is the next place for a claim.
type choice uint8

const (
	alone    choice = iota // to one shard
	together               // to all shards: no shard is known to serve it alone
	resting                // nowhere until a shard that could serve it has earned its next write
	nowhere                // every shard that could serve it is braked
)

// choose picks a shard at random among those that are not known to be short. It leaves
// out shards that were tried, that were throttled just now, or that must first earn
// their next write. The caller is about to write to the chosen shard.
func (a *account) choose(c *claim, tried, busy []int, m moment, trust time.Duration, draw func(int64) int64) (next choice, shard int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() {
		if next == alone {
			a.shardLocked(shard).brake.test(m.up)
		}
	}()
	n := max(1, a.count)
	if n > 1 && m.up-a.countedAt > countAge && !slices.Contains(tried, 0) {
		return alone, 0 // to learn the number of shards again
	}
	var room [MaxShards]int
	open, exist, braked, rest := room[:0], n, 0, 0
	for i := range n {
		switch {
		case a.isUnbornLocked(i, n):
			exist--
		case slices.Contains(tried, i) || n > 1 && a.isShortLocked(c, i, n, m, trust):
		case i < len(a.shards) && a.shards[i] != nil && a.shards[i].brake.rests(m.up):
			braked++
		case slices.Contains(busy, i) || n > 1 && a.isRestingLocked(i, m, trust):
			rest++
		default:
			open = append(open, i)
		}
	}
	switch {
	case len(open) > 1:
		return alone, open[draw(int64(len(open)))]
	case len(open) == 1:
		return alone, open[0]
	case rest > 0 && rest+braked == exist:
		return resting, 0
	case braked > 0 && rest+braked == exist || len(tried) == n && n == 1:
		return nowhere, 0
	}
	return together, 0
}

// isUnbornLocked reports whether a shard is known not to have been split off its
// sibling yet.
func (a *account) isUnbornLocked(i, n int) bool {
	if i < n/2 || i < len(a.shards) && a.shards[i] != nil && a.shards[i].img != nil || i-n/2 >= len(a.shards) {
		return false
	}
	donor := a.shards[i-n/2]
	return donor != nil && donor.img != nil && donor.img.ShardCount <= n/2
}

// isRestingLocked reports whether a shard is known to have used its hidden write limit
// for now.
func (a *account) isRestingLocked(i int, m moment, trust time.Duration) bool {
	img := a.imageLocked(i, m.up, trust)
	return img != nil && img.Writes.Name != "" && plan.WritesLeft(img, m.now) < plan.WriteCost
}

// isShortLocked reports whether a shard is known to be short for a claim. Its share is
// too small, or it recently held too little and has not earned enough since.
func (a *account) isShortLocked(c *claim, i, n int, m moment, trust time.Duration) bool {
	img := a.imageLocked(i, m.up, trust)
	like := img
	if like == nil {
		like = a.newest
	}
	if like == nil || c.terms.Target == nil || c.terms.Target.Differs(like) {
		return false
	}
	for _, amount := range c.terms.Amounts {
		s, ok := like.Limit(amount.Limit)
		if !ok || amount.Milli <= 0 {
			continue
		}
		part := plan.Share(s.Params, i, n)
		if amount.Milli > part.Capacity || img != nil && !part.Admits(s.Tokens, img.RefilledAt, m.now, amount.Milli) {
			return true
		}
	}
	return false
}

// probe finds out whether a bucket whose only known shard was throttled has other
// shards.
func (l *Limiter) probe(ctx context.Context, c *claim, left <-chan struct{}) bool {
	_, err := c.acct.widening.Do(ctx, left, func() {
		b := c.Bucket
		b.Shard = 1
		if loaded, err := l.store.Load(ctx, &store.Load{Bucket: &b}); err == nil && loaded.Image != nil {
			c.acct.remember(loaded.Image, l.moment())
		}
	})
	return err == nil && c.acct.shardCount() > 1
}

// A brake limits the requests of a process to a partition that throttles (ADR 015).
// While it is pulled, the process sends one request in each interval. A throttle
// doubles the interval; an answer halves it, until none is left.
type brake struct {
	delay  time.Duration // the interval, 0 if the brake is not pulled
	until  time.Duration // nothing is sent before this, by [Limiter.uptime]
	tested time.Duration // nothing else is sent before this, because one request was sent
	pulled time.Duration // when it was pulled for the last time
}

// Bounds of a brake's interval, and how long a brake remembers a throttle.
const (
	minBrake    = 10 * time.Millisecond
	maxBrake    = time.Second
	brakeMemory = 10 * time.Second
)

func (b *brake) holds(up time.Duration) bool { return up < b.until }

// rests reports whether the process must send nothing now, or has sent its request for
// this interval.
func (b *brake) rests(up time.Duration) bool { return b.holds(up) || up < b.tested }

// test lets one request through for this interval.
func (b *brake) test(up time.Duration) {
	switch {
	case b.delay == 0:
	case up-b.pulled > brakeMemory:
		*b = brake{}
	default:
		b.tested = up + b.delay
	}
}

// ease halves the interval.
func (b *brake) ease() {
	if b.delay /= 2; b.delay < minBrake {
		*b = brake{}
	}
}

// pull doubles the interval, unless the throttled request was sent before the brake was
// last pulled.
func (b *brake) pull(sent, up time.Duration, draw func(int64) int64) {
	if b.delay > 0 && sent < b.pulled {
		return
	}
	b.delay = min(maxBrake, max(minBrake, 2*b.delay))
	b.until, b.pulled = up+b.delay/2+time.Duration(draw(int64(b.delay/2)))+1, up
}

// answered records the result of a write to a shard: a throttle pulls the shard's
// brake, an answer eases it.
func (l *Limiter) answered(ctx context.Context, acct *account, b Bucket, err error, sent time.Duration) {
	if err == nil {
		acct.release(b.Shard)
		return
	}
	if !errors.Is(err, ErrThrottled) {
		return
	}
	l.counts.throttled.Add(1)
	acct.brake(b.Shard, sent, l.uptime(), l.rand)
	l.relieveThrottled(ctx, acct, b, err)
}

// turnedAway records which items of a transaction were throttled, if any.
func (l *Limiter) turnedAway(ctx context.Context, acct *account, joint store.Joint, err error, sent time.Duration, bucket func(i int) Bucket) {
	if throttled := slices.ContainsFunc(joint.Refusals, func(r store.Refusal) bool { return r.Throttled }); !throttled && !errors.Is(err, ErrThrottled) {
		return
	}
	l.counts.throttled.Add(1)
	for i, r := range joint.Refusals {
		if r.Throttled {
			acct.brake(bucket(i).Shard, sent, l.uptime(), l.rand)
		}
	}
	l.relieveThrottled(ctx, acct, bucket(0), err)
}

// relieveThrottled begins to double a bucket if the partition of one of its items
// throttles.
func (l *Limiter) relieveThrottled(ctx context.Context, acct *account, b Bucket, err error) {
	if !errors.Is(err, ErrHotPartition) {
		return
	}
	l.widenInBackground(ctx, acct, b)
}

// braked returns the shards that the process must not write to now.
func (a *account) braked(up time.Duration) (held []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, s := range a.shards {
		if s != nil && s.brake.holds(up) {
			held = append(held, i)
		}
	}
	return held
}

// testBrake records that the process is writing to a shard.
func (a *account) testBrake(i int, up time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shardLocked(i).brake.test(up)
}

func (a *account) release(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shardLocked(i).brake.ease()
}

func (a *account) brake(i int, sent, up time.Duration, draw func(int64) int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shardLocked(i).brake.pull(sent, up, draw)
}
