package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
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
// low as well as too high, so the pursuit asks the item. See [sight].
type pursuit struct {
	wr   *writer
	c    *Claim
	left <-chan struct{} // closed when the caller has gone: no write begins after that

	began    time.Duration   // when the first try began, by [memory.Clock.Uptime]
	pressing bool            // the writes do not wait for the hidden write limit
	begins   *plan.Beginning // the sessions that the writes begin; nil if the item alone decides

	memory.Moment // one reading of the clocks, for a whole step

	// The item:
	img    *store.Image  // the last known image; nil if the item is unknown or missing
	sight  sight         // how img was seen
	met    time.Duration // when it answered, by [memory.Clock.Uptime]
	lacked bool          // the last write was refused because it was for more than img held, and not for its stamp

	entry  *ledger.Entry // in which the last write reserved what it took; nil if nothing goes back
	landed *store.Image  // see [Outcome]; of the last write

	// Its configuration:
	sure *plan.Wanted // the wanted bucket, by a consistent read that began after img was received
	read bool         // the pursuit has read the configuration, which is not kept longer than that
}

// A sight says how a pursuit has seen its item, and so what it may conclude:
//
//	unknown ─── read ──▶ remembered ─── a write is refused ──▶ answered ─── 10 ms pass ──▶ remembered
//	        └── gone ──▶ missing ────── others made it first ──▶ answered
//
// Invariant: img is nil for unknown and missing, and not nil for the others.
type sight uint8

const (
	unknown    sight = iota // nothing is known: read first
	remembered              // others may have written since: the item must be asked
	answered                // the item has just refused a write with this image: it may refuse the claim
	missing                 // the item does not exist: it may be made
)

// debitAlone carries a claim out against one bucket item. It needs one write if the
// memory of the item is right, and one more for each thing that the memory had wrong.
// It decides each of these on the image that the refusal carried. It ends with the
// claim granted, refused or found short on this shard, or with an error. On error,
// nothing of the claim is known to be debited.
//
// left is closed when the caller has gone; then debitAlone begins no further write.
func (wr *writer) debitAlone(ctx context.Context, c *Claim, left <-chan struct{}) error {
	p := pursuit{wr: wr, c: c, left: left}
	p.recall(wr.Uptime())
	if p.img == nil && c.acct.HasRetired(c.Shard) {
		return errShardsChanged // a merge deleted the shard since it was drawn
	}
	return p.run(ctx)
}

// run takes one step after the other until the claim is decided.
func (p *pursuit) run(ctx context.Context) error {
	p.Moment = p.wr.Moment()
	p.began = p.Up
	return p.insist(ctx, 0)
}

// insist is run after a number of tries.
func (p *pursuit) insist(ctx context.Context, tries int) error {
	for ; tries < process.MaxTries; tries++ {
		if err := p.pauseBeforeTry(ctx, p.c, tries); err != nil {
			return err
		}
		p.catchUp()
		done, err := p.step(ctx)
		if done, err = p.isOver(done, err, tries); done {
			return err
		}
	}
	return refusedTooOften(p.c.Bucket, process.MaxTries)
}

// isOver reports whether a step was the last one, after a number of tries before it.
func (p *pursuit) isOver(done bool, err error, tries int) (bool, error) {
	switch {
	case errors.Is(err, store.ErrConflict) && p.mayInsist(tries):
		return false, nil
	case errors.Is(err, store.ErrConflict):
		return true, refusedTooOften(p.c.Bucket, tries+1)
	}
	return done || err != nil, err
}

// mayInsist reports whether a write that met conflicts so many times is tried again.
// Callers in line need some of their time for tries of their own.
func (p *pursuit) mayInsist(tries int) bool {
	const least, part = 20, 3
	return tries < least || p.wr.Uptime()-p.began < p.wr.Time()/part
}

