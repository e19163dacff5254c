package acquire

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// pauseIfShared waits until the pause before a write has passed, or until the caller leaves.
func (d *Driver) pauseIfShared(ctx context.Context, c *Claim, left <-chan struct{}) error {
	if !d.sharing.isQueued() {
		return nil
	}
	return process.Sleep(ctx, left, c.acct.PauseLeft(c.Shard, c.Terms.Amounts, d.Uptime()))
}

// pauseBeforeTry waits before another try. If a write was refused only for its stamp and the
// item covers it, it may be sent again at once. No write follows an image that shows
// too little.
func (p *pursuit) pauseBeforeTry(ctx context.Context, c *Claim, tries int) error {
	err := p.d.Pause(ctx, p.left, tries)
	if err != nil {
		return err
	}
	if tries > 0 {
		p.makeHeard(ctx)
		if !p.lacked || p.fresh && p.img != nil && !c.Terms.Covers(p.img, p.d.Now()) {
			return nil
		}
	}
	return p.d.pauseIfShared(ctx, c, p.left)
}

// makeHeard tells other processes that this one writes to the item too, if all its
// recent writes were refused. Others know writers by the item's count of writes. A
// write that debits nothing is applied at any balance.
func (p *pursuit) makeHeard(ctx context.Context) {
	if p.img == nil || !p.fresh || !p.d.sharing.isQueued() || !p.acct.IsUnheard(p.c.Shard, p.d.Uptime()) {
		return
	}
	m := p.d.Moment()
	take := (&plan.Debit{Bucket: p.img.Bucket}).Take(p.img, m.Now)
	out, err := p.d.Send(ctx, &p.acct.Account, p.img.Bucket, memory.StampUse{}, m, func(ctx context.Context) (store.Outcome, error) { return p.d.Store.Take(ctx, take) })
	if err == nil && out.Image != nil {
		p.see(out.Image, true)
		p.met = p.d.Uptime()
	}
}
