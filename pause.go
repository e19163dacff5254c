package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// plentyOf is the balance from which a limit is not scarce on a shard, for a writer
// that asks for an amount.
func plentyOf(part bucket.Limit, ask int64) int64 {
	return max(1, min(max(part.Earned(0, plentyTime), plentyAsks*ask), part.Capacity/2))
}

// scarcityPause is the pause of a writer that asks for an amount of a limit, in
// milliseconds. It is 0 at a plentiful balance, and longest at an empty one.
func scarcityPause(part bucket.Limit, balance, ask int64) float64 {
	plenty := plentyOf(part, ask)
	if balance >= plenty {
		return 0
	}
	longest := int64(longestPause)
	if ms, ok := part.Wait(0, 0, 0, min(pauseAsks*ask, part.Capacity)); ok {
		longest = min(max(longest, ms), slowestPause)
	}
	return float64(longest) * (1 - float64(max(0, balance))/float64(plenty))
}

// pause is how long a writer waits after the last write before it sends one for a
// claim, in milliseconds. It is 0 if no other process writes. A write from far away is
// decided on an older image, so it is refused more often: such a writer pauses for a
// shorter time.
func (s *shard) pause(c *claim, up time.Duration) float64 {
	k := &s.contention
	if s.img == nil || !k.isShared(up) {
		return 0
	}
	pause := longestPause * min(1, max(0, (k.load-easyLoad)/(fullLoad-easyLoad)))
	for _, a := range c.terms.Amounts {
		if l, ok := s.img.Limit(a.Limit); ok && a.Milli > 0 {
			part := plan.ShareOf(s.img, l.Params)
			pause = max(pause, scarcityPause(part, part.Balance(l.Tokens, s.img.RefilledAt, s.seen.now+k.way), a.Milli))
		}
	}
	return pause * k.jitter * farWay / float64(farWay+k.way)
}

// heldBack is how long a claim on a shard must still wait before it is sent.
func (a *account) heldBack(c *claim, up time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(c.Shard)
	pause := time.Duration(s.pause(c, up)) * time.Millisecond
	if pause == 0 {
		return 0
	}
	return s.contention.sentAt + pause - up
}

// holdBack waits until the pause before a write has passed, or until the caller leaves.
func (l *Limiter) holdBack(ctx context.Context, c *claim, left <-chan struct{}) error {
	if l.places.Base == 0 {
		return nil
	}
	return sleep(ctx, left, c.acct.heldBack(c, l.uptime()))
}

// A pool is what all shards of a bucket together held of a limit when they were last
// seen.
type pool struct {
	limit  bucket.Limit // not divided
	held   int64        // millitokens, without the debts of single shards
	plenty int64        // the sum from which the limit is not scarce on single shards
	whole  bool         // all shards were seen lately
}

func (a *account) poolLocked(amount store.Amount, up time.Duration) pool {
	p := pool{whole: a.count > 0}
	for i := range a.count {
		img := a.imageLocked(i, up, contentionMemory)
		if img == nil {
			p.whole = false
			continue
		}
		if l, ok := img.Limit(amount.Limit); ok {
			part := plan.ShareOf(img, l.Params)
			p.limit = plan.WholeOf(&l)
			p.held += max(0, part.Balance(l.Tokens, img.RefilledAt, a.shards[i].seen.now))
			p.plenty += max(amount.Milli, plentyOf(part, amount.Milli))
		}
	}
	return p
}

// isScarce reports whether a shared bucket of several shards holds so little that a
// claim is better decided on all of them at once. No single shard is likely to serve
// the claim then.
func (a *account) isScarce(c *claim, up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count > 1 && a.isSharedLocked(up) && slices.ContainsFunc(c.terms.Amounts, func(amount store.Amount) bool {
		p := a.poolLocked(amount, up)
		return p.whole && amount.Milli > 0 && p.held < p.plenty
	})
}

// beginRound is how long claims on all shards of a shared bucket wait for the next
// round. After the last round they pause as a writer to one item does.
func (a *account) beginRound(c *claim, up time.Duration, draw func(int64) int64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isSharedLocked(up) {
		return 0
	}
	var pause float64
	for _, amount := range c.terms.Amounts {
		if p := a.poolLocked(amount, up); amount.Milli > 0 && p.limit.Capacity > 0 {
			pause = max(pause, scarcityPause(p.limit, p.held, amount.Milli))
		}
	}
	at := max(up, a.roundAt+time.Duration(pause*drawJitter(draw))*time.Millisecond)
	a.roundAt = at
	return at - up
}

// drawJitter draws the factor of a pause, from 0.5 to 1.5.
func drawJitter(draw func(int64) int64) float64 { return 0.5 + float64(draw(milli))/milli }

// isUnheard reports whether all recent writes of this process to a shard were refused.
// Other processes then do not know of this one.
func (a *account) isUnheard(shard int, up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	return c.refusedAt != 0 && up-c.refusedSince > contentionMemory/2
}

// space waits before another try. If a write was refused only for its stamp and the
// item covers it, it may be sent again at once. No write follows an image that shows
// too little.
func (p *pursuit) space(ctx context.Context, c *claim, tries int) error {
	err := p.l.pause(ctx, p.left, tries)
	if err != nil {
		return err
	}
	if tries > 0 {
		p.announce(ctx)
		if !p.lacked || p.fresh && p.img != nil && !c.terms.Covers(p.img, p.l.now()) {
			return nil
		}
	}
	return p.l.holdBack(ctx, c, p.left)
}

// announce tells other processes that this one writes to the item too, if all its
// recent writes were refused. Others know writers by the item's count of writes. A
// write that debits nothing is applied at any balance.
func (p *pursuit) announce(ctx context.Context) {
	if p.img == nil || !p.fresh || p.l.places.Base == 0 || !p.acct.isUnheard(p.c.Shard, p.l.uptime()) {
		return
	}
	m := p.l.moment()
	take := (&plan.Debit{Bucket: p.img.Bucket}).Take(p.img, m.now)
	out, err := p.l.send(ctx, p.acct, p.img.Bucket, stampUse{}, m, func(ctx context.Context) (store.Outcome, error) { return p.l.store.Take(ctx, take) })
	if err == nil && out.Image != nil {
		p.see(out.Image, true)
		p.met = p.l.uptime()
	}
}

// freeTries is the number of retries without a pause before them.
const freeTries = 3

// pause separates the tries of a refused claim. The second to the fourth have no pause
// before them; later, every other try has a growing random one. After a pause the image
// is old, so the write is likely to bring no more than a new image.
func (l *Limiter) pause(ctx context.Context, left <-chan struct{}, tries int) error {
	const step, most = 2 * time.Millisecond, 50 * time.Millisecond
	var d time.Duration
	if tries > freeTries && tries%2 == 0 {
		d = time.Duration(l.rand(int64(min(most, step<<min(tries-freeTries, 10))))) + 1
	}
	return sleep(ctx, left, d)
}

// sleep waits, unless the caller leaves or the time for the whole claim is up.
func sleep(ctx context.Context, left <-chan struct{}, d time.Duration) error {
	return unavailable(calls.Sleep(ctx, left, d))
}

// unavailable marks the error of a wait that ended because the time was up.
func unavailable(err error) error {
	if err == nil || errors.Is(err, calls.ErrLeft) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