// pauseBeforeTry waits before another try. If a write was refused only for its stamp and the
// item covers it, it may be sent again at once. No write follows an image that shows
// too little.
func (p *pursuit) pauseBeforeTry(ctx context.Context, c *Claim, tries int) error {
	err := p.wr.Pause(ctx, p.left, tries)
	if err != nil {
		return err
	}
	if tries > 0 && (!p.lacked || p.sight == answered && !c.Terms.Covers(p.img, p.wr.Now())) {
		return nil
	}
	return p.wr.pauseIfShared(ctx, c, p.left)
}

// step plans the next step of a claim that goes alone, and takes it.
func (p *pursuit) step(ctx context.Context) (done bool, err error) {
	c := p.c
	c.look(p.img)
	c.adopt(cmp.Or(p.sure, c.acct.Wanted()))
	switch w := c.Terms.Configured; {
	case w == nil:
	case w.IsDisabled(p.Now):
		return true, p.disabled(w)
	case c.want.TakesNothing(&c.Terms) && !p.read && !p.wr.Config.IsYoung(w, p.Up):
		return false, p.look(ctx)
	case c.want.TakesNothing(&c.Terms):
		p.end()
		return true, nil
	}
	if p.img != nil && plan.IsOverfull(p.img) && c.acct.Image(plan.SiblingOf(p.img), p.Up, memory.ImageAge) == nil {
		return p.mend(ctx)
	}
	return p.carry(ctx, p.plan())
}

// carry takes a step.
func (p *pursuit) carry(ctx context.Context, next plan.Step) (done bool, err error) {
	c := p.c
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
		return false, p.wr.doubleOrWait(ctx, c.acct, p.img, next.Wait, p.left)
	case plan.Refuse:
		c.refusedBy(p.img, p.Now)
		return true, nil
	case plan.Disabled:
		return true, p.disabled(c.Terms.Configured)
	case plan.Unsupported: // it cannot tell whether the item has what the claim names
		return true, unsupported(c.Bucket, cmp.Or(p.img.Features, c.Terms.Configured.Features))
	case plan.OtherZone:
		return true, c.Terms.Target.OtherZone(p.img)
	case plan.Done:
	}
	p.end()
	return true, nil
}

// disabled notes that an operator disabled the bucket, and returns the error. w is its
// configuration, nil if that is not known.
func (p *pursuit) disabled(w *plan.Wanted) error {
	is := disablingOf(p.img)
	if is.Disabled {
		p.c.acct.SawDisabled(is.Until, p.Up, p.wr.Config.Epoch())
	}
	if w != nil && w.IsDisabled(p.Now) {
		is = w.Switches.At(p.Now)
	}
	return disabledError(p.c.Bucket, is)
}

// see takes in an image of the item. A nil image that answers is a missing item.
func (p *pursuit) see(img *store.Image, how sight) {
	if img == nil && how == answered {
		how = missing
	}
	p.img, p.sight, p.sure = img, how, nil
}

// catchUp reads the clocks. An image that refused a write counts as remembered once a
// pause has given others the time for their writes.
func (p *pursuit) catchUp() {
	const stale = 10 * time.Millisecond
	if p.Moment = p.wr.Moment(); p.sight == answered && p.Up-p.met >= stale {
		p.recall(p.Up)
	}
}

// recall continues with the remembered image of the item.
func (p *pursuit) recall(up time.Duration) {
	switch img := p.c.lastImage(up); img {
	case nil:
	case p.img:
		p.sight = remembered
	default:
		p.see(img, remembered)
	}
}

// plan decides the next step from what is known.
func (p *pursuit) plan() plan.Step {
	s := plan.Situation{
		Debit: plan.Debit{
			Bucket: p.c.Bucket, Amounts: p.c.Terms.Amounts, Pressing: p.pressing,
			Stamp: p.c.acct.StampRule(p.c.Shard, p.Up, p.wr.Rand),
			Ahead: p.ahead(), Stamps: true, Bypass: p.c.Terms.BypassStamp(p.Now), Begins: p.begins,
		},
		Terms: &p.c.Terms, Sure: p.sure != nil,
		Image: p.likely(), Fresh: p.sight >= answered, Now: p.Now, Multiplier: p.wr.Multiplier,
	}
	if s.Sure {
		s.Repair = p.c.Terms.Target
	}
	return plan.Next(&s)
}

