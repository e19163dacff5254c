package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxTries bounds the writes one claim may need. Every try but the first means
// that somebody else's write got in between, so a limit is reached only where
// hundreds of clients fight over one item.
const maxTries = 100

// debit carries a claim out against the bucket item it was routed to, together
// with those of other callers who want to write to it at the same time.
func (l *Limiter) debit(ctx context.Context, c *claim, left <-chan struct{}) error {
	c.short, c.portions = false, nil
	img := c.acct.image(c.Shard, l.now(), imageAge.Milliseconds())
	if l.places.base == 0 || c.want != nil {
		return l.debitAlone(ctx, c, left)
	}
	switch common, err := l.isCommon(ctx, c, img); {
	case err != nil:
		return err
	case !common:
		return l.debitAlone(ctx, c, left)
	}
	ps := l.placesFor(c, img)
	ln := &c.acct.shard(c.Shard).takes
	if img != nil && img.ShardCount > 1 && c.acct.isSpaced(c.Shard, l.now()) && ln.asksForAll(c, img, l.now()) {
		c.refusedBy(img, l.now())
		return nil
	}
	t := &ticket{claim: c}
	switch told, err := ln.attend(ctx, t, ps, left); {
	case err != nil:
		return err
	case told == done:
		l.counts.carried.Add(1)
		return t.err
	case told == solo:
		return l.debitAlone(ctx, c, left)
	}
	defer ln.leave()
	if err := l.holdBack(ctx, c.acct, c.Shard, left); err != nil {
		return err
	}
	if img = c.acct.image(c.Shard, l.now(), imageAge.Milliseconds()); img != nil && !c.lacks(img) {
		crowd := ln.along(t, func(other *claim) bool { return !other.lacks(img) })
		if len(crowd) > 1 || c.acct.isSpaced(c.Shard, l.now()) {
			l.debitCrowd(ctx, ln, crowd, img, left)
			return t.err
		}
	}
	err := l.debitAlone(ctx, c, left)
	if ps.base == 1 && c.acct.image(c.Shard, l.now(), imageAge.Milliseconds()) == nil {
		ln.disperse() // the others would find out no more, one after the other
	}
	return err
}

// isCommon reports whether a claim is one that can be added up with others. What
// its bucket neither has nor is to have, as a parent may lack some of its
// children's limits, is taken out of it first.
func (l *Limiter) isCommon(ctx context.Context, c *claim, img *Image) (bool, error) {
	if img == nil || !c.lacks(img) {
		return !img.isWide(), nil
	}
	if err := l.wantConfigured(ctx, c, c.acct); err != nil {
		return false, err
	}
	if c.dropUnknown(); len(c.amounts) == 0 || c.want.differs(img) {
		return false, nil
	}
	c.want, c.fits = nil, c.want
	return true, nil
}

// debitAlone carries a claim out against one bucket item: one write if what is
// remembered of it is right, and one more for each thing it turned out to be
// wrong about, each decided on the image that the refusal carried. It ends
// with the claim granted, refused, found short on this shard, or an error, and
// on error nothing of the claim is known to be debited.
//
// left is closed when the caller has gone; no further write is begun then.
func (l *Limiter) debitAlone(ctx context.Context, c *claim, left <-chan struct{}) error {
	p := pursuit{l: l, c: c, acct: c.acct, left: left, now: l.now()}
	if c.want == nil && c.optional && l.isUnlimited(p.acct, p.now) {
		c.unknown = namesOf(c.amounts)
		return nil
	}
	p.img = p.acct.image(c.Shard, p.now, imageAge.Milliseconds())
	if p.img == nil && p.acct.hasRetired(c.Shard) {
		return errRerouted // merged since it was drawn
	}
	for tries := range maxTries {
		if err := p.space(ctx, tries); err != nil {
			return err
		}
		if tries > 0 {
			p.catchUp()
		}
		switch done, err := p.step(ctx); {
		case errors.Is(err, ErrConflict):
		case done || err != nil:
			return err
		}
	}
	return contended(c.Bucket)
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

	now   int64  // one reading of the clock serves a step whole
	img   *Image // what is known of the bucket
	fresh bool   // img has just refused a write
	full  bool   // the write under way is one to an item that overflows
	met   int64  // when that was, in milliseconds
	// lacked says that the write that img has just refused was for more than it held.
	lacked bool
	read   *resolved // what was read along with img, if it was read
	// mended says that a sibling was looked for that could take what is too much.
	mended bool
	// sought says that siblings of a missing shard 0 were looked for, in vain.
	sought bool
}

