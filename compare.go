package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// wantedOf returns the wanted bucket of a configuration. epoch is the limiter's epoch
// before the configuration was read.
func (l *Limiter) wantedOf(r *resolved, epoch uint64) *plan.Wanted {
	return &plan.Wanted{
		Limits: r.limits, Level: r.level, Expires: r.level >= plan.EntityLevels && l.multiplier >= 0,
		Owner: ownerFrom(r), Disabled: r.disabled, Foreign: r.foreign, Read: r.fetched, Epoch: epoch,
	}
}

// ownerFrom returns what a bucket copies of its entity's record. The configured
// cascade policy overrides the entity's own. An entity without a record has no
// parent.
func ownerFrom(r *resolved) store.Owner {
	var o store.Owner
	if e := r.meta; e != nil {
		o = store.Owner{Cascade: e.Cascade, Parent: e.Parent, Generation: e.Generation, Incarnation: e.Incarnation}
	}
	if r.cascade != store.Inherit {
		o.Cascade = r.cascade == store.Yes
	}
	o.Cascade = o.Cascade && o.Parent != ""
	return o
}

// adopt puts a claim under a configuration, unless it is under that one already.
func (c *claim) adopt(w *plan.Wanted) {
	if w != c.terms.Configured {
		c.terms = c.want.Under(w)
	}
}

// takeAsIs makes a claim take an item as it is, because the configuration could not
// be read. It fails if the claim names a limit that the item lacks but the remembered
// configuration has.
func (l *Limiter) takeAsIs(ctx context.Context, c *claim, img *store.Image, cause error) bool {
	terms, ok := c.want.OnItem(img, &c.terms)
	if !ok {
		return false
	}
	l.logger.WarnContext(ctx, "bucket not compared with its configuration", "entity", c.Entity, "resource", c.Resource, "error", cause)
	c.terms = terms
	return true
}

// stands reports whether the outcome of a claim still holds for w. If it does, the
// claim takes w over, and its statuses quote it.
func (c *claim) stands(w *plan.Wanted) bool {
	if c.terms.AsIs {
		return !w.Disabled
	}
	now := c.want.Under(w)
	if w.Disabled || !slices.Equal(now.Unknown, c.terms.Unknown) || slices.ContainsFunc(c.decidedOn(), now.Target.Differs) {
		return false
	}
	c.terms = now
	return true
}

// decidedOn returns the images on which a claim was decided.
func (c *claim) decidedOn() (images []*store.Image) {
	switch {
	case c.granted && len(c.portions) > 0:
		for _, p := range c.portions {
			images = append(images, p.Image)
		}
	case c.refused && c.images != nil:
		images = slices.DeleteFunc(slices.Clone(c.images), func(img *store.Image) bool { return img == nil })
	case c.image != nil:
		images = []*store.Image{c.image}
	}
	return images
}

// renew resets a claim to its state before any outcome.
func (c *claim) renew() {
	*c = claim{Bucket: c.Bucket, acct: c.acct, want: c.want, terms: c.want.Under(nil)}
}

// pursue debits a claim. If the last comparison of the bucket is older than the time
// to live, pursue compares it again while it debits. The answer waits for both. If
// the parameters no longer hold, the limiter returns what it took by them and decides
// the request again.
//
// If a comparison fails or takes too long, the bucket's answer holds: the bucket was
// reached, so the request is metered. The limiter tries the comparison again later.
func (l *Limiter) pursue(ctx context.Context, c *claim, left <-chan struct{}) error {
	const revisions = 4
	for range revisions {
		last := c.acct.Wanted()
		cmp := l.compareIfDue(ctx, c, last)
		if answered, err := l.answerUnasked(ctx, c, cmp, left); answered || err != nil {
			return err
		}
		if err := l.route(ctx, c, left); err != nil {
			return err
		}
		if w := c.acct.Wanted(); cmp == nil && w == last { // the comparison may have come due meanwhile
			cmp = l.compareIfDue(ctx, c, w)
		}
		if !l.await(ctx, cmp, left) || c.stands(c.acct.Wanted()) {
			l.keepUp(ctx, c)
			return nil
		}
		if err := l.takeBack(ctx, c); err != nil {
			return err
		}
		c.renew()
	}
	return fmt.Errorf("debit %s of %s: its limits changed %d times meanwhile: %w", c.Resource, c.Entity, revisions, ErrConflict)
}

