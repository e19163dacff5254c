package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// maxTries bounds the writes that one claim may need. Every try but the first means
// that another client's write came first. So the limiter reaches the bound only where
// hundreds of clients write to one item.
const maxTries = 100

// debit carries a claim out against the bucket item that it was routed to. Concurrent
// callers that want to write to the same item share the write.
func (l *Limiter) debit(ctx context.Context, c *claim, left <-chan struct{}) error {
	c.short, c.portions = false, nil
	if l.places.Base == 0 {
		return l.debitAlone(ctx, c, left)
	}
	img := c.acct.Image(c.Shard, l.uptime(), memory.ImageAge)
	c.adopt(c.acct.Wanted())
	fits := img != nil && c.terms.Fits(img)
	ps := lane.Places{Base: 1} // the first caller finds out for the others
	if fits {
		ps = l.placesFor(c, img)
	}
	ln := &c.acct.at(c.Shard).takes
	t := &ticket{Claim: c}
	switch told, err := ln.Attend(ctx, t, ps, left); {
	case err != nil:
		return outOfLine(err)
	case told == lane.Done:
		l.counts.carried.Add(1)
		return t.Err
	case told == lane.Solo:
		return l.debitAlone(ctx, c, left)
	}
	defer func() { ln.Leave(l.placesFor(c, c.acct.Image(c.Shard, l.uptime(), memory.ImageAge))) }()
	if err := l.holdBack(ctx, c, left); err != nil {
		return err
	}
	img = c.acct.Image(c.Shard, l.uptime(), memory.ImageAge)
	if c.adopt(c.acct.Wanted()); img != nil && c.terms.Fits(img) {
		crowd := ln.Along(t, mostShared, c.alike(img))
		if len(crowd) > 1 || c.acct.IsSharedShard(c.Shard, l.uptime()) {
			l.debitCrowd(ctx, ln, crowd, img, left)
			return t.Err
		}
	}
	err := l.debitAlone(ctx, c, left)
	if ps.Base == 1 && c.acct.Image(c.Shard, l.uptime(), memory.ImageAge) == nil {
		ln.Disperse() // one after the other, they would find out no more
	}
	return err
}

// alike returns a filter for the claims of one bucket that can be added up with c, on
// an item as it is. The filter makes them adopt the configuration of c.
func (c *claim) alike(img *store.Image) func(*claim) bool {
	return func(other *claim) bool {
		other.adopt(c.terms.Configured)
		return other.terms.Fits(img)
	}
}

// common returns a claim that stands for all claims that can be added up with c.
func (c *claim) common() *claim {
	return &claim{Bucket: c.Bucket, acct: c.acct, terms: plan.Terms{Configured: c.terms.Configured, Target: c.terms.Target}}
}

// debitAlone carries a claim out against one bucket item. It needs one write if the
// memory of the item is right, and one more for each thing that the memory had wrong.
// It decides each of these on the image that the refusal carried. It ends with the
// claim granted, refused or found short on this shard, or with an error. On error,
// nothing of the claim is known to be debited.
//
// left is closed when the caller has gone; then debitAlone begins no further write.
func (l *Limiter) debitAlone(ctx context.Context, c *claim, left <-chan struct{}) error {
	p := pursuit{l: l, c: c, acct: c.acct, left: left}
	p.img = p.acct.Image(c.Shard, l.uptime(), memory.ImageAge)
	if p.img == nil && p.acct.HasRetired(c.Shard) {
		return errRerouted // a merge deleted the shard since it was drawn
	}
	return p.run(ctx)
}

// run takes one step after the other until the claim is decided.
func (p *pursuit) run(ctx context.Context) error {
	p.Moment = p.l.moment()
	for tries := range maxTries {
		if err := p.space(ctx, p.c, tries); err != nil {
			return err
		}
		p.catchUp()
		switch done, err := p.step(ctx); {
		case errors.Is(err, ErrConflict):
		case done || err != nil:
			return err
		}
	}
	return contended(p.c.Bucket)
}

func contended(b Bucket) error {
	return fmt.Errorf("debit %s of %s: other writers got in between %d times: %w", b.Resource, b.Entity, maxTries, ErrConflict)
}

// A pursuit is a claim under way.
type pursuit struct {
	l    *Limiter
	c    *claim
	acct *account
	left <-chan struct{}

	// pressing says that the writes do not wait for the hidden write limit.
	pressing bool

	memory.Moment // one reading of the clocks, for a whole step

	img   *store.Image  // the last known image of the bucket item
	sure  *plan.Wanted  // the wanted bucket, by a consistent read that began after img was received
	asIs  *store.Image  // the image that the claim takes as it is, because the configuration cannot be read
	fresh bool          // img has just refused a write
	met   time.Duration // when it did, by [Limiter.uptime]
	// lacked says that the write that img has just refused was for more than img held.
	lacked bool
	// looked says that the pursuit has read the bucket and its configuration.
	looked bool
	// mended says that the pursuit has looked for a sibling that could take the excess.
	mended bool
	// sought says that the pursuit has looked for siblings of a missing shard 0, and
	// found none.
	sought bool
}

