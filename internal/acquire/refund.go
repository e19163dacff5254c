package acquire

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// Refund returns the amounts that claims have debited, if any. It credits all their
// shards at once, and then credits other shards with the tokens that find no room
// there. It gets the time of a call anew, because the call's own time may already be
// up. If the store turns a return away, Refund repeats it in the background, after
// the caller has its answer. If nobody can tell whether a return was applied, the
// tokens stay debited, which is the safe side.
func (d *Driver) Refund(ctx context.Context, claims ...*Claim) {
	claims = slices.DeleteFunc(claims, func(c *Claim) bool { return c == nil || !c.Granted })
	if len(claims) == 0 {
		return
	}
	ctx = d.Detach(ctx)
	for _, c := range claims {
		d.refundOne(ctx, c)
	}
}

func (d *Driver) refundOne(ctx context.Context, c *Claim) {
	c.Granted = false
	parts := c.parts()
	spare := make([][]store.Amount, len(parts))
	d.AtOnce(len(parts), func(i int) {
		img, back := parts[i].Image, negated(parts[i].Amounts)
		var err error
		if spare[i], err = d.adjust(ctx, img, back); process.IsTurnedAway(err) {
			d.InBackground(func() {
				d.LogKept(ctx, c.Bucket, d.Insist(ctx, func(ctx context.Context) error { return d.giveBack(ctx, img, back) }))
			})
		} else {
			d.LogKept(ctx, c.Bucket, err)
		}
	})
	d.LogKept(ctx, c.Bucket, d.passOn(ctx, parts[0].Image, total(spare)))
}

// giveBack returns amounts to the shard that they were taken from. It credits other
// shards with the tokens that find no room there.
func (d *Driver) giveBack(ctx context.Context, img *store.Image, back []store.Amount) error {
	over, err := d.adjust(ctx, img, back)
	if err != nil {
		return err
	}
	return d.passOn(ctx, img, over)
}

// LogKept logs that tokens were not returned, because of err.
func (d *Driver) LogKept(ctx context.Context, b store.Bucket, err error) {
	if err != nil {
		d.Logger.WarnContext(ctx, "tokens were not returned", "entity", b.Entity, "resource", b.Resource, "error", err)
	}
}

// takeBack returns what a claim has debited, before the claim is decided again. It
// fails if nobody can tell whether the tokens were returned: deciding again could
// debit the claim twice, or not at all.
func (d *Driver) takeBack(ctx context.Context, c *Claim) error {
	if !c.Granted {
		return nil
	}
	c.Granted = false
	parts := c.parts()
	errs := make([]error, len(parts))
	d.AtOnce(len(parts), func(i int) {
		back := negated(parts[i].Amounts)
		errs[i] = d.Insist(ctx, func(ctx context.Context) error { return d.giveBack(ctx, parts[i].Image, back) })
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("return what was taken of %s of %s by other limits: %w", c.Resource, c.Entity, err)
	}
	return nil
}
