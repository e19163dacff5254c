package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// A pursuit is a claim under way: it writes by an image of the item, and each refusal brings
// the image for the next try.
//
//	image ──▶ plan.Next
//	  ▲         ├─ Read: look at the item, and at its configuration
//	  │         ├─ Verify: read the configuration, one caller for all
//	  │         ├─ Wait: for the hidden write limit, or double the shards
//	  │         ├─ Refuse: the image cannot serve the claim ──────────▶ refused
//	  │         └─ Take, Refill, Repair, Create: write
//	  │                      ├─ applied ──────────────────────────────▶ granted
//	  └── its image ─────────┴─ refused
//
// The naive way reads the item, decides, and writes: two requests, and between them others
// write. Here the write decides. It races with the writes of others, so its condition is on
// what it was worked out from:
//
//	this process   image v1 ──────── write, if v1 still covers it ──▶ refused, image v2 ──▶ …
//	another one               write ──▶ v2
//
// A pursuit may conclude as much as its image allows. An image that has just refused a write
// shows what the item lacks, so a claim may be refused by it. An image from memory may be too
// low as well as too high, so the pursuit asks the item.
type pursuit struct {
	d    *Driver
	c    *Claim
	acct *account
	left <-chan struct{} // closed when the caller has gone: no write begins after that

	by    time.Duration // until when the callers wait, by [memory.Clock.Uptime]
	began time.Duration // when the first try began, by [memory.Clock.Uptime]
	// pressing says that the writes do not wait for the hidden write limit.
	pressing bool

	memory.Moment // one reading of the clocks, for a whole step

	// The item:
	img    *store.Image  // the last known image; nil is an unknown item, and a missing one if fresh is set
	fresh  bool          // img is the answer to the last request, and the pursuit has not waited since
	met    time.Duration // when it came, by [memory.Clock.Uptime]
	lacked bool          // the last write was refused because it was for more than img held, and not for its stamp

	// Its configuration:
	sure *plan.Wanted // the wanted bucket, by a consistent read that began after img was received
	asIs *store.Image // the image that the claim takes as it is, because the configuration cannot be read

	tried ways
}

// ways are what a pursuit does at most once, because to do it again would bring no more.
type ways uint8

const (
	readAll        ways = 1 << iota // read the bucket and its configuration
	movedExcess                     // looked for a sibling that could take what a shard has too much
	soughtSiblings                  // looked for siblings of a missing shard 0, and found none
)

// has reports whether the pursuit has done one of them.
func (w ways) has(way ways) bool { return w&way != 0 }

// debitAlone carries a claim out against one bucket item. It needs one write if the
// memory of the item is right, and one more for each thing that the memory had wrong.
// It decides each of these on the image that the refusal carried. It ends with the
// claim granted, refused or found short on this shard, or with an error. On error,
// nothing of the claim is known to be debited.
//
// left is closed when the caller has gone; then debitAlone begins no further write.
func (d *Driver) debitAlone(ctx context.Context, c *Claim, left <-chan struct{}) error {
	p := pursuit{d: d, c: c, acct: c.acct, left: left, by: c.by}
	p.img = p.acct.Image(c.Shard, d.Uptime(), memory.ImageAge)
	if p.img == nil && p.acct.HasRetired(c.Shard) {
		return errShardsChanged // a merge deleted the shard since it was drawn
	}
	return p.run(ctx)
}

// run takes one step after the other until the claim is decided.
func (p *pursuit) run(ctx context.Context) error {
	p.Moment = p.d.Moment()
	p.began = p.Up
	for tries := range process.MaxTries {
		if err := p.pauseBeforeTry(ctx, p.c, tries); err != nil {
			return err
		}
		p.catchUp()
		switch done, err := p.step(ctx); {
		case errors.Is(err, store.ErrConflict) && p.mayInsist(tries):
		case errors.Is(err, store.ErrConflict):
			return refusedTooOften(p.c.Bucket, tries+1)
		case done || err != nil:
			return err
		}
	}
	return refusedTooOften(p.c.Bucket, process.MaxTries)
}

// mayInsist reports whether a write that met conflicts so many times is tried again.
// Callers in line need some of their time for tries of their own.
func (p *pursuit) mayInsist(tries int) bool {
	const least, part = 20, 3
	return tries < least || p.d.Uptime()-p.began < p.d.Time()/part
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
		if !p.lacked || p.fresh && p.img != nil && !c.Terms.Covers(p.img, p.d.Now()) {
			return nil
		}
	}
	return p.d.pauseIfShared(ctx, c, p.left)
}