// step plans the next step and takes it.
func (p *pursuit) step(ctx context.Context) (done bool, err error) {
	c := p.c
	if p.img != nil && p.img.isOverfull() && !p.mended && p.acct.image(p.img.sibling(), p.now, imageAge.Milliseconds()) == nil {
		p.mended = true
		return p.replace(ctx)
	}
	next, refill, wait := p.plan()
	switch next {
	case stepRead:
		return false, p.look(ctx)
	case stepTake, stepRefill, stepRepair:
		return p.write(ctx, next, refill)
	case stepCreate:
		return p.create(ctx)
	case stepConfigure:
		return p.configure(ctx)
	case stepWait:
		p.fresh = false
		return false, p.l.relieve(ctx, p.acct, p.img, wait, p.left)
	case stepRefuse:
		if p.l.recheck(ctx, c, p.now) {
			return false, nil
		}
		c.refusedBy(p.img, p.now)
		return true, nil
	case stepDisabled:
		return true, &DisabledError{Entity: c.Entity, Resource: c.Resource}
	case stepForeign:
		return true, &UnsupportedError{Entity: c.Entity, Resource: c.Resource, Feature: p.img.Foreign}
	case stepDone:
	}
	p.end()
	return true, nil
}

// catchUp looks at the clock. An image that refused a write is not fresh any more
// once a pause has given others the time for theirs.
func (p *pursuit) catchUp() {
	const stale = 10
	p.now = p.l.now()
	if !p.fresh || p.img == nil || p.now-p.met < stale {
		return
	}
	if img := p.acct.image(p.c.Shard, p.now, imageAge.Milliseconds()); img != nil {
		p.img, p.fresh = img, false
	}
}

// plan decides the next step on what is known.
func (p *pursuit) plan() (step, *Refill, time.Duration) {
	p.c.haste = p.acct.hurry(p.c.Shard, p.now)
	return p.c.plan(p.img, p.fresh, p.now, p.l.multiplier)
}

// end keeps what the bucket was found to be.
func (p *pursuit) end() { p.c.image, p.c.at, p.c.parent = p.img, p.now, cascadeOf(p.img) }

// refusedBy ends a claim that an item cannot serve: with a refusal, if that is
// the whole bucket.
func (c *claim) refusedBy(img *Image, now int64) {
	c.image, c.at, c.parent = img, now, cascadeOf(img)
	c.short = img.ShardCount > 1
	c.refused = !c.short
}

// write takes or refills, and takes in the outcome.
func (p *pursuit) write(ctx context.Context, next step, refill *Refill) (done bool, err error) {
	var out Outcome
	if next == stepTake {
		take := p.c.takeInHaste(p.img, p.fresh, p.now)
		if take == nil {
			take = p.c.take(p.img, p.now)
		}
		p.full = take.Since != 0
		out, err = p.l.store.Take(ctx, take)
		return p.wrote(ctx, out, err, true)
	}
	p.full = refill.FullSince != 0
	if p.l.places.base == 0 || p.full {
		out, err = p.refill(ctx, refill)
		return p.wrote(ctx, out, err, next == stepRefill)
	}
	// Refills have one lock, the stamp: those of one process need not fight for
	// it too. Who waited looks at what the other one brought.
	ran, waited := p.acct.shard(p.c.Shard).refilling.do(ctx, p.left, func() {
		out, err = p.refill(ctx, refill)
		done, err = p.wrote(ctx, out, err, next == stepRefill)
	})
	if !ran && waited == nil {
		p.met = p.l.now()
		p.img = p.acct.image(p.c.Shard, p.met, imageAge.Milliseconds())
		p.fresh = p.img != nil
	}
	return done, cmp.Or(err, waited)
}

