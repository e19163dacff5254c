package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// holdBack waits until the pause before a write has passed, or until the caller leaves.
func (l *Limiter) holdBack(ctx context.Context, c *claim, left <-chan struct{}) error {
	if l.places.Base == 0 {
		return nil
	}
	return sleep(ctx, left, c.acct.PauseLeft(c.Shard, c.terms.Amounts, l.uptime()))
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
	if p.img == nil || !p.fresh || p.l.places.Base == 0 || !p.acct.IsUnheard(p.c.Shard, p.l.uptime()) {
		return
	}
	m := p.l.moment()
	take := (&plan.Debit{Bucket: p.img.Bucket}).Take(p.img, m.Now)
	out, err := p.l.send(ctx, &p.acct.Account, p.img.Bucket, memory.StampUse{}, m, func(ctx context.Context) (store.Outcome, error) { return p.l.store.Take(ctx, take) })
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