// ahead is how long the bucket may still have to earn what the next write debits, in
// milliseconds.
func (p *pursuit) ahead() int64 { return p.c.acct.Ahead(p.Up, p.c.by).Milliseconds() }

// likely returns the bucket as it probably is by now.
func (p *pursuit) likely() *store.Image {
	if p.sight != remembered {
		return p.img
	}
	return p.c.acct.Predicted(p.img, p.Moment)
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
	switch {
	case next.Take != nil:
		out, err := p.send(ctx, &next)
		return p.wrote(out, err, next.Counted(), true)
	case next.Refill.FullSince != 0 || !p.wr.isQueued(): // it does not compete for the stamp
		return p.refill(ctx, next)
	}
	// Refills have one lock, the stamp: refills of one process need not compete for it.
	// A caller that waited looks at the image that the other refill brought.
	defer p.c.acct.leave()
	ran, waited := p.c.acct.enter().at(p.c.Shard).refilling.Do(ctx, p.left, func() { done, err = p.refill(ctx, next) })
	if !ran && waited == nil {
		p.met = p.wr.Uptime()
		if img := p.c.lastImage(p.met); img != nil {
			p.see(img, answered)
		} else {
			p.see(nil, unknown)
		}
	}
	return done, cmp.Or(err, process.Unavailable(waited))
}

// useOf is how the write of a step uses the item's stamp.
func useOf(next *plan.Step) memory.StampUse {
	if take := next.Take; take != nil {
		return memory.StampUse{Seen: take.Stamp, Late: take.Since != 0}
	}
	return memory.StampUse{Seen: next.Refill.Seen.RefilledAt, Moves: true}
}

// begin begins the write of a step.
func (p *pursuit) begin(next *plan.Step) process.Write {
	acct, seen := &p.c.acct.Account, next.Seen()
	var w process.Write
	if next.Create != nil {
		w = p.wr.BeginCreation(acct, seen, p.Moment)
	} else {
		w = p.wr.BeginWrite(acct, seen, useOf(next), p.Moment)
	}
	next.Number(w.Sequence, p.Now)
	p.reserve(&w, next)
	return w
}

// reserve makes the write of a step reserve what goes back of it if this process is lost.
func (p *pursuit) reserve(w *process.Write, next *plan.Step) {
	var take ledger.Take
	if next.Kind != plan.Repair {
		if take.Returns = p.c.Terms.Returns(next.Counted()); len(take.Returns) > 0 {
			take.After = next.After()
		}
	}
	if c := p.wr.Carry(w, take, nil, next.Lost()); c != nil {
		next.Reserve(c.Adds, c.Spent)
	}
}

// send sends the write of a step, until its outcome is known.
func (p *pursuit) send(ctx context.Context, next *plan.Step) (store.Outcome, error) {
	w := p.begin(next)
	write := func(ctx context.Context) (store.Outcome, error) { return p.wr.writeStep(ctx, next) }
	out, err := w.Send(ctx, p.wr.Process, write)
	return out, p.close(ctx, &w, next, out, err)
}

// writeStep sends the write of a step once.
func (wr *writer) writeStep(ctx context.Context, next *plan.Step) (store.Outcome, error) {
	switch {
	case next.Create != nil:
		return wr.Store.Create(ctx, next.Create)
	case next.Take != nil:
		return wr.Store.Take(ctx, next.Take)
	}
	return wr.Store.Refill(ctx, next.Refill)
}