// writeNothing sends a write that debits nothing.
func (d *Driver) writeNothing(ctx context.Context, acct *account, img *store.Image) {
	m := d.Moment()
	take := (&plan.Debit{Bucket: img.Bucket}).Take(img, m.Now)
	_, _ = d.Send(ctx, &acct.Account, img.Bucket, memory.StampUse{}, m, func(ctx context.Context) (store.Outcome, error) { return d.Store.Take(ctx, take) })
}

// lose notes that other processes took what this one asked for. A process of which others
// may not know tells them of itself: it writes an empty debit, which is applied whatever
// the balances are. Otherwise a process that happens to take all tokens would know of none,
// and go on to be the first.
func (d *Driver) lose(ctx context.Context, acct *account, img *store.Image) {
	if acct.Lost(img.Shard, d.Uptime()) && d.Begin() {
		d.Run(func() {
			defer d.End()
			d.writeNothing(d.Detach(context.WithoutCancel(ctx)), acct, img)
		})
	}
}

// pauseIfShared waits until the pause before a write has passed, or until the caller leaves.
// A caller that joins the line meanwhile may have less time than the one at the front. The
// pause then ends while half of that caller's time is left.
func (d *Driver) pauseIfShared(ctx context.Context, c *Claim, left <-chan struct{}) error {
	const look = 20 * time.Millisecond // between looks at the line
	if !d.sharing.isQueued() {
		return nil
	}
	by, up := c.by, d.Uptime()
	end := up + c.acct.PauseLeft(c.Shard, c.Terms.Amounts, up, by)
	for ; up < end; up = d.Uptime() {
		if err := process.Sleep(ctx, left, min(end-up, look)); err != nil {
			return err
		}
		for other := range c.acct.at(c.Shard).takes.Line() {
			if other.by < by {
				by = other.by
				end = min(end, up+(by-up)/2)
			}
		}
	}
	return nil
}

// step plans the next step and takes it.
func (p *pursuit) step(ctx context.Context) (done bool, err error) {
	c := p.c
	if c.Terms.AsIs && p.img != p.asIs { // the claim took another image as it is
		c.Terms = c.want.Under(nil)
	}
	if p.sure != nil {
		c.adopt(p.sure)
	} else {
		c.adopt(p.acct.Wanted())
	}
	switch w := c.Terms.Configured; {
	case w == nil:
	case w.Disabled:
		return true, p.disabled()
	case c.want.TakesNothing(&c.Terms) && !p.tried.has(readAll) && !p.d.Config.IsYoung(w, p.Up):
		return false, p.look(ctx)
	case c.want.TakesNothing(&c.Terms):
		p.end()
		return true, nil
	}
	if p.img != nil && plan.IsOverfull(p.img) && !p.tried.has(movedExcess) && p.acct.Image(plan.SiblingOf(p.img), p.Up, memory.ImageAge) == nil {
		p.tried |= movedExcess
		return p.mend(ctx)
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
		return false, p.d.doubleOrWait(ctx, &p.acct.Account, p.img, next.Wait, p.left)
	case plan.Refuse:
		c.refusedBy(p.img, p.Now)
		return true, nil
	case plan.Disabled:
		return true, p.disabled()
	case plan.Unsupported:
		return true, p.notEvaluable()
	case plan.Done:
	}
	p.end()
	return true, nil
}

// disabled notes that an operator disabled the bucket, and returns the error.
func (p *pursuit) disabled() error {
	if p.img != nil && p.img.Disabled {
		p.acct.SawDisabled(p.Up, p.d.Config.Epoch())
	}
	return &store.DisabledError{Entity: p.c.Entity, Resource: p.c.Resource}
}

// notEvaluable returns the error if this version cannot tell whether the item has what
// the claim names.
func (p *pursuit) notEvaluable() error {
	return unsupported(p.c.Bucket, cmp.Or(p.img.Features, p.c.Terms.Configured.Features))
}

// see takes in an image of the item.
func (p *pursuit) see(img *store.Image, fresh bool) { p.img, p.fresh, p.sure = img, fresh, nil }