// takeBack returns what a claim has debited, before the claim is decided again. It
// fails if nobody can tell whether the tokens were returned: deciding again could
// debit the claim twice, or not at all.
func (l *Limiter) takeBack(ctx context.Context, c *claim) error {
	if !c.granted {
		return nil
	}
	c.granted = false
	parts := c.parts()
	errs := make([]error, len(parts))
	l.atOnce(len(parts), func(i int) {
		back := make([]store.Amount, 0, len(parts[i].Amounts))
		for _, a := range parts[i].Amounts {
			back = append(back, store.Amount{Limit: a.Limit, Milli: -a.Milli})
		}
		errs[i] = l.insist(ctx, func(ctx context.Context) error { return l.giveBack(ctx, parts[i].Image, back) })
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("return what was taken of %s of %s by other limits: %w", c.Resource, c.Entity, err)
	}
	return nil
}

// answerUnasked answers a claim without asking the bucket, if the bucket is disabled
// or is not to have the limits that the claim names.
func (l *Limiter) answerUnasked(ctx context.Context, c *claim, cmp *comparison, left <-chan struct{}) (answered bool, err error) {
	if c.acct.IsDisabled(l.uptime(), l.ttl, l.epoch.Load()) {
		return true, disabledError(c.Bucket)
	}
	w := c.acct.Wanted()
	if c.adopt(w); w == nil || !w.Disabled && !c.want.TakesNothing(&c.terms) {
		return false, nil
	}
	if !l.isYoung(w, l.uptime()) {
		if cmp == nil {
			cmp = l.compare(ctx, c.acct, c.Bucket)
		}
		if !l.await(ctx, cmp, left) && !w.Disabled {
			return false, nil // the remembered configuration is too old to answer by
		}
		w = c.acct.Wanted()
		c.adopt(w)
	}
	switch {
	case w.Disabled:
		return true, disabledError(c.Bucket)
	case c.want.TakesNothing(&c.terms):
		c.parent = plan.PayerOf(&w.Owner)
		return true, nil
	}
	return false, nil
}

// disabledError says that an operator disabled a bucket.
func disabledError(b Bucket) error { return &DisabledError{Entity: b.Entity, Resource: b.Resource} }

// isDisabled reports whether a bucket is known to be disabled, by its configuration
// or by a stamp on an item. Both count for the time to live of configuration.
func (l *Limiter) isDisabled(acct *account, up time.Duration) bool {
	w := acct.Wanted()
	return w != nil && w.Disabled && l.isYoung(w, up) || acct.IsDisabled(up, l.ttl, l.epoch.Load())
}

// compareIfDue begins or joins a comparison of a bucket if w was read longer ago than
// the time to live. Otherwise it returns nil. It also returns nil if nothing is known
// of the bucket, because the claim is then about to read everything.
func (l *Limiter) compareIfDue(ctx context.Context, c *claim, w *plan.Wanted) *comparison {
	up := l.uptime()
	if w == nil || l.isYoung(w, up) || !c.acct.IsKnown(up, memory.ImageAge) {
		return nil
	}
	return l.compare(ctx, c.acct, c.Bucket)
}

// isYoung reports whether w was read within the time to live.
func (l *Limiter) isYoung(w *plan.Wanted, up time.Duration) bool {
	return up-w.Read < l.ttl && w.Epoch == l.epoch.Load()
}

// compare begins to read the configuration of a bucket. If such a read is under way,
// compare returns that one. But where configuration is not kept, it begins a new
// read, because the other is older than the claim. It returns nil if a read has just
// failed.
func (l *Limiter) compare(ctx context.Context, acct *account, b Bucket) *comparison {
	cmp, first := acct.comparisons.begin(l.uptime(), l.ttl > 0)
	if !first {
		return cmp
	}
	run := func() {
		epoch := l.epoch.Load()
		r, err := l.config.refresh(l.deadlines.Detach(ctx), b.Entity, b.Resource)
		if err == nil {
			acct.Want(l.wantedOf(&r, epoch))
		} else {
			l.logger.WarnContext(ctx, "bucket not compared with its configuration", "entity", b.Entity, "resource", b.Resource, "error", err)
		}
		acct.comparisons.end(cmp, err, l.uptime())
	}
	if l.immediate {
		run()
	} else {
		l.inBackground(run)
	}
	return cmp
}

// await waits for a comparison, if there is one, but not for long. It reports whether
// the comparison succeeded.
func (l *Limiter) await(ctx context.Context, cmp *comparison, left <-chan struct{}) bool {
	if cmp == nil {
		return false
	}
	select {
	case <-cmp.done:
		return cmp.err == nil
	default:
	}
	t := time.NewTimer(l.deadlines.Part())
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

// keepUp does in the background the upkeep that a claim found due on its bucket. The
// acquire does not wait for it.
//
//   - It reads the configuration after three quarters of the time to live, so that
//     later claims on the bucket need not wait for it.
//   - It mends a set of shards whose images disagree about their number.
//   - It repairs all shards after one of them was repaired or made.
func (l *Limiter) keepUp(ctx context.Context, c *claim) {
	const early = 4 // a quarter of the time to live early
	if l.underWay.IsClosed() {
		return
	}
	up := l.uptime()
	if w := c.acct.Wanted(); w != nil && l.ttl > 0 && up-w.Read >= l.ttl/early*(early-1) {
		l.compare(ctx, c.acct, c.Bucket)
	}
	mends, spreads := c.acct.BeginMending(up), c.acct.BeginRepair()
	if !mends && !spreads {
		return
	}
	whole := &claim{Bucket: c.Bucket, acct: c.acct, want: plan.Want{Fallback: c.want.Fallback}}
	l.inBackground(func() {
		if mends {
			l.mendNow(ctx, &whole.acct.Account, whole.Bucket)
		}
		if whole.acct.BeginRepair() || spreads {
			l.spread(ctx, whole)
		}
	})
}

// spread repairs all shards of a bucket to what a claim wants.
func (l *Limiter) spread(ctx context.Context, c *claim) {
	ctx = l.deadlines.Detach(ctx)
	images, err := l.readShards(ctx, &c.acct.Account, c.Bucket)
	if err == nil {
		_, err = l.conform(ctx, c, images)
	}
	if err != nil {
		l.logger.WarnContext(ctx, "shards of a bucket not repaired", "entity", c.Entity, "resource", c.Resource, "error", err)
	}
}

// verify reads what a bucket is to be, by a consistent read that begins now.
func (l *Limiter) verify(ctx context.Context, acct *account, b Bucket) (*plan.Wanted, error) {
	epoch := l.epoch.Load()
	r, err := l.config.reread(ctx, b.Entity, b.Resource)
	if err != nil {
		return nil, err
	}
	w := l.wantedOf(&r, epoch)
	acct.Want(w)
	return w, nil
}

// verifySoon is verify for a claim. It gives up early, and at once if a read has just
// failed.
func (l *Limiter) verifySoon(ctx context.Context, acct *account, b Bucket) (*plan.Wanted, error) {
	if err := acct.comparisons.failedLately(l.uptime()); err != nil {
		return nil, err
	}
	if !l.immediate {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.deadlines.Part())
		defer cancel()
	}
	w, err := l.verify(ctx, acct, b)
	acct.comparisons.note(err, l.uptime())
	return w, err
}

// bring repairs the shards of a bucket that differ from what a claim wants. The
// caller must have read the images before; bring reads the configuration now.
func (l *Limiter) bring(ctx context.Context, c *claim, images []*store.Image) error {
	w, err := l.verifySoon(ctx, c.acct, c.Bucket)
	if err != nil {
		return err
	}
	c.adopt(w)
	images = slices.DeleteFunc(slices.Clone(images), func(img *store.Image) bool { return !c.terms.Target.Differs(img) })
	errs := make([]error, len(images))
	l.atOnce(len(images), func(i int) {
		repair := &claim{Bucket: images[i].Bucket, acct: c.acct, want: plan.Want{Fallback: c.want.Fallback}}
		p := pursuit{l: l, c: repair, acct: c.acct, img: images[i], sure: w, pressing: true}
		// A shard that was lost meanwhile has been made again, modelled on another.
		if err := p.run(ctx); !errors.Is(err, errRerouted) {
			errs[i] = err
		}
	})
	return errors.Join(errs...)
}