// step plans the next step and takes it.
func (p *pursuit) step(ctx context.Context) (done bool, err error) {
	c := p.c
	if c.terms.AsIs && p.img != p.asIs { // the claim took another image as it is
		c.terms = c.want.Under(nil)
	}
	if p.sure != nil {
		c.adopt(p.sure)
	} else {
		c.adopt(p.acct.Wanted())
	}
	switch w := c.terms.Configured; {
	case w == nil:
	case w.Disabled:
		return true, p.disabled()
	case c.want.TakesNothing(&c.terms) && !p.looked && !p.l.isYoung(w, p.Up):
		return false, p.look(ctx)
	case c.want.TakesNothing(&c.terms):
		p.end()
		return true, nil
	}
	if p.img != nil && plan.IsOverfull(p.img) && !p.mended && p.acct.Image(plan.SiblingOf(p.img), p.Up, memory.ImageAge) == nil {
		p.mended = true
		return p.replace(ctx)
	}
	next := p.plan()
	switch next.Kind {
	case plan.Read:
		return false, p.look(ctx)
	case plan.Take, plan.Refill, plan.Repair:
		return p.write(ctx, next)
	case plan.Create:
		return p.create(ctx)
	case plan.Verify:
		return false, p.verify(ctx)
	case plan.Wait:
		p.fresh = false
		return false, p.l.relieve(ctx, &p.acct.Account, p.img, next.Wait, p.left)
	case plan.Refuse:
		c.refusedBy(p.img, p.Now)
		return true, nil
	case plan.Disabled:
		return true, p.disabled()
	case plan.Incomputable:
		return true, p.unsupported()
	case plan.Done:
	}
	p.end()
	return true, nil
}

// disabled notes that an operator disabled the bucket, and returns the error.
func (p *pursuit) disabled() error {
	if p.img != nil && p.img.Disabled {
		p.acct.SawDisabled(p.Up, p.l.epoch.Load())
	}
	return &DisabledError{Entity: p.c.Entity, Resource: p.c.Resource}
}

// unsupported returns the error if this version cannot tell whether the item has what
// the claim names.
func (p *pursuit) unsupported() error {
	return &UnsupportedError{Entity: p.c.Entity, Resource: p.c.Resource, Feature: cmp.Or(p.img.Foreign, p.c.terms.Configured.Foreign)}
}

// see takes in an image of the item.
func (p *pursuit) see(img *store.Image, fresh bool) { p.img, p.fresh, p.sure = img, fresh, nil }

// catchUp reads the clocks. An image that refused a write is no longer fresh once a
// pause has given others the time for their writes.
func (p *pursuit) catchUp() {
	const stale = 10 * time.Millisecond
	p.Moment = p.l.moment()
	if !p.fresh || p.img == nil || p.Up-p.met < stale {
		return
	}
	p.recall(p.Up)
}

// recall continues with the remembered image of the item.
func (p *pursuit) recall(up time.Duration) {
	switch img := p.acct.Image(p.c.Shard, up, memory.ImageAge); img {
	case nil:
	case p.img:
		p.fresh = false
	default:
		p.see(img, false)
	}
}

// plan decides the next step from what is known.
func (p *pursuit) plan() plan.Step {
	s := plan.Situation{
		Debit: plan.Debit{
			Bucket: p.c.Bucket, Amounts: p.c.terms.Amounts, Pressing: p.pressing,
			Stamp: p.acct.StampRule(p.c.Shard, p.Up, p.l.rand),
		},
		Terms: &p.c.terms, Sure: p.sure != nil,
		Image: p.likely(), Fresh: p.fresh, Now: p.Now, Multiplier: p.l.multiplier,
	}
	if s.Sure {
		s.Repair = p.c.terms.Target
	}
	return plan.Next(&s)
}

// likely returns the bucket as it probably is by now.
func (p *pursuit) likely() *store.Image {
	if p.img == nil || p.fresh {
		return p.img
	}
	return p.acct.Predicted(p.img, p.Moment)
}

// end stores in the claim what the bucket was found to be.
func (p *pursuit) end() {
	p.c.image, p.c.at, p.c.parent = p.img, p.Now, plan.CascadeOf(p.img)
	if p.img == nil {
		p.c.parent = plan.PayerOf(&p.c.terms.Configured.Owner)
	}
}