// catchUp reads the clocks. An image that refused a write is no longer fresh once a
// pause has given others the time for their writes.
func (p *pursuit) catchUp() {
	const stale = 10 * time.Millisecond
	p.Moment = p.d.Moment()
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
			Bucket: p.c.Bucket, Amounts: p.c.Terms.Amounts, Pressing: p.pressing,
			Stamp: p.acct.StampRule(p.c.Shard, p.Up, p.d.Rand),
			Ahead: p.ahead(),
		},
		Terms: &p.c.Terms, Sure: p.sure != nil,
		Image: p.likely(), Fresh: p.fresh, Now: p.Now, Multiplier: p.d.Multiplier,
	}
	if s.Sure {
		s.Repair = p.c.Terms.Target
	}
	return plan.Next(&s)
}

// ahead is how long the bucket may still have to earn what the next write debits, in
// milliseconds.
func (p *pursuit) ahead() int64 { return p.acct.Ahead(p.Up, p.by).Milliseconds() }

// likely returns the bucket as it probably is by now.
func (p *pursuit) likely() *store.Image {
	if p.img == nil || p.fresh {
		return p.img
	}
	return p.acct.Predicted(p.img, p.Moment)
}

// end stores in the claim what the bucket was found to be.
func (p *pursuit) end() {
	p.c.image, p.c.At, p.c.Parent = p.img, p.Now, plan.CascadeOf(p.img)
	if p.img == nil {
		p.c.Parent = plan.PayerOf(&p.c.Terms.Configured.Owner)
	}
}

// write takes or refills, and takes in the outcome.
func (p *pursuit) write(ctx context.Context, next plan.Step) (done bool, err error) {
	switch take := next.Take; {
	case take != nil:
		use := memory.StampUse{Seen: take.Stamp, Late: take.Since != 0}
		out, err := p.d.Send(ctx, &p.acct.Account, p.c.Bucket, use, p.Moment, func(ctx context.Context) (store.Outcome, error) { return p.d.Store.Take(ctx, take) })
		return p.wrote(out, err, true)
	case next.Refill.FullSince != 0 || !p.d.sharing.isQueued(): // it does not compete for the stamp
		return p.refill(ctx, next)
	}
	// Refills have one lock, the stamp: refills of one process need not compete for it.
	// A caller that waited looks at the image that the other refill brought.
	ran, waited := p.acct.at(p.c.Shard).refilling.Do(ctx, p.left, func() { done, err = p.refill(ctx, next) })
	if !ran && waited == nil {
		p.met = p.d.Uptime()
		img := p.acct.Image(p.c.Shard, p.met, memory.ImageAge)
		p.see(img, img != nil)
	}
	return done, cmp.Or(err, process.Unavailable(waited))
}

// refill sends a refill, and takes in the outcome.
func (p *pursuit) refill(ctx context.Context, next plan.Step) (done bool, err error) {
	use := memory.StampUse{Seen: stampOf(p.img), Moves: true}
	out, err := p.d.Send(ctx, &p.acct.Account, p.c.Bucket, use, p.Moment, func(ctx context.Context) (store.Outcome, error) { return p.d.Store.Refill(ctx, next.Refill) })
	if out.Applied && len(p.c.want.Asked) > 0 && p.sure != nil && p.c.Terms.Target != nil && p.c.Terms.Target.Differs(p.img) {
		p.acct.Repaired(p.img.ShardCount)
	}
	return p.wrote(out, err, next.Kind == plan.Refill)
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
	p.lacked = err == nil && !out.Applied && out.Image != nil && !p.c.Terms.Covers(out.Image, p.Now)
	if err != nil {
		return false, err
	}
	p.see(out.Image, true)
	p.met = p.d.Uptime()
	if !out.Applied || !debits {
		return false, nil
	}
	p.c.Granted = true
	p.end()
	p.c.earned(p.img, p.Moment, p.ahead())
	return true, nil
}