// close records the outcome of the write of a step, and returns its error. If the write may be applied for
// nobody, what it takes is returned once an image shows it.
func (p *pursuit) close(ctx context.Context, w *process.Write, next *plan.Step, out store.Outcome, err error) error {
	isOpen := p.wr.EndWrite(ctx, w, out, err)
	p.entry = w.Entry()
	if err == nil && out.Applied {
		p.wr.Ledger.NoteLost(next.Lost(), p.c.Terms.Target)
		if w.WasLost() {
			p.landed = next.After()
		}
	}
	if !isOpen {
		return process.Unanswered(err)
	}
	wr, landed := p.wr, &Claim{Bucket: p.c.Bucket, acct: p.c.acct, Terms: plan.Terms{Amounts: p.c.Terms.Amounts, Target: p.c.Terms.Target}}
	landed.Granted, landed.counted, landed.image = next.Kind != plan.Repair, next.Counted(), next.After()
	ctx = context.WithoutCancel(ctx)
	back := func(e *ledger.Entry) {
		landed.entry = e
		wr.settler.Refund(ctx, landed)
	}
	if wr.ReturnLost(w, back) {
		return err
	}
	return process.Unanswered(err)
}

// refill sends a refill, and takes in the outcome.
func (p *pursuit) refill(ctx context.Context, next plan.Step) (done bool, err error) {
	out, err := p.send(ctx, &next)
	if out.Applied && len(p.c.want.Asked) > 0 && p.sure != nil && p.c.Terms.Target != nil && p.c.Terms.Target.Differs(p.img, p.Now) {
		p.c.acct.Repaired(p.img.ShardCount)
	}
	return p.wrote(out, err, next.Counted(), next.Kind == plan.Refill)
}

// wrote takes in the outcome of a write. debits says that the write carried the claim, and counted
// which of its amounts moved no balance.
func (p *pursuit) wrote(out store.Outcome, err error, counted plan.Counted, debits bool) (done bool, _ error) {
	landed := p.landed
	p.landed = nil
	p.lacked = err == nil && !out.Applied && out.Image != nil && !p.c.Terms.Covers(out.Image, p.Now)
	if err != nil {
		return false, err
	}
	p.see(out.Image, answered)
	p.met = p.wr.Uptime()
	if !out.Applied || !debits {
		return false, nil
	}
	if p.c.Granted, p.c.landed, p.c.counted, p.c.entry = true, landed, counted, p.entry; p.entry != nil {
		p.wr.settler.keep()
	}
	p.end()
	p.c.earned(p.img, p.Moment, p.ahead())
	return true, nil
}

// look reads the unknown facts of the bucket in one request. It reads the item and,
// unless they were read within the time to live, its configuration and its entity's
// record.
func (p *pursuit) look(ctx context.Context) error {
	wr, b := p.wr, p.c.Bucket
	if w := p.c.acct.Wanted(); w != nil && wr.Config.IsYoung(w, p.Up) {
		loaded, err := wr.Store.Load(ctx, &store.Load{Bucket: &b})
		if err != nil {
			return fmt.Errorf("read the bucket of %s for %s: %w", b.Entity, b.Resource, err)
		}
		p.saw(loaded.Image)
		return nil
	}
	w, img, err := wr.Config.Resolve(ctx, b.Entity, b.Resource, &b)
	if err != nil {
		return err
	}
	p.read = true
	p.c.acct.Want(w)
	p.saw(img)
	return nil
}

// saw takes in what was read of the item. A nil image means that the item does not
// exist.
func (p *pursuit) saw(img *store.Image) {
	if img == nil {
		p.see(nil, missing)
		return
	}
	p.see(img, remembered)
	p.c.acct.Remember(img, p.Moment)
}

// verify finds out what a bucket is to be when its item differs from what is
// remembered. Callers of one process verify one after the other. A caller that waited
// looks at what the other one brought.
func (p *pursuit) verify(ctx context.Context) error {
	var w *plan.Wanted
	var err error
	acct, in := p.c.acct, p.wr.inspector
	defer acct.leave()
	ran, waited := acct.enter().verifying.Do(ctx, p.left, func() { w, err = in.verifySoon(ctx, acct, p.c.Bucket) })
	switch {
	case waited != nil:
		return process.Unavailable(waited)
	case !ran:
		p.recall(p.wr.Uptime())
	case err != nil && (len(p.c.want.Asked) == 0 || !in.takeAsIs(ctx, p.c, p.img, err)):
		return err
	case err == nil:
		p.sure = w
	}
	return nil
}

