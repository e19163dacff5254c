package acquire

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// compareIfDue begins or joins a comparison of a bucket if w was read longer ago than
// the time to live. Otherwise it returns nil. It also returns nil if nothing is known
// of the bucket, because the claim is then about to read everything.
func (d *Driver) compareIfDue(ctx context.Context, c *Claim, w *plan.Wanted) *comparison {
	up := d.Uptime()
	if w == nil || d.Config.IsYoung(w, up) || !c.acct.IsKnown(up, memory.ImageAge) {
		return nil
	}
	return d.compare(ctx, c.acct, c.Bucket)
}

// compare begins to read the configuration of a bucket. If such a read is under way,
// compare returns that one. But where configuration is not kept, it begins a new
// read, because the other is older than the claim. It returns nil if a read has just
// failed.
func (d *Driver) compare(ctx context.Context, acct *account, b store.Bucket) *comparison {
	cmp, first := acct.comparisons.begin(d.Uptime(), d.Config.TTL() > 0)
	if !first {
		return cmp
	}
	d.Soon(func() {
		w, err := d.Config.Refresh(d.Detach(ctx), b.Entity, b.Resource)
		if err == nil {
			acct.Want(w)
		} else {
			d.Logger.WarnContext(ctx, "bucket not compared with its configuration", "entity", b.Entity, "resource", b.Resource, "error", err)
		}
		acct.comparisons.end(cmp, err, d.Uptime())
	})
	return cmp
}

// await waits for a comparison, if there is one, but not for long. It reports whether
// the comparison succeeded.
func (d *Driver) await(ctx context.Context, cmp *comparison, left <-chan struct{}) bool {
	if cmp == nil {
		return false
	}
	select {
	case <-cmp.done:
		return cmp.err == nil
	default:
	}
	t := time.NewTimer(d.Part())
	defer t.Stop()
	select {
	case <-cmp.done:
		return cmp.err == nil
	case <-t.C:
	case <-left:
	case <-ctx.Done():
	}
	return false
}

// verifySoon is [process.Process.Verify] for a claim. It gives up early, and at once if a read has just
// failed.
func (d *Driver) verifySoon(ctx context.Context, acct *account, b store.Bucket) (*plan.Wanted, error) {
	if err := acct.comparisons.failedLately(d.Uptime()); err != nil {
		return nil, err
	}
	ctx, cancel := d.Shorten(ctx)
	defer cancel()
	w, err := d.Verify(ctx, &acct.Account, b)
	acct.comparisons.note(err, d.Uptime())
	return w, err
}

// takeAsIs makes a claim take an item as it is, because the configuration could not
// be read. It fails if the claim names a limit that the item lacks but the remembered
// configuration has.
func (d *Driver) takeAsIs(ctx context.Context, c *Claim, img *store.Image, cause error) bool {
	terms, ok := c.want.OnItem(img, &c.Terms)
	if !ok {
		return false
	}
	d.Logger.WarnContext(ctx, "bucket not compared with its configuration", "entity", c.Entity, "resource", c.Resource, "error", cause)
	c.Terms = terms
	return true
}