func (p *pursuit) refill(ctx context.Context, r *Refill) (Outcome, error) {
	p.acct.moves(p.c.Shard, 1)
	defer p.acct.moves(p.c.Shard, -1)
	return p.l.store.Refill(ctx, r)
}

// wrote takes in the outcome of a write; debits says that it carried the claim.
func (p *pursuit) wrote(ctx context.Context, out Outcome, err error, debits bool) (done bool, _ error) {
	p.l.answered(ctx, p.acct, p.c.Bucket, err, p.now)
	p.lacked = err == nil && !out.Applied && out.Image != nil && !p.c.isCovered(out.Image, p.now)
	if err != nil {
		return false, err
	}
	p.l.learn(p.acct, p.c.Bucket, out, p.now)
	p.acct.contended(p.img, out, p.full, p.l.now())
	if out.Applied && p.c.override && (p.img == nil || p.c.want.differs(p.img)) {
		p.acct.override()
	}
	p.img, p.fresh, p.met = out.Image, true, p.l.now()
	if !out.Applied || !debits {
		return false, nil
	}
	p.c.granted = true
	p.end()
	return true, nil
}

func (c *claim) take(img *Image, now int64) *Take {
	t := &Take{Bucket: c.Bucket, Now: now, Debits: make([]Debit, 0, len(c.amounts))}
	if img.Foreign == "" {
		t.ShardCount = img.ShardCount
	}
	for _, a := range c.amounts {
		d := Debit{Amount: a}
		if s, ok := img.Limit(a.Limit); ok {
			if d.AtMost = img.ceiling(&s, now); img.Foreign == "" {
				d.Params = s.Params
			}
		}
		t.Debits = append(t.Debits, d)
	}
	return t
}

// learn keeps the image an outcome carries, or forgets the bucket it says is
// not there.
func (l *Limiter) learn(acct *account, b Bucket, out Outcome, now int64) {
	if out.Image == nil {
		acct.forget(b.Shard)
		return
	}
	if ahead := out.Image.RefilledAt - now; ahead > maxSkew.Milliseconds() {
		l.logger.Warn("bucket is stamped ahead of the clock", "entity", b.Entity, "resource", b.Resource,
			"shard", b.Shard, "ahead_ms", ahead)
	}
	acct.remember(out.Image, now)
}

// isOverfull reports whether a shard holds more than its share: a peer doubled the
// bucket, and it may be for a shard that does not exist yet.
func (i *Image) isOverfull() bool {
	return i.ShardCount > 1 && i.isPlain(i.RefilledAt) && slices.ContainsFunc(i.Limits, func(s LimitState) bool {
		return s.Tokens > i.share(s.Params).Capacity
	})
}

// sibling is the shard that an item shares half of what it once was with.
func (i *Image) sibling() int { return (i.Shard + i.ShardCount/2) % i.ShardCount }

// configure finds out whether the limits that the bucket lacks are configured:
// those that are will be added, the others are dropped from the claim.
func (p *pursuit) configure(ctx context.Context) (done bool, err error) {
	if p.c.want == nil {
		if err := p.l.wantConfigured(ctx, p.c, p.acct); err != nil {
			return true, err
		}
	}
	p.c.dropUnknown()
	if len(p.c.amounts) > 0 {
		return false, nil
	}
	p.end()
	return true, nil
}

// dropUnknown takes those limits out of the claim that the bucket is not to
// have.
func (c *claim) dropUnknown() {
	known := c.amounts[:0:0]
	for _, a := range c.amounts {
		if c.want.has(a.Limit) {
			known = append(known, a)
			continue
		}
		c.unknown = append(c.unknown, a.Limit)
	}
	c.amounts = known
}