// create makes the bucket with the claim already debited, from the current
// configuration. If only this shard of the bucket is missing, create makes the shard
// instead.
func (p *pursuit) create(ctx context.Context) (done bool, err error) {
	wr, c := p.wr, p.c
	c.acct.Forget(c.Shard)
	if p.c.acct.ShardCount() > 1 || c.Shard > 0 {
		return p.mend(ctx)
	}
	w, err := p.prepare(ctx)
	switch {
	case err != nil:
		return true, err
	case w == nil:
		return p.mend(ctx)
	case w.IsDisabled(p.Now):
		return true, p.disabled(w)
	case !w.IsEvaluable():
		return true, unsupported(c.Bucket, w.Features)
	}
	if c.adopt(w); c.want.TakesNothing(&c.Terms) {
		p.end()
		return true, nil
	}
	c.Parent = plan.PayerOf(&w.Owner)
	n := c.newBucket(p.Now, wr.Multiplier)
	if img := plan.ImageOf(n); !c.Terms.Covers(img, p.Now) {
		c.Refused, c.images, c.At = true, []*store.Image{img}, p.Now
		return true, nil
	}
	plan.DebitNew(n, c.Terms.Amounts)
	next := plan.Step{Kind: plan.Create, Create: n}
	out, err := p.send(ctx, &next)
	return p.wrote(out, err, next.Counted(), true)
}

// prepare reads at the same time all that a bucket is made from: its configuration,
// and whether shards of it exist. It returns nil if shards exist.
func (p *pursuit) prepare(ctx context.Context) (w *plan.Wanted, err error) {
	wr, acct, of := p.wr, p.c.acct, p.c.Bucket // keeps p itself on the stack
	var siblings []*store.Image
	var errs [2]error
	wr.AtOnce(len(errs), func(i int) {
		if i == 0 {
			w, errs[i] = wr.Verify(ctx, &acct.Account, of)
		} else {
			siblings, errs[i] = wr.Store.Buckets(ctx, of.Entity, of.Resource, 0)
		}
	})
	if errs[1] != nil {
		errs[1] = fmt.Errorf("look for shards of %s of %s: %w", p.c.Resource, p.c.Entity, errs[1])
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	p.Moment = p.wr.Moment()
	if len(siblings) > 0 {
		p.c.acct.Recount(siblings, p.Moment)
		return nil, nil
	}
	return w, nil
}

// mend makes a missing shard, and lets the claim choose again. A shard that cannot
// be made, because of a peer's stamps on its siblings, holds nothing.
func (p *pursuit) mend(ctx context.Context) (done bool, err error) {
	exists, err := p.wr.upkeep.Mend(ctx, &p.c.acct.Account, p.c.Bucket, p.left)
	switch {
	case err != nil:
		return true, err
	case exists && p.c.lastImage(p.Up) == nil && p.c.Shard < p.c.acct.ShardCount():
		p.c.short = true
		return true, nil
	}
	return true, errShardsChanged
}

// newBucket returns the wanted bucket, full except for the write that makes it, and bypassed if it
// is to be.
func (c *Claim) newBucket(now, multiplier int64) *store.Create {
	n := &store.Create{Bucket: c.Bucket, Now: now, ShardCount: 1, Owner: c.Terms.Target.Owner, Writes: plan.FirstWrite()}
	var life int64
	for _, limit := range c.Terms.Target.Limits {
		p := limit.Params()
		life = max(life, plan.LifeOf(&store.LimitState{Params: &p}, 0, 1, now, multiplier))
		n.Limits = append(n.Limits, store.NewLimit{
			NamedParams: store.NamedParams{Limit: limit.Name, Params: p},
			Tokens:      plan.InForce(p, now).Capacity,
			SoftUntil:   plan.StampOf(&limit, now),
			Observed:    store.Observed{Mode: limit.Mode},
		})
	}
	n.MarkedUntil = c.Terms.BypassStamp(now)
	n.Bypassed = n.MarkedUntil != 0
	plan.DebitNew(n, nil)
	if c.Terms.Target.Expires {
		n.ExpiresAt = plan.ExpiresAt(life, now, multiplier)
	}
	return n
}