// look reads the unknown facts of the bucket in one request. It reads the item and,
// unless they were read within the time to live, its configuration and its entity's
// record.
func (p *pursuit) look(ctx context.Context) error {
	d, b := p.d, p.c.Bucket
	if w := p.acct.Wanted(); w != nil && d.Config.IsYoung(w, p.Up) {
		loaded, err := d.Store.Load(ctx, &store.Load{Bucket: &b})
		if err != nil {
			return fmt.Errorf("read the bucket of %s for %s: %w", b.Entity, b.Resource, err)
		}
		p.saw(loaded.Image)
		return nil
	}
	w, img, err := d.Config.Resolve(ctx, b.Entity, b.Resource, &b)
	if err != nil {
		return err
	}
	p.tried |= readAll
	p.acct.Want(w)
	p.saw(img)
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
	ran, waited := p.acct.verifying.Do(ctx, p.left, func() { w, err = p.d.verifySoon(ctx, p.acct, p.c.Bucket) })
	switch {
	case waited != nil:
		return process.Unavailable(waited)
	case !ran:
		p.recall(p.d.Uptime())
	case err != nil && (len(p.c.want.Asked) == 0 || !p.d.takeAsIs(ctx, p.c, p.img, err)):
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
	d, c := p.d, p.c
	p.acct.Forget(c.Shard)
	if p.acct.ShardCount() > 1 || c.Shard > 0 {
		return p.mend(ctx)
	}
	w, err := p.prepare(ctx)
	switch {
	case err != nil:
		return true, err
	case w == nil:
		return p.mend(ctx)
	case w.Disabled:
		return true, p.disabled()
	case !w.IsEvaluable():
		return true, unsupported(c.Bucket, w.Features)
	}
	if c.adopt(w); c.want.TakesNothing(&c.Terms) {
		p.end()
		return true, nil
	}
	c.Parent = plan.PayerOf(&w.Owner)
	n := d.newBucket(c, p.Now)
	if img := plan.ImageOf(n); c.exceeds(img) {
		c.Refused, c.images, c.At = true, []*store.Image{img}, p.Now
		return true, nil
	}
	for i := range n.Limits {
		limit := &n.Limits[i]
		limit.Consumed = plan.AmountOf(c.Terms.Amounts, limit.Limit)
		limit.Tokens -= limit.Consumed
	}
	out, err := d.Send(ctx, &p.acct.Account, c.Bucket, memory.StampUse{Moves: true}, p.Moment, func(ctx context.Context) (store.Outcome, error) { return d.Store.Create(ctx, n) })
	return p.wrote(out, err, true)
}

// prepare reads at the same time all that a bucket is made from: its configuration,
// and whether shards of it exist. It returns nil if shards exist.
func (p *pursuit) prepare(ctx context.Context) (w *plan.Wanted, err error) {
	d, acct, of, sought := p.d, p.acct, p.c.Bucket, p.tried.has(soughtSiblings) // keeps p itself on the stack
	var siblings []*store.Image
	var errs [2]error
	d.AtOnce(len(errs), func(i int) {
		switch {
		case i == 0:
			w, errs[i] = d.Verify(ctx, &acct.Account, of)
		case !sought:
			siblings, errs[i] = d.Store.Buckets(ctx, of.Entity, of.Resource, 0)
		}
	})
	if errs[1] != nil {
		errs[1] = fmt.Errorf("look for shards of %s of %s: %w", p.c.Resource, p.c.Entity, errs[1])
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	p.tried |= soughtSiblings
	p.Moment = p.d.Moment()
	if len(siblings) > 0 {
		p.acct.Recount(siblings, p.Moment)
		return nil, nil
	}
	return w, nil
}

// mend makes a missing shard, and lets the claim choose again. A shard that cannot
// be made, because of a peer's stamps on its siblings, holds nothing.
func (p *pursuit) mend(ctx context.Context) (done bool, err error) {
	exists, err := p.d.Upkeep.Mend(ctx, &p.acct.Account, p.c.Bucket, p.left)
	switch {
	case err != nil:
		return true, err
	case exists && p.acct.Image(p.c.Shard, p.Up, memory.ImageAge) == nil && p.c.Shard < p.acct.ShardCount():
		p.c.short = true
		return true, nil
	}
	return true, errShardsChanged
}

// newBucket returns the wanted bucket, full except for the write that makes it.
func (d *Driver) newBucket(c *Claim, now int64) *store.Create {
	n := &store.Create{Bucket: c.Bucket, Now: now, ShardCount: 1, Owner: c.Terms.Target.Owner, Writes: plan.FirstWrite()}
	var life int64
	for _, limit := range c.Terms.Target.Limits {
		p := limit.Params()
		life = max(life, plan.LifeOf(&store.LimitState{Params: p}, 0, 1, d.Multiplier))
		n.Limits = append(n.Limits, store.NewLimit{
			NamedParams: store.NamedParams{Limit: limit.Name, Params: p},
			Tokens:      p.Capacity,
		})
	}
	if c.Terms.Target.Expires {
		n.ExpiresAt = plan.ExpiresAt(life, now, d.Multiplier)
	}
	return n
}

// exceeds reports whether a claim is more than the balances of an image.
func (c *Claim) exceeds(img *store.Image) bool {
	return slices.ContainsFunc(c.Terms.Amounts, func(a store.Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Milli > s.Tokens && a.Milli > 0
	})
}