// wantConfigured makes the claim bring the bucket to its configuration.
func (l *Limiter) wantConfigured(ctx context.Context, c *claim, acct *account) error {
	epoch := l.epoch.Load()
	r, err := l.config.resolve(ctx, c.Entity, c.Resource, false, nil)
	if err != nil {
		return fmt.Errorf("read the configuration of %s for %s: %w", c.Resource, c.Entity, err)
	}
	if r.foreign != "" {
		return &UnsupportedError{Entity: c.Entity, Resource: c.Resource, Feature: r.foreign}
	}
	c.want = l.wantedOf(&r)
	c.want.epoch = epoch
	acct.wasComparedAlone(r.fetched, epoch)
	return nil
}

// wantedOf is the bucket that a configuration asks for.
func (l *Limiter) wantedOf(r *resolved) *wanted {
	return &wanted{
		limits: r.limits, whole: len(r.limits) > 0, read: r.fetched,
		expires: r.level >= entityLevels && l.multiplier >= 0,
	}
}

// recheck compares a bucket that is about to refuse with its configuration, if
// that is overdue: a raised limit must not go on refusing. It reports whether
// there is anything to look at again.
func (l *Limiter) recheck(ctx context.Context, c *claim, now int64) bool {
	if c.want != nil || !l.isDue(c.acct, now) {
		return false
	}
	if err := l.wantConfigured(ctx, c, c.acct); err != nil {
		l.logger.WarnContext(ctx, "configuration not compared", "entity", c.Entity, "resource", c.Resource, "error", err)
		return false
	}
	c.dropUnknown()
	return len(c.amounts) > 0
}

// look reads a bucket that was never seen, its configuration and its entity's
// record in one request. What is found is at once brought to its
// configuration.
func (p *pursuit) look(ctx context.Context) error {
	l, c := p.l, p.c
	epoch := l.epoch.Load()
	r, err := l.resolve(ctx, c, &c.Bucket)
	if err != nil {
		return err
	}
	p.img, p.fresh, p.read = r.image, r.image == nil, r
	if r.image == nil {
		return nil
	}
	p.acct.remember(r.image, p.now)
	switch {
	case r.disabled:
		return &DisabledError{Entity: c.Entity, Resource: c.Resource}
	case c.want != nil || r.foreign != "" || r.image.Foreign != "" || len(r.limits) == 0:
		return nil
	}
	c.want = l.wantedOf(r)
	if o := ownerFrom(r); mayRestamp(r.image, r.meta) {
		c.want.owner = &o
	}
	c.want.epoch = epoch
	p.acct.wasComparedAlone(r.fetched, epoch)
	c.dropUnknown()
	return nil
}

// resolve reads the configuration of a claim's bucket.
func (l *Limiter) resolve(ctx context.Context, c *claim, b *Bucket) (*resolved, error) {
	r, err := l.config.resolve(ctx, c.Entity, c.Resource, true, b)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of %s for %s: %w", c.Resource, c.Entity, err)
	}
	return &r, nil
}

// create makes the bucket with the claim already debited, unless only this shard
// of it is missing.
func (p *pursuit) create(ctx context.Context) (done bool, err error) {
	l, c := p.l, p.c
	p.acct.forget(c.Shard)
	if p.acct.shardCount() > 1 || c.Shard > 0 {
		return p.replace(ctx)
	}
	if !p.sought {
		siblings, err := l.store.Buckets(ctx, c.Entity, c.Resource, 0)
		if err != nil {
			return true, fmt.Errorf("look for shards of %s of %s: %w", c.Resource, c.Entity, err)
		}
		p.sought = true
		if len(siblings) > 0 {
			p.acct.recount(siblings, p.now)
			return p.replace(ctx)
		}
		p.now = l.now()
	}
	epoch, r := l.epoch.Load(), p.read
	if r == nil {
		if r, err = l.resolve(ctx, c, nil); err != nil {
			return true, err
		}
	}
	owner := ownerFrom(r)
	if owner.Cascade {
		c.parent = owner.Parent
	}
	switch {
	case r.disabled:
		return true, &DisabledError{Entity: c.Entity, Resource: c.Resource}
	case c.want == nil && r.foreign != "":
		return true, &UnsupportedError{Entity: c.Entity, Resource: c.Resource, Feature: r.foreign}
	case c.want == nil:
		c.want = l.wantedOf(r)
	}
	p.acct.wasChecked(r.fetched, epoch, len(c.want.limits) == 0)
	c.dropUnknown()
	if len(c.amounts) == 0 {
		return true, nil
	}
	n := l.newBucket(c, owner, p.now)
	if img := n.image(); c.exceeds(img) {
		c.refused, c.statuses = true, c.standing([]*Image{img}, p.now)
		return true, nil
	}
	for i := range n.Limits {
		limit := &n.Limits[i]
		limit.Consumed = c.amount(limit.Limit)
		limit.Tokens -= limit.Consumed
	}
	out, err := l.store.Create(ctx, n)
	return p.wrote(ctx, out, err, true)
}