// write takes or refills, and takes in the outcome.
func (p *pursuit) write(ctx context.Context, next plan.Step) (done bool, err error) {
	var out store.Outcome
	take, refill := next.Take, next.Refill
	if take != nil {
		out, err = p.l.send(ctx, &p.acct.Account, p.c.Bucket, memory.StampUse{Seen: take.Stamp, Late: take.Since != 0}, p.Moment, func(ctx context.Context) (store.Outcome, error) { return p.l.store.Take(ctx, take) })
		return p.wrote(out, err, true)
	}
	if p.l.places.Base == 0 || refill.FullSince != 0 {
		out, err = p.refill(ctx, refill)
		return p.wrote(out, err, next.Kind == plan.Refill)
	}
	// Refills have one lock, the stamp: refills of one process need not compete for it.
	// A caller that waited looks at the image that the other refill brought.
	ran, waited := p.acct.at(p.c.Shard).refilling.Do(ctx, p.left, func() {
		out, err = p.refill(ctx, refill)
		done, err = p.wrote(out, err, next.Kind == plan.Refill)
	})
	if !ran && waited == nil {
		p.met = p.l.uptime()
		img := p.acct.Image(p.c.Shard, p.met, memory.ImageAge)
		p.see(img, img != nil)
	}
	return done, cmp.Or(err, unavailable(waited))
}

func (p *pursuit) refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	out, err := p.l.send(ctx, &p.acct.Account, p.c.Bucket, memory.StampUse{Seen: stampOf(p.img), Moves: true}, p.Moment, func(ctx context.Context) (store.Outcome, error) { return p.l.store.Refill(ctx, r) })
	if out.Applied && len(p.c.want.Asked) > 0 && p.sure != nil && p.c.terms.Target != nil && p.c.terms.Target.Differs(p.img) {
		p.acct.Repaired(p.img.ShardCount)
	}
	return out, err
}

// stampOf is the stamp of an image, 0 if there is none.
func stampOf(img *store.Image) int64 {
	if img == nil {
		return 0
	}
	return img.RefilledAt
}

// wrote takes in the outcome of a write. debits says that the write carried the
// claim.
func (p *pursuit) wrote(out store.Outcome, err error, debits bool) (done bool, _ error) {
	p.lacked = err == nil && !out.Applied && out.Image != nil && !p.c.terms.Covers(out.Image, p.Now)
	if err != nil {
		return false, err
	}
	p.see(out.Image, true)
	p.met = p.l.uptime()
	if !out.Applied || !debits {
		return false, nil
	}
	p.c.granted = true
	p.end()
	return true, nil
}

// learn remembers the image of an outcome, or forgets the bucket if the outcome shows
// that it does not exist.
func (l *Limiter) learn(acct *memory.Account, b Bucket, out store.Outcome, at memory.Moment) {
	if out.Image == nil {
		acct.Forget(b.Shard)
		return
	}
	if ahead := out.Image.RefilledAt - at.Now; ahead > plan.MaxSkew.Milliseconds() {
		l.logger.Warn("bucket is stamped ahead of the clock", "entity", b.Entity, "resource", b.Resource,
			"shard", b.Shard, "ahead_ms", ahead)
	}
	acct.Remember(out.Image, at)
}

// look reads the unknown facts of the bucket in one request. It reads the item and,
// unless they were read within the time to live, its configuration and its entity's
// record.
func (p *pursuit) look(ctx context.Context) error {
	l, b := p.l, p.c.Bucket
	if w := p.acct.Wanted(); w != nil && l.isYoung(w, p.Up) {
		loaded, err := l.store.Load(ctx, &store.Load{Bucket: &b})
		if err != nil {
			return fmt.Errorf("read the bucket of %s for %s: %w", b.Entity, b.Resource, err)
		}
		p.saw(loaded.Image)
		return nil
	}
	epoch := l.epoch.Load()
	r, err := l.config.resolve(ctx, b.Entity, b.Resource, &b)
	if err != nil {
		return err
	}
	p.looked = true
	p.acct.Want(l.wantedOf(&r, epoch))
	p.saw(r.image)
	return nil
}

// saw takes in what was read of the item. A nil image means that the item does not
// exist.
func (p *pursuit) saw(img *store.Image) {
	p.see(img, img == nil)
	if img != nil {
		p.acct.Remember(img, p.Moment)
	}
}