// replace makes the shard that is missing, and lets the claim choose again. One
// that cannot be made, for a peer's stamps on its siblings, holds nothing.
func (p *pursuit) replace(ctx context.Context) (done bool, err error) {
	exists, err := p.l.mend(ctx, p.acct, p.c.Bucket, p.left)
	switch {
	case err != nil:
		return true, err
	case exists && p.acct.image(p.c.Shard, p.now, imageAge.Milliseconds()) == nil && p.c.Shard < p.acct.shardCount():
		p.c.short = true
		return true, nil
	}
	return true, errRerouted
}

// newBucket is the bucket wanted, full but for the write that makes it.
func (l *Limiter) newBucket(c *claim, owner Owner, now int64) *Create {
	n := &Create{Bucket: c.Bucket, Now: now, ShardCount: 1, Owner: owner, Writes: firstWrite()}
	params := make([]Params, 0, len(c.want.limits))
	for _, limit := range c.want.limits {
		p := limit.params()
		params = append(params, p)
		n.Limits = append(n.Limits, NewLimit{
			NamedParams: NamedParams{Limit: limit.Name, Params: p},
			Tokens:      p.Capacity,
		})
	}
	if c.want.expires || !c.want.whole && l.multiplier >= 0 {
		n.ExpiresAt = expiresAt(params, now, l.multiplier)
	}
	return n
}

// image is the item that the create would make.
func (n *Create) image() *Image {
	img := &Image{
		Bucket: n.Bucket, ShardCount: n.ShardCount, RefilledAt: n.Now, ExpiresAt: n.ExpiresAt,
		Cascade: n.Owner.Cascade, Parent: n.Owner.Parent,
		ParentGeneration: n.Owner.Generation, Incarnation: n.Owner.Incarnation,
		Writes: n.Writes.state(),
	}
	for i := range n.Limits {
		img.Limits = append(img.Limits, n.Limits[i].state())
	}
	return img
}

func (l *NewLimit) state() LimitState {
	return LimitState{Name: l.Limit, Tokens: l.Tokens, Consumed: l.Consumed, Params: l.Params}
}

// exceeds reports whether a claim is more than the balances of an image.
func (c *claim) exceeds(img *Image) bool {
	return slices.ContainsFunc(c.amounts, func(a Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Milli > s.Tokens && a.Milli > 0
	})
}

// ownerFrom is what a bucket copies of its entity's record, the configured
// cascade policy coming before the entity's own.
func ownerFrom(r *resolved) Owner {
	var o Owner
	if e := r.meta; e != nil {
		o = Owner{Cascade: e.Cascade, Parent: e.Parent, Generation: e.Generation, Incarnation: e.Incarnation}
	}
	if r.cascade != Inherit {
		o.Cascade = r.cascade == Yes
	}
	o.Cascade = o.Cascade && o.Parent != ""
	return o
}

func namesOf(amounts []Amount) []string {
	names := make([]string, 0, len(amounts))
	for _, a := range amounts {
		names = append(names, a.Limit)
	}
	return names
}

// freeTries are those without a pause before them.
const freeTries = 3

// pause spaces the tries of a contended claim: none before the second and
// third, then a growing random one before every other. After a pause the image
// is old, and the write is likely to bring no more than a new one.
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
	if d <= 0 {
		select {
		case <-left:
			return errLeft
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		default:
			return nil
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-left:
		return errLeft
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
}

// errLeft ends the work for a caller that has gone. Nobody sees it.
var errLeft = errors.New("the caller has left")