// verify finds out what a bucket is to be when its item differs from what is
// remembered. Callers of one process verify one after the other. A caller that waited
// looks at what the other one brought.
func (p *pursuit) verify(ctx context.Context) error {
	var w *plan.Wanted
	var err error
	ran, waited := p.acct.verifying.Do(ctx, p.left, func() { w, err = p.l.verifySoon(ctx, p.acct, p.c.Bucket) })
	switch {
	case waited != nil:
		return unavailable(waited)
	case !ran:
		p.recall(p.l.uptime())
	case err != nil && (len(p.c.want.Asked) == 0 || !p.l.takeAsIs(ctx, p.c, p.img, err)):
		return err
	case err != nil:
		p.asIs = p.img
	default:
		p.sure = w
	}
	return nil
}

// create makes the bucket with the claim already debited, from the current
// configuration. If only this shard of the bucket is missing, create makes the shard
// instead.
func (p *pursuit) create(ctx context.Context) (done bool, err error) {
	l, c := p.l, p.c
	p.acct.Forget(c.Shard)
	if p.acct.ShardCount() > 1 || c.Shard > 0 {
		return p.replace(ctx)
	}
	w, err := p.prepare(ctx)
	switch {
	case err != nil:
		return true, err
	case w == nil:
		return p.replace(ctx)
	case w.Disabled:
		return true, p.disabled()
	case w.Foreign != "":
		return true, &UnsupportedError{Entity: c.Entity, Resource: c.Resource, Feature: w.Foreign}
	}
	if c.adopt(w); c.want.TakesNothing(&c.terms) {
		p.end()
		return true, nil
	}
	c.parent = plan.PayerOf(&w.Owner)
	n := l.newBucket(c, p.Now)
	if img := plan.ImageOf(n); c.exceeds(img) {
		c.refused, c.statuses = true, c.standing([]*store.Image{img}, p.Now)
		return true, nil
	}
	for i := range n.Limits {
		limit := &n.Limits[i]
		limit.Consumed = plan.AmountOf(c.terms.Amounts, limit.Limit)
		limit.Tokens -= limit.Consumed
	}
	out, err := l.send(ctx, &p.acct.Account, c.Bucket, memory.StampUse{Moves: true}, p.Moment, func(ctx context.Context) (store.Outcome, error) { return l.store.Create(ctx, n) })
	return p.wrote(out, err, true)
}

// prepare reads at the same time all that a bucket is made from: its configuration,
// and whether shards of it exist. It returns nil if shards exist.
func (p *pursuit) prepare(ctx context.Context) (w *plan.Wanted, err error) {
	l, acct, of, sought := p.l, p.acct, p.c.Bucket, p.sought // keeps p itself on the stack
	var siblings []*store.Image
	var errs [2]error
	l.atOnce(len(errs), func(i int) {
		switch {
		case i == 0:
			w, errs[i] = l.verify(ctx, acct, of)
		case !sought:
			siblings, errs[i] = l.store.Buckets(ctx, of.Entity, of.Resource, 0)
		}
	})
	if errs[1] != nil {
		errs[1] = fmt.Errorf("look for shards of %s of %s: %w", p.c.Resource, p.c.Entity, errs[1])
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	p.sought, p.Moment = true, p.l.moment()
	if len(siblings) > 0 {
		p.acct.Recount(siblings, p.Moment)
		return nil, nil
	}
	return w, nil
}

// replace makes a missing shard, and lets the claim choose again. A shard that cannot
// be made, because of a peer's stamps on its siblings, holds nothing.
func (p *pursuit) replace(ctx context.Context) (done bool, err error) {
	exists, err := p.l.mend(ctx, &p.acct.Account, p.c.Bucket, p.left)
	switch {
	case err != nil:
		return true, err
	case exists && p.acct.Image(p.c.Shard, p.Up, memory.ImageAge) == nil && p.c.Shard < p.acct.ShardCount():
		p.c.short = true
		return true, nil
	}
	return true, errRerouted
}

// newBucket returns the wanted bucket, full except for the write that makes it.
func (l *Limiter) newBucket(c *claim, now int64) *store.Create {
	n := &store.Create{Bucket: c.Bucket, Now: now, ShardCount: 1, Owner: c.terms.Target.Owner, Writes: plan.FirstWrite()}
	var life int64
	for _, limit := range c.terms.Target.Limits {
		p := limit.Params()
		life = max(life, plan.LifeOf(&store.LimitState{Params: p}, 0, 1, l.multiplier))
		n.Limits = append(n.Limits, store.NewLimit{
			NamedParams: store.NamedParams{Limit: limit.Name, Params: p},
			Tokens:      p.Capacity,
		})
	}
	if c.terms.Target.Expires {
		n.ExpiresAt = plan.ExpiresAt(life, now, l.multiplier)
	}
	return n
}

// exceeds reports whether a claim is more than the balances of an image.
func (c *claim) exceeds(img *store.Image) bool {
	return slices.ContainsFunc(c.terms.Amounts, func(a store.Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Milli > s.Tokens && a.Milli > 0
	})
}
